"""The names, types, shapes and rules of each profile, read from the file with onnx alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, numpy_helper

from rlcore import BehaviorSpec, ObservationSpec, UnsupportedExport
from rlcore_torch import NetworkSettings
from rlcore_torch.policy.untrained import untrained_policy

NAMES = {TensorProto.FLOAT: "float", TensorProto.BOOL: "bool", TensorProto.INT64: "int64", TensorProto.UINT8: "uint8"}
# The operators that the exporter may write. Unity's Inference Engine has all of them, and so has every runtime.
OPERATORS = {
    "Add", "ArgMax", "Cast", "Clip", "Concat", "Conv", "Elu", "Erf", "Exp", "Flatten", "Gemm", "Identity",
    "LeakyRelu", "Less", "Log", "Max", "MaxPool", "Min", "Mul", "Neg", "Relu", "Reshape", "Selu", "Sigmoid", "Softmax",
    "Softplus", "Split", "Sub", "Tanh", "Transpose", "Unsqueeze", "Where",
}  # fmt: skip
KINDS = [
    ("continuous", "gaussian"), ("hybrid", "squashed_gaussian"), ("continuous", "state_dependent_gaussian"),
    ("branches", None),
]  # fmt: skip
UNITY_OPERATORS = OPERATORS - {"Cast"}


def tensors(values: Any) -> dict[str, tuple[str, list[Any]]]:
    """Type and shape by name; the size of a free axis is its name."""
    return {
        value.name: (
            NAMES[value.type.tensor_type.elem_type],
            [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim],
        )
        for value in values
    }


def described(path: Path) -> tuple[onnx.ModelProto, Any, Any]:
    model = onnx.load(path)
    return model, tensors(model.graph.input), tensors(model.graph.output)


def metadata(model: onnx.ModelProto) -> dict[str, Any]:
    (entry,) = model.metadata_props
    assert entry.key == "rlcore"
    document: dict[str, Any] = json.loads(entry.value)
    return document


def test_generic_has_the_names_types_and_layouts_of_the_behavior(make_policy: Any, export: Any) -> None:
    model, inputs, outputs = described(export(make_policy("cnn", "hybrid")))
    assert inputs == {
        "camera": ("uint8", ["batch", 20, 24, 3]),
        "state": ("float", ["batch", 5]),
        "action_mask": ("bool", ["batch", 5]),
        "epsilon": ("float", ["batch", 7]),
    }
    assert outputs == {
        "continuous": ("float", ["batch", 2]),
        "deterministic_continuous": ("float", ["batch", 2]),
        "discrete": ("int64", ["batch", 2]),
        "deterministic_discrete": ("int64", ["batch", 2]),
    }
    assert [each.version for each in model.opset_import] == [18]


def test_unity_has_the_names_that_ml_agents_reads(make_policy: Any, export: Any) -> None:
    model, inputs, outputs = described(export(make_policy("cnn", "hybrid"), profile="unity"))
    assert inputs == {
        "obs_0": ("float", ["batch", 3, 20, 24]),
        "obs_1": ("float", ["batch", 5]),
        "action_masks": ("float", ["batch", 5]),
        "epsilon": ("float", ["batch", 7]),
    }
    assert outputs == {
        "version_number": ("float", [1]),
        "memory_size": ("float", [1]),
        "continuous_actions": ("float", ["batch", 2]),
        "continuous_action_output_shape": ("float", [1]),
        "deterministic_continuous_actions": ("float", ["batch", 2]),
        "discrete_actions": ("int64", ["batch", 2]),
        "discrete_action_output_shape": ("float", [1, 2]),
        "deterministic_discrete_actions": ("int64", ["batch", 2]),
    }
    assert [each.version for each in model.opset_import] == [15]
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    assert constants["version_number"].tolist() == [3.0] and constants["memory_size"].tolist() == [0.0]
    assert constants["continuous_action_output_shape"].tolist() == [2.0]
    assert constants["discrete_action_output_shape"].tolist() == [[3.0, 2.0]]
    assert {constants[name].dtype for name in outputs if name in constants} == {np.dtype("float32")}


def test_unity_has_memory_of_rank_3(make_policy: Any, export: Any, load: Any) -> None:
    path = export(make_policy("lstm", "continuous"), profile="unity")
    model, inputs, outputs = described(path)
    assert inputs["recurrent_in"] == outputs["recurrent_out"] == ("float", ["batch", 1, 16])
    assert "action_masks" not in inputs and "discrete_actions" not in outputs
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    assert constants["memory_size"].tolist() == [16.0]
    zeros = {name: np.zeros((1, *shape[1:]), np.float32) for name, (_, shape) in inputs.items()}
    assert load(path)(**zeros)["recurrent_out"].shape == (1, 1, 16)


@pytest.mark.parametrize("actions", ["discrete", "branches", "hybrid"])
@pytest.mark.parametrize("network", ["mlp", "cnn", "lstm"])
def test_unitys_trial_run_with_zeros_and_every_option_forbidden_is_finite(
    make_policy: Any, export: Any, load: Any, network: str, actions: str
) -> None:
    path = export(make_policy(network, actions), profile="unity")
    _, inputs, outputs = described(path)
    found = load(path)(**{name: np.zeros((1, *shape[1:]), np.float32) for name, (_, shape) in inputs.items()})
    assert found.keys() == outputs.keys()
    assert all(np.isfinite(array).all() for array in found.values())


def test_an_action_without_bounds_is_refused_by_unity_and_godot_and_passes_in_generic(
    make_policy: Any, export: Any, load: Any
) -> None:
    low, high = np.array([-1.0, -np.inf, 0.0], np.float32), np.array([1.0, np.inf, np.inf], np.float32)
    policy = make_policy("mlp", "continuous")
    with torch.no_grad():
        policy.model.policy_head.linear.weight *= 10
    behavior = attrs.evolve(policy.behavior, low=low, high=high)
    policy = type(policy)(behavior, policy.model, policy.backend)
    for profile, reader in (("unity", "Unity"), ("godot", "Godot")):
        with pytest.raises(
            UnsupportedExport, match=f"part 1 .* bounds -inf and inf, and actions in {reader} .*profile: generic"
        ):
            export(policy, profile=profile)
    path = export(policy)
    behavior_info = metadata(onnx.load(path))["behavior"]
    assert behavior_info["low"] == [-1.0, None, 0.0] and behavior_info["high"] == [1.0, None, None]
    seen = np.random.default_rng(0).normal(0.5, 3, (100, 5)).astype(np.float32)
    found = load(path)(state=seen, epsilon=np.zeros((100, 3), np.float32))["deterministic_continuous"]
    np.testing.assert_allclose(found, policy.act({"state": seen}).continuous, rtol=0, atol=1e-5)
    assert found[:, 1].min() < -1 and found[:, 1].max() > 1 and found[:, 2].min() == 0


def test_godot_reads_flat_observations_and_probabilities(make_policy: Any, export: Any, load: Any) -> None:
    policy = make_policy("mlp", "branches")
    path = export(policy, profile="godot")
    model, inputs, outputs = described(path)
    assert inputs == {"obs": ("float", ["batch", 5]), "state_ins": ("float", ["batch"])}
    assert outputs == {"output": ("float", ["batch", 9]), "state_outs": ("float", ["batch"])}
    assert [each.version for each in model.opset_import] == [17]
    seen = np.random.default_rng(0).normal(0.5, 2, (40, 5)).astype(np.float32)
    found = load(path)(obs=seen, state_ins=np.arange(40, dtype=np.float32))
    np.testing.assert_array_equal(found["state_outs"], np.arange(40))
    branches = np.split(found["output"], [2, 5], axis=1)
    for branch in branches:
        np.testing.assert_allclose(branch.sum(1), 1, rtol=1e-6)
    choices = np.stack([branch.argmax(1) for branch in branches], axis=1)
    np.testing.assert_array_equal(choices, policy.act({"state": seen}).discrete)
    parts = metadata(model)["action_order"]
    assert [(each["part"], each["index"], each["size"]) for each in parts] == [
        ("discrete", 0, 2), ("discrete", 1, 3), ("discrete", 2, 4)
    ]  # fmt: skip


def test_godot_reads_images_as_flat_numbers_of_the_environment(make_policy: Any, export: Any, load: Any) -> None:
    policy = make_policy("cnn", "continuous")
    path = export(policy, profile="godot")
    _, inputs, _ = described(path)
    assert inputs["camera"] == ("float", ["batch", 1440]) and inputs["state"] == ("float", ["batch", 5])
    generator = np.random.default_rng(0)
    seen = {
        "camera": generator.integers(0, 256, (6, 20, 24, 3)).astype(np.uint8),
        "state": generator.normal(0.5, 2, (6, 5)).astype(np.float32),
    }
    flat = {name: array.reshape(6, -1).astype(np.float32) for name, array in seen.items()}
    found = load(path)(**flat, state_ins=np.zeros(6, np.float32))["output"]
    low, high = policy.behavior.low, policy.behavior.high
    np.testing.assert_allclose(low + (found + 1) / 2 * (high - low), policy.act(seen).continuous, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("network", "actions", "reason"), [("lstm", "discrete", "memory"), ("mlp", "hybrid", "order")])
def test_godot_refuses_what_its_plugin_cannot_read(
    make_policy: Any, export: Any, network: str, actions: str, reason: str
) -> None:
    with pytest.raises(UnsupportedExport, match=f"profile godot: .*{reason}"):
        export(make_policy(network, actions), profile="godot")


@pytest.mark.parametrize("profile", ["generic", "unity", "godot"])
@pytest.mark.parametrize("network", ["mlp", "cnn", "lstm"])
def test_a_file_has_known_operators_only_and_none_that_draws(
    make_policy: Any, export: Any, profile: str, network: str
) -> None:
    used: set[str] = set()
    for actions, distribution in KINDS:
        if profile == "godot" and (network == "lstm" or actions == "hybrid"):
            continue
        path = export(make_policy(network, actions, action_distribution=distribution), profile=profile)
        used |= {node.op_type for node in onnx.load(path).graph.node}
    assert used <= (UNITY_OPERATORS if profile == "unity" else OPERATORS)


def test_observations_of_other_types_ranks_and_reserved_names(export: Any, load: Any) -> None:
    behavior = BehaviorSpec(
        "Walker",
        (
            ObservationSpec("epsilon", (), np.float64),
            ObservationSpec("observation_epsilon", (2, 3), np.int32),
            ObservationSpec("touching/left", (2,), np.bool_),
            ObservationSpec("level", (4,), np.int64, "one_hot"),
            ObservationSpec("volume", (2, 2, 2), np.float32),
        ),
        discrete=(3,),
    )
    policy = untrained_policy(behavior, NetworkSettings(hidden_units=16, num_layers=1, normalize=True), 1)
    model = onnx.load(export(policy))
    names = {o["name"]: o["input"] for o in metadata(model)["behavior"]["observations"]}
    assert names == {
        "epsilon": "observation_observation_epsilon",
        "observation_epsilon": "observation_epsilon",
        "touching/left": "touching/left",
        "level": "level",
        "volume": "volume",
    }
    shapes = {name: shape for name, (_, shape) in described(export(policy, profile="unity"))[1].items()}
    assert [shapes[f"obs_{k}"][1:] for k in range(5)] == [[1], [2, 3], [2], [4], [2, 2, 2]]


def test_metadata_says_where_the_policy_comes_from_and_what_it_needs(make_policy: Any, export: Any) -> None:
    document = metadata(onnx.load(export(make_policy("cnn", "hybrid"), profile="unity")))
    assert document["format"] == 1
    origin = {
        "run_id": "walker", "step": 500, "behavior_steps": 300, "trainer_type": "ppo", "rlcore_version": "0.1.0",
        "configuration_sha256": "0" * 64, "profile": "unity", "continuous_units": "normalized",
    }  # fmt: skip
    assert {name: document[name] for name in origin} == origin
    behavior = document["behavior"]
    assert (behavior["name"], behavior["continuous"], behavior["discrete"]) == ("Walker", 2, [3, 2])
    assert (behavior["low"], behavior["high"], behavior["memory_size"]) == ([-2.0, 0.0], [1.0, 5.0], 0)
    assert behavior["observations"][0] == {
        "name": "camera", "shape": [20, 24, 3], "dtype": "uint8", "kind": "image", "input": "obs_0",
        "input_shape": [3, 20, 24], "input_dtype": "float32", "channels_first": True, "scale": 1 / 255,
    }  # fmt: skip
    assert document["inputs"]["epsilon_size"] == 7
    assert document["outputs"]["deterministic_discrete"] == "deterministic_discrete_actions"


def test_the_readme_lists_the_operators_that_files_have() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    listed = readme.split("own parts need only")[1].split("; in the profile")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == OPERATORS
