"""Networks that read entities, and networks whose last layer a goal chooses."""

# mypy: allow-untyped-calls
from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import layer_norm, silu

from rlcore import BehaviorSpec, ObservationSpec, SettingError
from rlcore_torch import Actor, Body, Critic, NetworkSettings, ObservationInputs
from rlcore_torch.acceleration.numpy_actor import numpy_actor

STATE = ObservationSpec("state", (3,), np.float32)
OTHERS = ObservationSpec("others", (4, 2), np.float32, "entities")
WALLS = ObservationSpec("walls", (3, 5), np.float32, "entities")
TARGET = ObservationSpec("target", (2,), np.float32, goal=True)
CAMERA = ObservationSpec("camera", (6, 6, 1), np.uint8, "image")
ALL = (OTHERS, STATE, CAMERA, TARGET, WALLS)
ROWS = 5


def body(*observations: ObservationSpec, extra: int = 0, **settings: Any) -> tuple[Body, ObservationInputs]:
    torch.manual_seed(0)
    inputs = ObservationInputs(observations, normalize=settings.pop("normalize", False))
    chosen = NetworkSettings(**{"hidden_units": 8, "attention_units": 16, "vis_encode_type": "match3", **settings})
    return Body(inputs, chosen, extra), inputs


def seen(*observations: ObservationSpec) -> dict[str, NDArray[Any]]:
    generator = np.random.default_rng(1)
    return {o.name: (9 * generator.standard_normal((ROWS, *o.shape))).astype(o.dtype) for o in observations}


def features(network: Body, inputs: ObservationInputs, arrays: dict[str, NDArray[Any]]) -> Tensor:
    return network(inputs(inputs.raw(arrays))).detach()  # type: ignore[no-any-return]


@pytest.mark.parametrize("normalize", [False, True])
def test_order_and_absent_entities_change_nothing(normalize: bool) -> None:
    network, inputs = body(*ALL, normalize=normalize)
    arrays = seen(*ALL)
    arrays["others"][:, 2:] = 0.0
    if normalize:
        inputs.update_normalizer(inputs.raw(seen(*ALL)))
    before = features(network, inputs, arrays)
    moved = {**arrays, "others": arrays["others"][:, [3, 1, 2, 0]], "walls": arrays["walls"][:, ::-1].copy()}
    torch.testing.assert_close(features(network, inputs, moved), before, rtol=0, atol=1e-6)
    # A network for more entities has the same weights, and sees the same where the others are absent.
    more = attrs.evolve(OTHERS, shape=(7, 2))
    wider, wide_inputs = body(more, *ALL[1:], normalize=normalize)
    wider.load_state_dict(network.state_dict())
    if inputs.normalizer is not None and wide_inputs.normalizer is not None:
        wide_inputs.update_normalizer(wide_inputs.raw({**seen(*ALL), "others": np.zeros((ROWS, 7, 2), np.float32)}))
    padded = {**arrays, "others": np.pad(arrays["others"], ((0, 0), (1, 2), (0, 0)))}
    torch.testing.assert_close(features(wider, wide_inputs, padded), before, rtol=0, atol=1e-6)


def test_a_row_without_entities_has_a_finite_gradient_and_sees_the_rest() -> None:
    network, inputs = body(OTHERS, STATE)
    arrays = seen(OTHERS, STATE)
    arrays["others"][1] = 0.0
    encoded = network.encode(inputs.raw(arrays))
    assert (encoded[1, 3:] == 0).all() and (encoded[0, 3:] != 0).any()
    np.testing.assert_array_equal(encoded[:, :3].detach(), arrays["state"])
    network(inputs.raw(arrays)).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def test_entities_are_embedded_beside_all_other_observations() -> None:
    network, inputs = body(*ALL)
    arrays = seen(*ALL)
    arrays["others"][:, 1] = 0.0
    raw = inputs.raw(arrays)
    found = network.encode(raw)
    assert network.entities is not None
    (camera,) = network.encoders
    pixels = camera(torch.from_numpy(arrays["camera"]).permute(0, 3, 1, 2) / 255.0)
    beside = torch.cat([*(torch.from_numpy(arrays[name]) for name in ("state", "target")), pixels], dim=1)
    assert network.entities.beside is not None
    known = silu(network.entities.beside(beside))
    sets = []
    for name, embedding in zip(("others", "walls"), network.entities.embeddings, strict=True):
        x = torch.from_numpy(arrays[name])
        sets.append(silu(embedding.linear(torch.cat([known.unsqueeze(1).expand(-1, x.shape[1], -1), x], dim=2))))
    present = torch.ones(ROWS, 7, dtype=torch.bool)
    present[:, 1] = False
    expected = torch.cat([beside, network.entities.attention(torch.cat(sets, dim=1), present)], dim=1)
    torch.testing.assert_close(found, expected)


def test_entities_alone_are_enough_and_a_critic_reads_an_action_beside_them() -> None:
    network, inputs = body(WALLS, extra=2)
    arrays = seen(WALLS)
    action = torch.randn(ROWS, 2)
    encoded = network.encode(inputs.raw(arrays), action)
    assert encoded.shape == (ROWS, 16 + 2)
    torch.testing.assert_close(encoded[:, 16:], action)


def test_each_row_has_the_weights_of_its_own_goal() -> None:
    network, inputs = body(TARGET, STATE, num_layers=2, activation="tanh")
    arrays = seen(TARGET, STATE)
    found = features(network, inputs, arrays)
    hyper = network.hyper
    assert hyper is not None and len(network.layers) == 1
    for row in range(ROWS):
        goal = torch.from_numpy(arrays["target"][row])
        x = network.layers[0](torch.cat([goal, torch.from_numpy(arrays["state"][row])])).tanh()
        first, _, second, _, _, last = hyper.weights
        assert isinstance(last, nn.Linear)
        made = layer_norm(silu(second(silu(first(goal)))), (8,))
        weights = (last.weight @ made + last.bias).view(8, 8)
        torch.testing.assert_close(found[row], (x @ weights + hyper.bias).tanh())
    assert (found[0] - found[1]).abs().max() > 1e-3


def test_a_goal_image_is_encoded_before_it_makes_weights() -> None:
    network, inputs = body(attrs.evolve(CAMERA, goal=True), TARGET, num_layers=1)
    assert network.hyper is not None and network.hyper.weights[0].in_features == 8 + 2
    assert features(network, inputs, seen(CAMERA, TARGET)).shape == (ROWS, 8)


@pytest.mark.parametrize("settings", [{"goal_conditioning_type": "none"}, {"num_layers": 0}])
def test_a_goal_is_an_observation_like_others_if_it_makes_no_layer(settings: dict[str, Any]) -> None:
    plain, _ = body(attrs.evolve(TARGET, goal=False), STATE, **settings)
    network, _ = body(TARGET, STATE, **settings)
    assert network.hyper is None and network.plain
    assert [tuple(p.shape) for p in network.parameters()] == [tuple(p.shape) for p in plain.parameters()]


@pytest.mark.parametrize("observations", [(TARGET, STATE), (OTHERS, STATE), ALL])
def test_a_frozen_critic_has_a_gradient_for_the_action_alone(observations: tuple[ObservationSpec, ...]) -> None:
    torch.manual_seed(0)
    inputs = ObservationInputs(observations, normalize=False)
    settings = NetworkSettings(hidden_units=8, attention_units=16, vis_encode_type="match3")
    critic = Critic(inputs, settings, outputs=1, continuous=2)
    raw = inputs.raw(seen(*observations))
    action = torch.randn(ROWS, 2, requires_grad=True)
    frozen = critic(raw, action, frozen=True)
    learning = critic(raw, action)
    torch.testing.assert_close(frozen, learning)
    frozen.sum().backward()
    by_frozen = action.grad
    assert by_frozen is not None and all(p.grad is None for p in critic.parameters())
    action.grad = None
    learning.sum().backward()
    torch.testing.assert_close(action.grad, by_frozen)


@pytest.mark.parametrize("observation", [OTHERS, TARGET])
def test_an_actor_with_entities_or_a_goal_does_not_act_in_numpy(observation: ObservationSpec) -> None:
    one = np.ones(1, np.float32)
    for seen_by, there in (((STATE,), True), ((STATE, observation), False)):
        spec = BehaviorSpec("Agent", seen_by, continuous=1, low=-one, high=one)
        assert (numpy_actor(Actor(spec, NetworkSettings(hidden_units=8))) is not None) is there


def test_an_attention_that_its_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(SettingError, match=r"attention_units.*multiple of 4"):
        NetworkSettings(attention_units=18)
