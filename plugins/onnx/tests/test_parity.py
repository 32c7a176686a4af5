"""Each part of a network can be exported: the exporter compares each file with its policy, drawn actions included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from rlcore import ObservationSpec
from rlcore_devkit.conformance.states import assert_equal
from rlcore_onnx.runtime import load
from rlcore_torch import ActorPolicy, BatchNorm, DeterministicTanh, NetworkSettings, model_state
from rlcore_torch.networks.distributions import BUILT_IN
from rlcore_torch.networks.layers import ACTIVATIONS as KNOWN
from rlcore_torch.policy.untrained import untrained_policy

Make = Callable[..., ActorPolicy]


@pytest.mark.parametrize("activation", KNOWN)
def test_every_activation_of_the_settings(make_policy: Make, export: Any, activation: str) -> None:
    export(make_policy("mlp", "continuous", activation=activation), profile="unity")


SIZES = {
    "simple": (20, 22),
    "nature_cnn": (36, 40),
    "resnet": (20, 22),
    "match3": (7, 9),
    "fully_connected": (7, 9),
    "impala": (9, 8),
}


@pytest.mark.parametrize("encoder", SIZES)
def test_every_encoder_of_images(make_behavior: Any, export: Any, encoder: str) -> None:
    camera = ObservationSpec("camera", (*SIZES[encoder], 1), np.float32, "image")
    settings = NetworkSettings(hidden_units=16, num_layers=1, vis_encode_type=encoder)
    export(untrained_policy(make_behavior("hybrid", camera), settings, 1), profile="unity")


@pytest.mark.parametrize("profile", ["generic", "unity", "godot"])
@pytest.mark.parametrize("high", [1.0, np.array([255.0, 1.0])], ids=["planes", "picture and mask"])
def test_images_of_bytes_of_any_span(make_behavior: Any, export: Any, high: Any, profile: str) -> None:
    """The export compares the file with the policy."""
    camera = ObservationSpec("camera", (7, 9, 2), np.uint8, "image", low=0.0, high=high)
    settings = NetworkSettings(hidden_units=16, num_layers=1, vis_encode_type="match3")
    path = export(untrained_policy(make_behavior("discrete", camera), settings, 1), profile=profile)
    (seen,) = load(path).metadata["behavior"]["observations"]
    assert seen["scale"] == (1 / np.max(high) if profile == "unity" else 1.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_layers": 0},
        {"hidden_layers": (7, 5, 3)},
        {"normalize": False},
        {"action_distribution": "squashed_gaussian"},
    ],
)
def test_other_networks(make_policy: Make, export: Any, settings: dict[str, Any]) -> None:
    export(make_policy("lstm", "hybrid", **settings))


def normalized(policy: ActorPolicy) -> ActorPolicy:
    """Give every batch normalization a factor, a shift and statistics of its own."""
    with torch.no_grad():
        for layer in policy.model.modules():
            if isinstance(layer, BatchNorm):
                layer.weight.uniform_(0.5, 2.0)
                layer.bias.uniform_(-1.0, 1.0)
                layer.running_mean.uniform_(-1.0, 1.0)
                layer.running_var.uniform_(0.5, 2.0)
    return policy


def operators(path: Path) -> Counter[str]:
    """How often each operator is in the file, without those that name constants."""
    nodes = onnx.load(path).graph.node
    return Counter(node.op_type for node in nodes if node.op_type not in ("Constant", "Identity"))


@pytest.mark.parametrize("profile", ["generic", "unity", "godot"])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_batch_normalization_has_no_operators(make_policy: Make, export: Any, place: str, profile: str) -> None:
    """The file of a plain network has as many of each. The export compares the file with the policy."""
    plain = export(make_policy("mlp", "continuous", activation="relu"), profile=profile)
    policy = normalized(make_policy("mlp", "continuous", activation="relu", batch_norm=place))
    before = model_state(policy.model)
    path = export(policy, profile=profile)
    assert operators(path) == operators(plain)
    assert_equal(model_state(policy.model), before)


def test_batch_normalization_in_residual_blocks(make_policy: Make, export: Any) -> None:
    """Normalization in a residual block is not folded: nothing linear follows it alone."""
    policy = normalized(make_policy("mlp", "continuous", batch_norm="post", blocks="residual"))
    assert operators(export(policy))["Sub"] > 0


def test_a_deterministic_actor(make_policy: Make, export: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN, "gaussian", lambda behavior, **_: DeterministicTanh(behavior))
    export(make_policy("mlp", "continuous", action_distribution="gaussian"))


@pytest.mark.parametrize("profile", ["generic", "unity", "godot"])
@pytest.mark.parametrize("settings", [{}, {"goal_conditioning_type": "none", "num_layers": 1}])
def test_entities_and_goals(make_behavior: Any, export: Any, settings: dict[str, Any], profile: str) -> None:
    seen = (
        ObservationSpec("others", (4, 3), np.float32, "entities"),
        ObservationSpec("state", (5,), np.float32),
        ObservationSpec("target", (2,), np.float32, goal=True),
    )
    network = NetworkSettings(**{"hidden_units": 16, "num_layers": 2, "attention_units": 32, **settings})
    export(untrained_policy(make_behavior("discrete", *seen), network, 1), profile=profile)
