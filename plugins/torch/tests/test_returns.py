"""Distributions of returns: C51's projection, QR-DQN's loss, and the critic that expects least, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore_torch import CategoricalReturns, QuantileReturns
from rlcore_torch.networks.returns import shared_by_index, shared_by_matrix

Array = NDArray[np.float64]

V_MIN = -1.0
V_MAX = 2.0


def projected(probabilities: Array, reward: float, discount: float, bonus: float) -> Array:
    """Algorithm 1 of the paper with its two shares, and with all mass of a place that is a whole number kept there."""
    count = len(probabilities)
    width = (V_MAX - V_MIN) / (count - 1)
    mass = np.zeros(count)
    for k, probability in enumerate(probabilities):
        moved = min(max(reward + discount * (V_MIN + k * width + bonus), V_MIN), V_MAX)
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
    bonus = generator.normal(0.0, 0.5, rows)
    returns = CategoricalReturns(count, V_MIN, V_MAX)
    arrays = [torch.tensor(array) for array in (probabilities, reward, discount, bonus)]
    without = returns.target(*arrays[:3]).numpy()
    expected = [projected(*each, 0.0) for each in zip(probabilities, reward, discount, strict=True)]
    np.testing.assert_allclose(without, expected, atol=1e-6)
    result = returns.target(*arrays).numpy()
    expected = [projected(*each) for each in zip(probabilities, reward, discount, bonus, strict=True)]
    np.testing.assert_allclose(result, expected, atol=1e-6)
    np.testing.assert_allclose(result.sum(1), 1.0, atol=1e-9)
    atoms = np.linspace(V_MIN, V_MAX, count)
    moved = np.clip(reward[:, None] + discount[:, None] * (atoms + bonus[:, None]), V_MIN, V_MAX)
    np.testing.assert_allclose(result @ atoms, (probabilities * moved).sum(1), atol=1e-9)


@pytest.mark.parametrize(
    ("reward", "discount", "atom"),
    [(0.5, 0.0, 3), (-1.0, 0.0, 0), (2.0, 0.0, 6), (0.0, 0.0, 2), (77.0, 0.9, 6), (-77.0, 0.9, 0)],
    ids=["inside", "least", "greatest", "zero", "above", "below"],
)
def test_an_end_on_an_atom_and_returns_beyond_the_atoms_lose_no_mass(reward: float, discount: float, atom: int) -> None:
    """Both shares of the paper are 0 there. Float32, as in training."""
    probabilities = torch.tensor(random_distributions(5, 7), dtype=torch.float32)
    returns = CategoricalReturns(7, V_MIN, V_MAX)
    result = returns.target(probabilities, torch.full((5,), reward), torch.full((5,), discount))
    torch.testing.assert_close(result, torch.eye(7)[atom].expand(5, 7), atol=1e-6, rtol=0)


def test_atoms_that_are_moved_to_atoms_stay_apart() -> None:
    probabilities = torch.tensor(random_distributions(5, 7), dtype=torch.float32)
    returns = CategoricalReturns(7, V_MIN, V_MAX)
    same = returns.target(probabilities, torch.zeros(5), torch.ones(5))
    torch.testing.assert_close(same, probabilities, atol=1e-6, rtol=0)
    up = returns.target(probabilities, torch.full((5,), 0.5), torch.ones(5))  # one atom up; the last one stays
    torch.testing.assert_close(up[:, 1:6], probabilities[:, :5], atol=1e-6, rtol=0)
    torch.testing.assert_close(up[:, 6], probabilities[:, 5] + probabilities[:, 6], atol=1e-6, rtol=0)


def test_a_gpu_shares_probabilities_as_a_cpu_does() -> None:
    """By other operations, because scattered sums of a GPU do not repeat."""
    generator = np.random.default_rng(6)
    probabilities = torch.tensor(generator.dirichlet(np.ones(7), (30, 2)))
    place = torch.tensor(generator.uniform(0.0, 6.0, (30, 2, 7)))
    place[:10] = place[:10].round()  # both ends among them
    assert {0.0, 6.0} <= set(place[:10].flatten().tolist())
    one = shared_by_index(probabilities, place)
    torch.testing.assert_close(shared_by_matrix(probabilities, place), one, atol=1e-12, rtol=0)
    assert bool((one >= 0).all())
    place[3, 1, 2] = torch.nan  # of a network that diverged, which statistics must show
    for share in (shared_by_index, shared_by_matrix):
        assert share(probabilities, place).isnan().flatten(1).any(1).nonzero().tolist() == [[3]]


def test_the_loss_of_c51_is_the_cross_entropy_and_its_error_is_0_where_nothing_is_to_learn() -> None:
    target = random_distributions(6, 5)
    logits = np.random.default_rng(1).normal(0.0, 2.0, (6, 5))
    target[0] = np.eye(5)[2]  # the logarithm of 0 does not count
    returns = CategoricalReturns(5, V_MIN, V_MAX)
    losses, divergence = returns.losses(torch.tensor(logits), torch.tensor(target))
    for row in range(6):
        softmax = np.exp(logits[row]) / np.exp(logits[row]).sum()
        assert losses[row].item() == pytest.approx(
            -sum(p * math.log(q) for p, q in zip(target[row], softmax, strict=True))
        )
    assert (divergence > 0).all()
    _, nothing = returns.losses(torch.tensor(target[1:]).log(), torch.tensor(target[1:]))
    torch.testing.assert_close(nothing, torch.zeros(5, dtype=torch.float64), atol=1e-9, rtol=0)


@pytest.mark.parametrize("kappa", [1.0, 0.3])
@pytest.mark.parametrize(("count", "samples"), [(1, 1), (4, 4), (3, 7)])
def test_the_loss_of_quantiles_is_that_of_a_plain_loop(count: int, samples: int, kappa: float) -> None:
    generator = np.random.default_rng(2)
    quantiles = generator.normal(0.0, 1.0, (3, count))
    target = generator.normal(0.0, 1.0, (3, samples))
    quantiles[0, 0] = target[0, 0]  # an error of exactly 0
    middles = (np.arange(count) + 0.5) / count
    returns = QuantileReturns(count).double()
    losses = returns.losses(torch.tensor(quantiles), torch.tensor(target), kappa)
    for row in range(3):
        total = 0.0
        for i in range(count):
            for j in range(samples):
                error = target[row, j] - quantiles[row, i]
                huber = 0.5 * error**2 if abs(error) <= kappa else kappa * (abs(error) - 0.5 * kappa)
                total += abs(middles[i] - (1.0 if error < 0 else 0.0)) * huber / kappa / samples
        assert losses[row].item() == pytest.approx(total)


def test_quantiles_of_a_target_are_moved_and_their_mean_is_expected() -> None:
    returns = QuantileReturns(2)
    quantiles = torch.tensor([[1.0, 3.0]])
    reward, discount, bonus = (torch.tensor([each]) for each in (0.5, 0.9, -2.0))
    assert returns.target(quantiles, reward, discount).tolist()[0] == pytest.approx([1.4, 3.2])
    assert returns.target(quantiles, reward, discount, bonus).tolist()[0] == pytest.approx([-0.4, 1.4])
    assert returns.expected(quantiles).tolist() == [2.0]


@pytest.mark.parametrize("critics", [1, 2, 5])
@pytest.mark.parametrize("returns", [CategoricalReturns(4, V_MIN, V_MAX), QuantileReturns(4)])
def test_each_row_has_the_numbers_of_the_critic_that_expects_least_of_the_sum_of_rewards(
    returns: CategoricalReturns | QuantileReturns, critics: int
) -> None:
    numbers = torch.tensor(np.random.default_rng(5).normal(0.0, 1.0, (critics, 9, 3, 4)))  # [C, B, R, K]
    least = returns.double().least_expected(numbers)
    atoms = np.linspace(V_MIN, V_MAX, 4)
    for row in range(9):
        sums = []
        for critic in range(critics):
            total = 0.0
            for reward in range(3):
                each = numbers[critic, row, reward].numpy()
                if isinstance(returns, CategoricalReturns):
                    total += float(np.exp(each) @ atoms / np.exp(each).sum())
                else:
                    total += each.mean()
            sums.append(total)
        assert least[row].equal(numbers[int(np.argmin(sums)), row])
