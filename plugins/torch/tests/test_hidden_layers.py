"""LayerNorm and dropout in hidden layers, and who sees what dropout leaves out."""

# mypy: allow-untyped-calls
from __future__ import annotations

import copy
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear

from rlcore import ObservationSpec, SettingError
from rlcore_torch import Body, Critic, Dropout, NetworkSettings, ObservationInputs
from rlcore_torch.networks.settings import CriticSettings

INPUTS = ObservationInputs((ObservationSpec("state", (3,), np.float32),), normalize=False)
X = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))


def body(**settings: Any) -> Body:
    torch.manual_seed(0)
    return Body(INPUTS, NetworkSettings(**{"hidden_units": 8, "activation": "relu", **settings}))


def weights_of(layer: nn.Module) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    assert isinstance(layer, nn.Sequential)
    first = layer[0]
    last = layer[-1]
    return first.weight, first.bias, last.weight, last.bias  # type: ignore[return-value]


def test_layer_norm_comes_between_a_layer_and_its_non_linearity() -> None:
    network = body(layer_norm=True)
    x = X
    with torch.no_grad():
        for layer in network.layers:
            for parameter in layer.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
            weight, bias, scale, shift = weights_of(layer)
            x = layer_norm(linear(x, weight, bias), (8,), scale, shift).relu()
    assert len(network.layers) == 2
    torch.testing.assert_close(network((X,)), x)


def test_dropout_sets_a_share_to_zero_and_keeps_the_mean() -> None:
    dropout = Dropout(0.2)
    x = torch.linspace(1.0, 2.0, 50).requires_grad_()
    drawn = torch.stack([dropout(x) for _ in range(4000)])
    assert set((drawn / x * 0.8).round(decimals=4).unique().tolist()) == {0.0, 1.0}
    # The mean of n draws has the relative standard deviation sqrt(share / (1 - share) / n): 0.008.
    torch.testing.assert_close(drawn.mean(0), x, rtol=5 * 0.008, atol=0.0)
    assert abs((drawn == 0).to(torch.float64).mean().item() - 0.2) < 5 * (0.2 * 0.8 / drawn.numel()) ** 0.5
    drawn[0].sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, (drawn[0] != 0).to(torch.float32) / 0.8)


def test_dropout_comes_before_layer_norm_and_is_the_only_difference() -> None:
    with_dropout = body(dropout=0.5, layer_norm=True, num_layers=1)
    without = body(layer_norm=True, num_layers=1)
    (layer,) = with_dropout.layers
    assert isinstance(layer, nn.Sequential) and [type(each) for each in layer] == [nn.Linear, Dropout, nn.LayerNorm]
    for mine, theirs in zip(with_dropout.parameters(), without.parameters(), strict=True):
        mine.data.copy_(theirs.data)
    plain = without((X,))
    assert (with_dropout((X,)) - plain).abs().max() > 0.1
    with torch.no_grad():
        torch.testing.assert_close(with_dropout((X,)), plain)
    with_dropout.eval()
    torch.testing.assert_close(with_dropout((X,)), plain)


def test_what_is_left_out_depends_on_the_saved_buffers_alone() -> None:
    one = body(dropout=0.3)
    one((X,))
    state = copy.deepcopy(one.state_dict())
    torch.manual_seed(99)
    before = torch.random.get_rng_state()
    first = one((X,))
    second = one((X,))
    assert (first != second).any()
    torch.testing.assert_close(torch.random.get_rng_state(), before, rtol=0, atol=0)
    other = body(dropout=0.3)
    other.load_state_dict(state)
    assert torch.equal(other((X,)), first) and torch.equal(other((X,)), second)
    # Layers draw apart from each other, and from those of a network made after them.
    seeds = {int(module.seed) for net in (one, Body(INPUTS, NetworkSettings(dropout=0.3))) for module in dropouts(net)}
    assert len(seeds) == 4


def dropouts(network: nn.Module) -> list[Dropout]:
    return [module for module in network.modules() if isinstance(module, Dropout)]


def test_a_critic_has_its_own_and_a_frozen_one_leaves_features_out_too() -> None:
    settings = NetworkSettings(hidden_units=8, critic=CriticSettings(dropout=0.4, layer_norm=True))
    assert not dropouts(Body(INPUTS, settings))
    critic = Critic(INPUTS, settings, outputs=1, continuous=1)
    twin = copy.deepcopy(critic)
    action = torch.zeros(6, 1, requires_grad=True)
    torch.testing.assert_close(critic((X,), action, frozen=True), twin((X,), action))
    assert [int(each.draws) for each in dropouts(critic)] == [1, 1]
    plain = attrs.evolve(settings, dropout=0.4, critic=CriticSettings(dropout=0.0))
    assert dropouts(Body(INPUTS, plain)) and not dropouts(Critic(INPUTS, plain, outputs=1))


@pytest.mark.parametrize("share", [1.0, -0.1])
@pytest.mark.parametrize("settings", [NetworkSettings, CriticSettings])
def test_a_share_that_leaves_nothing_is_refused(settings: Any, share: float) -> None:
    with pytest.raises(SettingError, match="dropout"):
        settings(dropout=share)
