"""The names, types, shapes and rules of each profile, read from the file with onnx alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, numpy_helper

from rlcore import BehaviorSpec, ObservationSpec, UnsupportedExport
from rlcore_torch import NetworkSettings
from rlcore_torch.policy.untrained import untrained_policy

NAMES = {TensorProto.FLOAT: "float", TensorProto.BOOL: "bool", TensorProto.INT64: "int64", TensorProto.UINT8: "uint8"}
DATA = yaml.safe_load((Path(__file__).parent / "data/profiles.yaml").read_text(encoding="utf-8"))
LAYOUTS = DATA["layouts"]
METADATA = DATA["metadata"]
OPERATORS = set(DATA["operators"])
KINDS = [
    ("continuous", "gaussian"), ("hybrid", "squashed_gaussian"), ("continuous", "state_dependent_gaussian"),
    ("branches", None),
]  # fmt: skip


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


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_profile_has_these_names_types_and_shapes(make_policy: Any, export: Any, name: str) -> None:
    layout = LAYOUTS[name]
    model, *found = described(export(make_policy(layout["network"], layout["actions"]), profile=layout["profile"]))
    assert found == [{each: tuple(kind) for each, kind in layout[part].items()} for part in ("inputs", "outputs")]
    assert [each.version for each in model.opset_import] == [layout["opset"]]
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for each, value in layout.get("constants", {}).items():
        assert constants[each].tolist() == value and constants[each].dtype == np.float32


def test_an_action_without_bounds_is_refused_by_unity_and_godot_and_passes_in_generic(
    make_policy: Any, export: Any
) -> None:
    low = np.array([-1.0, -np.inf, 0.0], np.float32)
    high = np.array([1.0, np.inf, np.inf], np.float32)
    policy = make_policy("mlp", "continuous")
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


def test_godot_reads_flat_observations_and_probabilities(make_policy: Any, export: Any, load: Any) -> None:
    policy = make_policy("mlp", "branches")
    path = export(policy, profile="godot")
    seen = np.random.default_rng(0).normal(0.5, 2, (40, 5)).astype(np.float32)
    found = load(path)(obs=seen, state_ins=np.arange(40, dtype=np.float32))
    np.testing.assert_array_equal(found["state_outs"], np.arange(40))
    branches = np.split(found["output"], [2, 5], axis=1)
    for branch in branches:
        np.testing.assert_allclose(branch.sum(1), 1, rtol=1e-6)
    choices = np.stack([branch.argmax(1) for branch in branches], axis=1)
    np.testing.assert_array_equal(choices, policy.act({"state": seen}).discrete)
    parts = metadata(onnx.load(path))["action_order"]
    assert [(each["part"], each["index"], each["size"]) for each in parts] == [
        ("discrete", 0, 2), ("discrete", 1, 3), ("discrete", 2, 4)
    ]  # fmt: skip


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
    assert used <= OPERATORS


def test_observations_of_other_types_ranks_and_reserved_names(export: Any, load: Any) -> None:
    behavior = BehaviorSpec(
        "Walker",
        (
            ObservationSpec("epsilon", (), np.float64),
            ObservationSpec("observation_epsilon", (2, 3), np.uint16),
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
    for place, value in METADATA.items():
        found: Any = document
        for key in place.split("."):
            found = found[int(key) if key.isdigit() else key]
        assert found == value, place
    assert document["configuration_sha256"] == "0" * 64
    assert document["behavior"]["observations"][0]["scale"] == 1 / 255
