# mypy: allow-untyped-calls, disable-error-code="operator,union-attr"
"""Dueling streams, noisy layers, and who acts with noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlcore_devkit.conformance.loop import first_batch, learn
from rlcore_devkit.environments import IdentityEnvironment
from rlcore_dqn.networks import DuelingStreams, NoisyLinear, noise_in
from rlcore_dqn.trainer import DQNTrainer
from rlcore_torch import NetworkSettings

MakeTrainer = Callable[..., DQNTrainer]


@pytest.mark.parametrize("layers", [0, 1])
def test_dueling_values_are_the_value_where_advantages_are_averaged_over_a_branch(layers: int) -> None:
    settings = NetworkSettings(hidden_units=8, num_layers=layers, activation="tanh")
    streams = DuelingStreams(5, settings, (2, 3), rewards=2, size=4)
    x = torch.randn(6, 5)
    values = streams(x).view(6, 2, 5, 4)
    value = x
    for index, layer in enumerate(streams.value):
        value = layer(value)
        value = torch.tanh(value) if index < len(streams.value) - 1 else value
    value = value.view(6, 2, 4)
    for branch in (values[:, :, :2], values[:, :, 2:]):
        torch.testing.assert_close(branch.mean(2), value)
    assert values[:, :, :2].std(2).min() > 0


def test_advantages_that_grow_alike_change_no_value() -> None:
    streams = DuelingStreams(5, NetworkSettings(hidden_units=8, num_layers=1), (4,), rewards=1, size=1)
    x = torch.randn(6, 5)
    before = streams(x)
    with torch.no_grad():
        streams.advantage[-1].bias.add_(3.0)
    torch.testing.assert_close(streams(x), before)


def written_out(layer: NoisyLinear, x: Tensor, noise: Tensor) -> Tensor:
    """Equations 8 to 11 of the paper, with the matrix of noise, in a draw for all rows."""
    inputs, outputs = (torch.sign(e) * torch.sqrt(torch.abs(e)) for e in noise.split([3, 2]))
    weight = layer.weight + layer.weight_sigma * torch.outer(outputs, inputs)
    return x @ weight.T + layer.bias + layer.bias_sigma * outputs


def test_a_noisy_layer_is_that_of_the_paper() -> None:
    layer = NoisyLinear(3, 2, std=0.5)
    x = torch.randn(7, 3)
    noise = torch.randn(5)
    assert layer.weight_sigma.detach().unique().item() == pytest.approx(0.5 / 3**0.5)
    assert layer.weight.abs().max() <= 1 / 3**0.5 and layer.bias.abs().max() <= 1 / 3**0.5
    with torch.no_grad():
        layer.weight_sigma.uniform_(-1, 1)
        layer.bias_sigma.uniform_(-1, 1)
        with noise_in([layer], noise[None]):
            torch.testing.assert_close(layer(x), written_out(layer, x, noise))
        torch.testing.assert_close(layer(x), x @ layer.weight.T + layer.bias)  # without noise again


def test_the_noise_of_a_layer_has_the_deviation_of_its_parameters() -> None:
    """The variance of f(e) is E|e|, the square root of 2 / pi; weights have products of two of them."""
    draws = 100_000
    layer = NoisyLinear(3, 2, std=0.5)
    x = torch.tensor([1.0, -2.0, 0.5])
    noise = torch.from_numpy(np.random.default_rng(1).standard_normal((draws, 5)).astype(np.float32))
    with torch.no_grad():
        layer.weight_sigma.uniform_(0.1, 1, generator=torch.Generator().manual_seed(1))
        with noise_in([layer], noise):  # each row has a draw of its own
            outputs = layer(x.expand(draws, 3))
        variance = (2 / np.pi) * (layer.weight_sigma * x).square().sum(1) + (
            2 / np.pi
        ) ** 0.5 * layer.bias_sigma.square()
    np.testing.assert_allclose(outputs.std(0).numpy(), variance.sqrt().numpy(), rtol=0.02)
    np.testing.assert_allclose(outputs.mean(0).numpy(), layer(x).detach().numpy(), atol=0.02)


def noisy(make_trainer: MakeTrainer, **settings: Any) -> tuple[DQNTrainer, IdentityEnvironment]:
    environment = IdentityEnvironment(16, discrete=(8,))
    trainer = make_trainer(environment, noisy=True, noisy_std=3.0, buffer_init_steps=0, **settings)
    return trainer, environment


def test_agents_explore_with_noise_of_their_own_in_each_step_and_the_policy_has_none(
    make_trainer: MakeTrainer,
) -> None:
    trainer, environment = noisy(make_trainer)
    batch = first_batch(environment)
    for seen in batch.observations.values():
        seen[:] = seen[:1]  # all agents see the same
    trainer.begin(batch)
    explored = [trainer.act(batch).discrete for _ in range(6)]
    assert all(choices is not None and len(np.unique(choices)) > 1 for choices in explored)
    assert any((explored[0] != choices).any() for choices in explored[1:])
    acted = trainer.policy.act(batch.observations).discrete
    assert acted is not None and len(np.unique(acted)) == 1
    assert trainer.epsilon == 0.0


@pytest.mark.parametrize("dueling", [False, True])
def test_a_gradient_step_draws_for_each_network_and_moves_the_deviations(
    make_trainer: MakeTrainer, dueling: bool
) -> None:
    trainer, environment = noisy(make_trainer, dueling=dueling)
    learn(trainer, environment, 3)
    noise = trainer.draw_noise()
    draws = [noise.online, noise.selection, noise.target]
    assert all(draw is not None and draw.shape == (1, trainer.model.noise_size) for draw in draws)
    assert len({float(draw[0, 0]) for draw in draws if draw is not None}) == 3
    before = [layer.weight_sigma.detach().clone() for layer in trainer.model.noisy_layers]
    learn(trainer, environment, 3)
    after = [layer.weight_sigma.detach() for layer in trainer.model.noisy_layers]
    assert len(after) == (4 if dueling else 2)
    assert all((one != other).any() for one, other in zip(before, after, strict=True))
