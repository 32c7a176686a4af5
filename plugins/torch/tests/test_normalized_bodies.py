"""Bodies with batch normalization or residual blocks, compared with their layers called one by one."""

# mypy: allow-untyped-calls
from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from rlcore import BehaviorSpec, ObservationSpec, SettingError, UnsupportedSpace
from rlcore_torch import (
    Actor,
    ActorPolicy,
    BatchNorm,
    BatchRenorm,
    Body,
    Critic,
    NetworkSettings,
    ObservationInputs,
    SquashedGaussian,
    dense,
)
from rlcore_torch.acceleration.numpy_actor import is_plain_body, numpy_actor
from rlcore_torch.backend import Backend
from rlcore_torch.networks.settings import CriticSettings

VECTOR = ObservationSpec("state", (3,), np.float32)
INPUTS = ObservationInputs((VECTOR,), normalize=False)
X = 2.0 + torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
NETWORK = {"hidden_units": 8, "activation": "relu", "batch_norm_momentum": 0.2}


def body(**settings: Any) -> Body:
    """A body whose normalizations have other factors than 1, other shifts than 0, and statistics of some rows."""
    torch.manual_seed(0)
    network = Body(INPUTS, NetworkSettings(**{**NETWORK, **settings}))
    with torch.no_grad():
        for norm in norms(network):
            norm.weight.uniform_(0.5, 2.0)
            norm.bias.uniform_(-1.0, 1.0)
            norm.running_mean.uniform_(-1.0, 1.0)
            norm.running_var.uniform_(0.5, 2.0)
    return network


def norms(network: nn.Module) -> list[Any]:
    return [module for module in network.modules() if isinstance(module, BatchNorm)]


def normalized(x: Tensor, norm: Any, of_rows: bool) -> Tensor:
    mean = x.mean(0) if of_rows else norm.running_mean
    var = x.var(0, correction=0) if of_rows else norm.running_var
    return (x - mean) / (var + norm.epsilon).sqrt() * norm.weight + norm.bias


@pytest.mark.parametrize("of_rows", [False, True])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_layers_are_normalized_before_or_after_their_non_linearity(place: str, of_rows: bool) -> None:
    network = body(batch_norm=place, hidden_layers=[8, 6])
    first, *hidden = network.layers
    x = normalized(X, first, of_rows)
    for layer in hidden:
        x = linear(x, layer.linear.weight, layer.linear.bias)
        x = normalized(x, layer.norm, of_rows).relu() if place == "pre" else normalized(x.relu(), layer.norm, of_rows)
        # A bias before a normalization would be subtracted with the mean.
        assert (layer.linear.bias is None) == (place == "pre")
    assert len(hidden) == 2 and network.features == 6
    before = [norm.running_mean.clone() for norm in norms(network)]
    torch.testing.assert_close(network((X,), batch_statistics=of_rows), x, rtol=1e-4, atol=1e-5)
    moved = [bool((norm.running_mean != was).any()) for norm, was in zip(norms(network), before, strict=True)]
    assert moved == [of_rows] * 3
    head = nn.Linear(6, 2)
    torch.testing.assert_close(network.into((X,), head), head(network((X,))))


def test_settings_choose_the_kind_of_normalization() -> None:
    plain = body(batch_norm="post", batch_norm_epsilon=0.5)
    assert {type(norm) for norm in norms(plain)} == {BatchNorm} and {norm.epsilon for norm in norms(plain)} == {0.5}
    renorm = body(batch_norm="pre", batch_renorm_after=7)
    assert [(norm.warm_up, norm.momentum, type(norm)) for norm in norms(renorm)] == [(7, 0.2, BatchRenorm)] * 3


def test_a_critic_may_differ_from_the_policy() -> None:
    settings = NetworkSettings(batch_norm="post", critic=CriticSettings(batch_norm="none", blocks="residual"))
    assert len(norms(Body(INPUTS, settings))) == 3
    critic = Critic(INPUTS, settings, outputs=1, continuous=2)
    assert not norms(critic) and type(critic.body.layers[1]).__name__ == "ResidualLayers"


def test_the_action_of_a_critic_is_normalized_beside_the_observations() -> None:
    torch.manual_seed(0)
    critic = Critic(INPUTS, NetworkSettings(**NETWORK, batch_norm="post"), outputs=1, continuous=2)
    action = torch.rand(16, 2)
    critic((X,), action, batch_statistics=True)
    expected = 0.2 * torch.cat([X, action], dim=1).mean(0)
    torch.testing.assert_close(critic.body.layers[0].running_mean, expected)


@pytest.mark.parametrize("settings", [{}, {"layer_norm": True}, {"batch_norm": "pre"}, {"batch_norm": "post"}])
def test_residual_blocks_add_what_two_layers_make_of_features(settings: Any) -> None:
    network = body(blocks="residual", num_layers=3, **settings)
    *before, one, two = network.layers
    x = dense(X, before, "relu", activate_last=True)
    for block in (one, two):
        wide, narrow = block.layers
        y = dense(x, [wide], "relu", activate_last=True)
        assert y.shape == (16, 32)
        x = x + dense(y, [narrow], "relu", activate_last=True)
    torch.testing.assert_close(network((X,)), x)
    assert network.features == 8 and not is_plain_body(network, nn.Linear(8, 1))


def test_a_frozen_body_gives_its_input_a_gradient_and_nothing_else() -> None:
    torch.manual_seed(0)
    critic = Critic(INPUTS, NetworkSettings(**NETWORK, batch_norm="post"), outputs=1, continuous=2)
    critic((X,), torch.rand(16, 2), batch_statistics=True)
    before = copy.deepcopy(critic.state_dict())
    action = torch.rand(16, 2, requires_grad=True)
    frozen = critic((X,), action, frozen=True)
    torch.testing.assert_close(frozen, critic((X,), action))
    frozen.sum().backward()
    assert action.grad is not None and action.grad.abs().min() > 0
    assert all(parameter.grad is None for parameter in critic.parameters())
    assert all(torch.equal(value, before[name]) for name, value in critic.state_dict().items())
    with pytest.raises(ValueError, match="frozen layers keep their running statistics"):
        critic((X,), action, frozen=True, batch_statistics=True)


def test_in_bfloat16_statistics_are_of_float32_and_close_to_those_of_a_network_in_float32() -> None:
    network = body(batch_norm="post")
    mixed = copy.deepcopy(network)
    Backend(torch.device("cpu"), bf16=True).prepare(mixed)
    expected = network((X,), batch_statistics=True)
    found = mixed((X,), batch_statistics=True)
    assert mixed.bf16 and found.dtype == torch.float32
    assert 0.0 < (found - expected).abs().max() < 0.06 * expected.abs().max()
    for ours, theirs in zip(norms(mixed), norms(network), strict=True):
        torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=0.02, atol=0.02)


# ---------------------------------------------------------------- acting


def actor(**settings: Any) -> Actor:
    torch.manual_seed(0)
    two = np.ones(2, np.float32)
    spec = BehaviorSpec("Agent", (VECTOR,), 2, (), -two, two)
    model = Actor(spec, NetworkSettings(**{**NETWORK, **settings}), SquashedGaussian(spec))
    for _ in range(5):
        model.policy((X + torch.randn(16, 3),), batch_statistics=True)
    return model


@pytest.mark.parametrize("settings", [{"batch_norm": "pre"}, {"batch_norm": "post", "blocks": "residual"}])
def test_acting_uses_running_statistics_and_each_row_by_itself(settings: Any) -> None:
    model = actor(**settings)
    backend = Backend(torch.device("cpu"), numpy_actor=numpy_actor)
    backend.prepare(model)
    [spec] = [BehaviorSpec("Agent", (VECTOR,), 2, (), -np.ones(2, np.float32), np.ones(2, np.float32))]
    policy = ActorPolicy(spec, model, backend)
    before = copy.deepcopy(model.state_dict())
    together = policy.act({"state": X.numpy()}).continuous
    assert together is not None
    for row, action in zip(X.numpy(), together, strict=True):
        alone = policy.act({"state": row[None]}).continuous
        np.testing.assert_allclose(alone, action[None], rtol=1e-6, atol=1e-6)
    snapshot = policy.snapshot().act({"state": X.numpy()}).continuous
    np.testing.assert_allclose(snapshot, together, rtol=1e-6, atol=1e-6)
    exported = policy.module()({"state": X}).continuous
    np.testing.assert_allclose(exported.detach(), together, rtol=1e-5, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


# ---------------------------------------------------------------- what is refused


UNREAD = {
    "images": ObservationSpec("camera", (20, 20, 3), np.uint8, "image"),
    "entities": ObservationSpec("others", (4, 3), np.float32, "entities"),
    "goals that make weights": ObservationSpec("target", (3,), np.float32, goal=True),
}


@pytest.mark.parametrize("kind", UNREAD)
def test_observations_for_which_it_was_never_tried_are_refused(kind: str) -> None:
    inputs = ObservationInputs((VECTOR, UNREAD[kind]), normalize=False)
    with pytest.raises(UnsupportedSpace, match=rf"batch_norm is not for {kind}; set .*batch_norm: none"):
        Body(inputs, NetworkSettings(batch_norm="post"))
    Body(inputs, NetworkSettings(blocks="residual"))


def test_blocks_of_several_widths_are_refused() -> None:
    with pytest.raises(SettingError, match="blocks"):
        NetworkSettings(hidden_layers=(8, 6), blocks="residual")
    NetworkSettings(hidden_layers=(8, 8), blocks="residual")
