"""Distributions of returns: the projection of C51 and the loss of QR-DQN against plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.environments import ConstantReward
from rlcore_dqn.trainer import DQNTrainer, categorical_losses, project, quantile_huber_losses

Array = NDArray[np.float64]

V_MIN = -1.0
V_MAX = 2.0


def projected(probabilities: Array, reward: float, discount: float) -> Array:
    """Algorithm 1 of the paper with its two shares, and with all mass of a place that is a whole number kept there."""
    count = len(probabilities)
    width = (V_MAX - V_MIN) / (count - 1)
    mass = np.zeros(count)
    for k, probability in enumerate(probabilities):
        moved = min(max(reward + discount * (V_MIN + k * width), V_MIN), V_MAX)
        place = (moved - V_MIN) / width
        lower = math.floor(place + 1e-9)
        upper = math.ceil(place - 1e-9)
        if lower == upper:
            mass[lower] += probability
        else:
            mass[lower] += probability * (upper - place)
            mass[upper] += probability * (place - lower)
    return mass


def random_distributions(rows: int, count: int) -> Array:
    return np.random.default_rng(3).dirichlet(np.full(count, 0.5), rows)


@pytest.mark.parametrize("count", [2, 7, 51])
def test_a_projection_is_that_of_the_paper_keeps_all_mass_and_keeps_the_mean(count: int) -> None:
    rows = 40
    probabilities = random_distributions(rows, count)
    generator = np.random.default_rng(4)
    reward = generator.normal(0.0, 1.0, rows)
    discount = generator.choice([0.0, 0.9, 0.9**3, 1.0], rows)
    moved_by = torch.tensor(reward), torch.tensor(discount)
    result = project(torch.tensor(probabilities), *moved_by, v_min=V_MIN, v_max=V_MAX).numpy()
    expected = [projected(*each) for each in zip(probabilities, reward, discount, strict=True)]
    np.testing.assert_allclose(result, expected, atol=1e-6)
    np.testing.assert_allclose(result.sum(1), 1.0, atol=1e-9)
    atoms = np.linspace(V_MIN, V_MAX, count)
    moved = np.clip(reward[:, None] + discount[:, None] * atoms, V_MIN, V_MAX)
    np.testing.assert_allclose(result @ atoms, (probabilities * moved).sum(1), atol=1e-9)


@pytest.mark.parametrize(
    ("reward", "discount", "atom"),
    [(0.5, 0.0, 3), (-1.0, 0.0, 0), (2.0, 0.0, 6), (0.0, 0.0, 2), (77.0, 0.9, 6), (-77.0, 0.9, 0)],
    ids=["inside", "least", "greatest", "zero", "above", "below"],
)
def test_an_end_on_an_atom_and_returns_beyond_the_atoms_lose_no_mass(reward: float, discount: float, atom: int) -> None:
    """Both shares of the paper are 0 there. Float32, as in training."""
    probabilities = torch.tensor(random_distributions(5, 7), dtype=torch.float32)
    result = project(probabilities, torch.full((5,), reward), torch.full((5,), discount), V_MIN, V_MAX)
    torch.testing.assert_close(result, torch.eye(7)[atom].expand(5, 7), atol=1e-6, rtol=0)


def test_atoms_that_are_moved_to_atoms_stay_apart() -> None:
    probabilities = torch.tensor(random_distributions(5, 7), dtype=torch.float32)
    same = project(probabilities, torch.zeros(5), torch.ones(5), V_MIN, V_MAX)
    torch.testing.assert_close(same, probabilities, atol=1e-6, rtol=0)
    up = project(probabilities, torch.full((5,), 0.5), torch.ones(5), V_MIN, V_MAX)  # one atom up; the last one stays
    torch.testing.assert_close(up[:, 1:6], probabilities[:, :5], atol=1e-6, rtol=0)
    torch.testing.assert_close(up[:, 6], probabilities[:, 5] + probabilities[:, 6], atol=1e-6, rtol=0)


def test_the_loss_of_c51_is_the_cross_entropy_and_its_error_is_0_where_nothing_is_to_learn() -> None:
    target = random_distributions(6, 5)
    logits = np.random.default_rng(1).normal(0.0, 2.0, (6, 5))
    target[0] = np.eye(5)[2]  # the logarithm of 0 does not count
    losses, divergence = categorical_losses(torch.tensor(logits), torch.tensor(target))
    for row in range(6):
        softmax = np.exp(logits[row]) / np.exp(logits[row]).sum()
        assert losses[row].item() == pytest.approx(
            -sum(p * math.log(q) for p, q in zip(target[row], softmax, strict=True))
        )
    assert (divergence > 0).all()
    _, nothing = categorical_losses(torch.tensor(target[1:]).log(), torch.tensor(target[1:]))
    torch.testing.assert_close(nothing, torch.zeros(5, dtype=torch.float64), atol=1e-9, rtol=0)


@pytest.mark.parametrize("kappa", [1.0, 0.3])
@pytest.mark.parametrize("count", [1, 4])
def test_the_loss_of_quantiles_is_that_of_a_plain_loop(count: int, kappa: float) -> None:
    generator = np.random.default_rng(2)
    quantiles, target = generator.normal(0.0, 1.0, (2, 3, count))
    quantiles[0, 0] = target[0, 0]  # an error of exactly 0
    middles = (np.arange(count) + 0.5) / count
    arrays = torch.tensor(quantiles), torch.tensor(target), torch.tensor(middles)
    losses = quantile_huber_losses(*arrays, kappa=kappa)
    for row in range(3):
        total = 0.0
        for i in range(count):
            for j in range(count):
                error = target[row, j] - quantiles[row, i]
                huber = 0.5 * error**2 if abs(error) <= kappa else kappa * (abs(error) - 0.5 * kappa)
                total += abs(middles[i] - (1.0 if error < 0 else 0.0)) * huber / kappa / count
        assert losses[row].item() == pytest.approx(total)


@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [
        ({"distributional": "quantile", "num_quantiles": 8}, 0.15),
        ({"distributional": "c51", "num_atoms": 21, "v_min": -1.0, "v_max": 3.0}, 0.15),
        ({"dueling": True}, 0.15),
    ],
    ids=["quantile", "c51", "dueling"],
)
def test_expected_returns_are_those_of_a_task_whose_return_is_known(
    make_trainer: Callable[..., DQNTrainer], settings: Any, tolerance: float
) -> None:
    """A reward of 1 in each step and time limits alone: the value is 1 / (1 - 0.5) everywhere."""
    environment = ConstantReward(4, max_steps=3)
    trainer = make_trainer(
        environment,
        block={"reward_signals": {"extrinsic": {"gamma": 0.5}}},
        target_update_interval=20,
        steps_per_update=2,
        **settings,
    )
    learn(trainer, environment, 120)
    batch = trainer.reader.read(np.flatnonzero(trainer.buffer.flags))
    with torch.no_grad():
        _, values = trainer.model.policy(batch.inputs)
    assert values is not None
    np.testing.assert_allclose(values.numpy(), 2.0, atol=tolerance)
