"""Files of the profile ``unity`` in an independent imitation of Unity's loader, rule by rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_files import REFUSED, ExportedPolicy, export, random_mask
from unity_loader import Agent, Generation, ModelRefused, UnityModel, in_scene, sensed

from rlcore_devkit.conformance.exporters import BEHAVIORS
from rlcore_devkit.playing import random_observations

KINDS = [kind for kind in BEHAVIORS if kind not in REFUSED["unity"]]
GENERATIONS: tuple[Generation, ...] = ("outputs", "initializers")


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_unity_acts_as_the_policy(kind: str, generation: Generation, tmp_path: Path) -> None:
    """With the box for deterministic inference ticked, over steps, new episodes and different numbers of agents."""
    exported = export(kind, tmp_path, "unity")
    behavior, policy = exported.behavior, exported.policy
    model = UnityModel(exported.path, in_scene(behavior), generation, deterministic=True)
    generator = np.random.default_rng(1)
    for agents in (1, 3):
        memory = np.zeros((agents, policy.memory_size), np.float32)
        for step in range(4):
            seen, mask = random_observations(behavior, agents, generator), random_mask(behavior, agents, generator)
            starts = np.zeros(agents, bool) | (step == 0)
            starts[0] |= step == 2
            memory[starts] = 0.0
            kept = (memory,) if policy.memory_size else ()
            expected = policy.act(seen, mask, True, *kept)
            masks = None if mask is None else mask.astype(np.float32)
            continuous, discrete = model.step(sensed(behavior, seen), masks, starts)
            if expected.continuous is not None:
                assert continuous is not None
                stretched = behavior.low + (continuous + 1) / 2 * (behavior.high - behavior.low)
                np.testing.assert_allclose(stretched, expected.continuous, rtol=0, atol=1e-5)
            if expected.discrete is not None:
                np.testing.assert_array_equal(discrete, expected.discrete)


@pytest.mark.parametrize("kind", KINDS)
def test_unity_draws_actions_that_are_allowed(kind: str, tmp_path: Path) -> None:
    exported = export(kind, tmp_path, "unity")
    behavior = exported.behavior
    model = UnityModel(exported.path, in_scene(behavior), seed=3)
    generator = np.random.default_rng(2)
    seen = {name: np.repeat(array, 200, axis=0) for name, array in random_observations(behavior, 1, generator).items()}
    mask = random_mask(behavior, 200, generator)
    masks = None if mask is None else mask.astype(np.float32)
    continuous, discrete = model.step(sensed(behavior, seen), masks, np.ones(200, bool))
    if continuous is not None:
        assert len(np.unique(continuous, axis=0)) > 1
    if discrete is not None:
        assert mask is not None
        offsets = np.cumsum((0, *behavior.discrete))[:-1]
        assert np.take_along_axis(mask, discrete + offsets, axis=1).all()
        assert len(np.unique(discrete, axis=0)) > 1


# ------------------------------------------------------------ every rule, broken


@pytest.fixture
def broken(tmp_path: Path) -> Callable[..., str]:
    """``broken("hybrid", change)``: why a changed file is refused, by one generation or with one box at least."""

    def refusal(
        kind: str, change: Callable[[onnx.ModelProto], Any], generation: Generation = "outputs", **loading: Any
    ) -> str:
        exported: ExportedPolicy = export(kind, tmp_path, "unity")
        UnityModel(exported.path, in_scene(exported.behavior), generation, **loading)  # the file as it was exported
        model = onnx.load(exported.path)
        change(model)
        path = tmp_path / "broken.onnx"
        onnx.save(model, path)
        with pytest.raises(ModelRefused) as raised:
            UnityModel(path, in_scene(exported.behavior), generation, **loading)
        return str(raised.value)

    return refusal


def without_output(*names: str) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        kept = [each for each in model.graph.output if each.name not in names]
        assert len(kept) == len(model.graph.output) - len(names)
        del model.graph.output[:]
        model.graph.output.extend(kept)

    return change


def constant(name: str, values: Any, dtype: Any = np.float32) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        (found,) = [each for each in model.graph.initializer if each.name == name]
        found.CopyFrom(numpy_helper.from_array(np.array(values, dtype), name))
        (output,) = [each for each in model.graph.output if each.name == name]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        output.CopyFrom(helper.make_tensor_value_info(name, kind, np.shape(values)))

    return change


def test_the_first_run_must_stay_finite_although_everything_is_forbidden(broken: Any) -> None:
    def infinite(model: onnx.ModelProto) -> None:
        """-inf instead of -1e8 for what is forbidden."""
        found = 0
        for each in model.graph.initializer:
            array = numpy_helper.to_array(each)
            if array.dtype == np.float32 and array.size == 1 and abs(float(array.reshape(()))) >= 1e7:
                each.CopyFrom(numpy_helper.from_array(np.full_like(array, np.copysign(np.inf, array)), each.name))
                found += 1
        assert found

    for kind in ("discrete", "branches", "hybrid"):
        assert "is not finite for zeros" in broken(kind, infinite)


@pytest.mark.parametrize("kind", [onnx.TensorProto.INT64, onnx.TensorProto.DOUBLE, onnx.TensorProto.UINT8])
def test_every_input_is_float32(broken: Any, kind: int) -> None:
    def other_type(model: onnx.ModelProto) -> None:
        model.graph.input[0].type.tensor_type.elem_type = kind
        name = model.graph.input[0].name
        for node in model.graph.node:
            node.input[:] = ["cast" if each == name else each for each in node.input]
        model.graph.node.insert(0, helper.make_node("Cast", [name], ["cast"], to=onnx.TensorProto.FLOAT))

    assert "cannot be run with zeros of float32" in broken("vector", other_type)


@pytest.mark.parametrize("name", ["prev_action", "batch_size", "sequence_length", "obs_x", "obs_7"])
def test_an_input_that_unity_does_not_know_is_refused(broken: Any, name: str) -> None:
    def more(model: onnx.ModelProto) -> None:
        model.graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 1]))

    assert broken("vector", more) == f"unknown input {name!r}"


def test_a_sensor_that_the_model_does_not_read_is_no_error(tmp_path: Path) -> None:
    """Unity warns of it in the editor."""
    exported = export("vector", tmp_path, "unity")
    agent = in_scene(exported.behavior)
    model = UnityModel(exported.path, Agent([*agent.sensors, (5,)], agent.continuous), deterministic=True)
    seen = np.ones((2, 3), np.float32)
    continuous, _ = model.step([seen, np.ones((2, 5), np.float32)], None, np.ones(2, bool))
    alone, _ = UnityModel(exported.path, agent, deterministic=True).step([seen], None, np.ones(2, bool))
    np.testing.assert_array_equal(continuous, alone)


def test_constants_are_outputs_for_one_loader_and_initializers_for_the_other(broken: Any) -> None:
    def computed(model: onnx.ModelProto) -> None:
        """As PyTorch's exporter writes a constant: a node makes it."""
        (found,) = [each for each in model.graph.initializer if each.name == "memory_size"]
        tensor = onnx.TensorProto()
        tensor.CopyFrom(found)
        model.graph.initializer.remove(found)
        model.graph.node.append(helper.make_node("Constant", [], ["memory_size"], value=tensor))

    names = ["version_number", "memory_size", "continuous_action_output_shape", "discrete_action_output_shape"]
    for name in names:
        assert broken("hybrid", without_output(name), "outputs") == f"no output {name!r}"
    assert broken("hybrid", computed, "initializers") == "no constant 'memory_size'"


def test_constants_are_float32(broken: Any) -> None:
    for generation in GENERATIONS:
        wrong = broken("vector", constant("version_number", [3], np.int64), generation)
        assert wrong == "'version_number' is a tensor of int64"


def test_versions(broken: Any) -> None:
    assert broken("memory", constant("version_number", [2.0])) == "version 2 with memory"
    assert broken("vector", constant("version_number", [4.0])) == "version 4"


def test_without_a_name_that_contains_the_actions_the_loader_looks_for_an_old_model(broken: Any) -> None:
    gone = without_output("continuous_actions", "deterministic_continuous_actions")
    assert broken("vector", gone, "outputs") == "no output 'is_continuous_control'"
    assert broken("vector", gone, "initializers") == "no constant 'is_continuous_control'"


def test_both_deterministic_and_drawn_outputs_are_needed(broken: Any) -> None:
    """A name is found as a part of another one, so the branch is taken and its output is missing."""
    for kind, part in (("vector", "continuous"), ("discrete", "discrete")):
        drawn, deterministic = f"{part}_actions", f"deterministic_{part}_actions"
        assert broken(kind, without_output(drawn)) == f"no output {drawn!r}"
        ticked = broken(kind, without_output(deterministic), deterministic=True)
        assert ticked == f"no output {deterministic!r}"


def test_sizes_of_actions_are_those_of_the_scene(broken: Any) -> None:
    assert (
        broken("vector", constant("continuous_action_output_shape", [3.0])) == "continuous_action_output_shape is [3.0]"
    )
    for wrong in ([[9.0]], [2.0, 3.0, 4.0], [[3.0]], [[2.0, 3.0, 5.0]]):  # one size for each branch, in one row
        assert "discrete_action_output_shape is" in broken("branches", constant("discrete_action_output_shape", wrong))


def test_hybrid_actions_need_both_groups(broken: Any) -> None:
    for part in ("continuous", "discrete"):
        gone = without_output(f"{part}_actions", f"deterministic_{part}_actions")
        assert broken("hybrid", gone) == f"no {part} actions"


def test_discrete_actions_are_whole_numbers(broken: Any) -> None:
    def as_float(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            node.output[:] = ["chosen" if each == "discrete_actions" else each for each in node.output]
            node.input[:] = ["chosen" if each == "discrete_actions" else each for each in node.input]
        model.graph.node.append(helper.make_node("Cast", ["chosen"], ["discrete_actions"], to=onnx.TensorProto.FLOAT))
        (output,) = [each for each in model.graph.output if each.name == "discrete_actions"]
        output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT

    assert broken("discrete", as_float) == "discrete actions are not whole numbers"


def test_memory_has_rank_3(broken: Any) -> None:
    def flat(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            node.output[:] = ["row" if each == "recurrent_out" else each for each in node.output]
        model.graph.node.append(helper.make_node("Flatten", ["row"], ["recurrent_out"], axis=1))
        (output,) = [each for each in model.graph.output if each.name == "recurrent_out"]
        output.CopyFrom(helper.make_tensor_value_info("recurrent_out", onnx.TensorProto.FLOAT, ["batch", 8]))

    assert broken("memory", flat) == "recurrent_out has shape (1, 8)"


def test_the_operator_set_is_15_or_lower_and_has_no_random_numbers(broken: Any) -> None:
    def newer(model: onnx.ModelProto) -> None:
        model.opset_import[0].version = 18

    def random(model: onnx.ModelProto) -> None:
        model.graph.node.append(helper.make_node("RandomNormalLike", ["obs_0"], ["noise"]))

    assert broken("vector", newer) == "operator set '' 18"
    assert broken("vector", random) == "operator RandomNormalLike"


def test_a_batch_of_one_size_is_refused_when_more_agents_play(tmp_path: Path) -> None:
    exported = export("vector", tmp_path, "unity")
    model = onnx.load(exported.path)
    for each in (*model.graph.input, *model.graph.output):
        if each.type.tensor_type.shape.dim[0].dim_param:
            each.type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(model, tmp_path / "fixed.onnx")
    one = UnityModel(tmp_path / "fixed.onnx", in_scene(exported.behavior))
    one.step([np.zeros((1, 3), np.float32)], None, np.ones(1, bool))
    with pytest.raises(ModelRefused, match="cannot decide for 3 agents"):
        one.step([np.zeros((3, 3), np.float32)], None, np.ones(3, bool))
