"""Encoders of observations that plugins register, in the networks of policies and critics."""

# mypy: allow-untyped-calls
from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec, ObservationSpec, PluginError
from rlcore_torch import Actor, ActorCritic, ActorPolicy, Critic, EncoderSpec, NetworkSettings
from rlcore_torch.acceleration.numpy_actor import numpy_actor
from rlcore_torch.backend import Backend
from rlcore_torch.networks.settings import CriticSettings

CAMERA = ObservationSpec("camera", (6, 5, 3), np.uint8, "image")
RAY = ObservationSpec("ray", (2,), np.float32)
FLAG = ObservationSpec("flag", (3,), np.float32, "one_hot")


class Sums(nn.Module):
    """A number for each channel of an image, or of each value of a vector: sums that a test computes by hand."""

    def __init__(self, settings: Any, observation: ObservationSpec, features: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(float(features)))
        self.name = observation.name
        self.norm = nn.BatchNorm1d(1)

    def forward(self, x: Tensor) -> Tensor:
        assert x.dtype is torch.float32
        self.norm(x.reshape(-1, 1))
        return self.scale * (x.sum((2, 3)) if x.ndim == 4 else x)


def make(source: Any, **settings: Any) -> NetworkSettings:
    module = ModuleType("acme_encoder")
    module.Encoder = source  # type: ignore[attr-defined]
    sys.modules["acme_encoder"] = module
    record = EncoderSpec(name="acme", target="acme_encoder:Encoder", kinds={"image", "vector"})
    network = {"hidden_units": 7, "vis_encode_type": "acme", "vector_encode_type": "acme", **settings}
    return NetworkSettings(records={"vis_encode_type": record, "vector_encode_type": record}, **network)


def spec(*observations: ObservationSpec) -> BehaviorSpec:
    one = np.ones(1, np.float32)
    return BehaviorSpec("Agent", observations, continuous=1, discrete=(2,), low=-one, high=one)


def seen(rows: int = 4) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    return {
        "camera": generator.integers(0, 256, (rows, 6, 5, 3), np.uint8),
        "ray": generator.standard_normal((rows, 2), np.float32),
        "flag": np.eye(3, dtype=np.float32)[generator.integers(3, size=rows)],
    }


def test_each_observation_has_its_encoder_and_its_features_stand_side_by_side() -> None:
    model = Actor(spec(RAY, CAMERA, FLAG), make(Sums))
    arrays = seen()
    encoded = model.actor.encode(model.inputs(model.inputs.raw(arrays))).detach().numpy()
    image = arrays["camera"].astype(np.float64).sum((1, 2)) / 255
    expected = 7 * np.concatenate([arrays["ray"], arrays["flag"], image], axis=1)
    np.testing.assert_allclose(encoded, expected, rtol=1e-5)
    assert model.actor.layers[0].in_features == 2 + 3 + 3


@pytest.mark.parametrize("high", [1, 10, 255, None, np.array([255.0, 1.0, 0.0])], ids=str)
def test_an_image_of_bytes_spans_0_to_1_whatever_its_largest_value(high: Any) -> None:
    """A mask beside a picture is not divided by the largest brightness; a channel of zeros stays one."""
    camera = ObservationSpec("camera", (6, 5, 3), np.uint8, "image", low=0, high=high)
    model = Actor(spec(camera), make(Sums))
    largest = np.broadcast_to(255 if high is None else high, 3)
    fraction = np.random.default_rng(0).integers(0, 2, (4, 6, 5, 3))
    pixels = (fraction * largest).astype(np.uint8)
    encoded = model.actor.encode(model.inputs(model.inputs.raw({"camera": pixels}))).detach().numpy()
    expected = 7 * (fraction * (largest > 0)).sum((1, 2))
    np.testing.assert_allclose(encoded, expected, rtol=1e-6)


def test_a_critic_that_is_frozen_gives_an_action_a_gradient_and_its_encoders_none() -> None:
    settings = make(Sums)
    critic = Critic(Actor(spec(RAY, CAMERA), settings).inputs, settings, outputs=1, continuous=1)
    inputs = Actor(spec(RAY, CAMERA), settings).inputs.raw(seen())
    action = torch.zeros(4, 1, requires_grad=True)
    critic(inputs, action, frozen=True).sum().backward()
    assert action.grad is not None and all(parameter.grad is None for parameter in critic.parameters())
    critic(inputs, action).sum().backward()
    assert all(encoder.scale.grad is not None for encoder in (*critic.body.encoders, *critic.body.vector_encoders))


def test_a_policy_with_a_vector_encoder_acts_as_its_model_does() -> None:
    """The actor in NumPy has no encoders, and must not act in place of this model."""
    model = Actor(spec(RAY), make(Sums, activation="tanh"))
    assert numpy_actor(model) is None
    assert numpy_actor(Actor(spec(RAY), make(Sums, activation="tanh", vector_encode_type=None))) is not None
    policy = ActorPolicy(spec(RAY), model, Backend(torch.device("cpu"), numpy_actor=numpy_actor))
    arrays = {"ray": seen()["ray"]}
    mean, logits = model.policy((torch.from_numpy(arrays["ray"]),))
    acted = policy.act(arrays)
    assert mean is not None and logits is not None and acted.continuous is not None and acted.discrete is not None
    np.testing.assert_allclose(acted.continuous, np.clip(mean.detach().numpy(), -1, 1), rtol=1e-5)
    np.testing.assert_array_equal(acted.discrete[:, 0], logits.argmax(1).numpy())
    module = policy.module()
    copied = policy.snapshot()
    for other in (module({"ray": torch.from_numpy(arrays["ray"])}).continuous, copied.act(arrays).continuous):
        np.testing.assert_allclose(np.asarray(other), acted.continuous, rtol=1e-5)


def crashing(settings: Any, observation: ObservationSpec, features: int) -> nn.Module:
    raise KeyError("weights")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (crashing, r"encoder 'acme' failed for observation 'camera' of shape \(6, 5, 3\): KeyError.*weights"),
        (lambda **_: 3, "encoder 'acme': returned a int, not a torch.nn.Module"),
        (lambda **_: nn.Identity(), r"encoder 'acme': made torch.float32 \[2, 3, 6, 5\] of 2 rows of observation 'cam"),
        (lambda **_: nn.Linear(4, 4), r"encoder 'acme' failed for observation 'camera'"),
    ],
)
def test_an_encoder_that_cannot_be_used_is_named_with_its_observation(source: Any, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        Actor(spec(CAMERA), make(source))


@pytest.mark.parametrize("kinds", [set(), {"images"}, {"image", "sound"}])
def test_a_record_reads_kinds_of_observations_that_there_are(kinds: set[str]) -> None:
    with pytest.raises(ValueError, match="kinds"):
        EncoderSpec(name="acme", target="acme:Encoder", kinds=kinds)


def test_policy_and_critic_have_hidden_layers_of_their_own_sizes() -> None:
    critic = CriticSettings(hidden_layers=(4,), activation="relu")
    settings = NetworkSettings(hidden_layers=(9, 5), critic=critic)
    model = ActorCritic(spec(RAY), settings, value_heads=2, shared=False)
    assert [tuple(layer.weight.shape) for layer in model.actor.layers] == [(9, 2), (5, 9)]
    assert isinstance(model.critic.layers[0], nn.Linear)
    assert [tuple(layer.weight.shape) for layer in model.critic.layers] == [(4, 2)]
    x = torch.randn(3, 2)
    layer = model.critic.layers[0]
    by_hand = torch.relu(x @ layer.weight.T + layer.bias) @ model.value_head.weight.T + model.value_head.bias
    torch.testing.assert_close(model.value((x,)), by_hand)
    q = Critic(model.inputs, settings, outputs=1, continuous=1)
    assert [tuple(layer.weight.shape) for layer in q.body.layers] == [(4, 3)]
