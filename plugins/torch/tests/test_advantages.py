"""Advantages and horizon cuts against sums written out from their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore_torch import generalized_advantages
from rlcore_torch.on_policy.advantages import trajectory_cuts


@pytest.mark.parametrize("lambd", [1.0, 0.95, 0.0])
@pytest.mark.parametrize("gamma", [1.0, 0.99])
def test_advantages_are_discounted_sums_of_temporal_differences(gamma: float, lambd: float) -> None:
    random = np.random.default_rng(3)
    shape = (17, 5)
    reward, value, next_value = random.standard_normal((3, *shape)).astype(np.float32)
    carry = random.random(shape) < 0.8
    found = generalized_advantages(reward, value, next_value, carry, gamma, lambd)
    for slot in range(shape[1]):
        for t in range(shape[0]):
            total, k = 0.0, t
            while True:
                delta = float(reward[k, slot]) + gamma * float(next_value[k, slot]) - float(value[k, slot])
                total += (gamma * lambd) ** (k - t) * delta
                if k == shape[0] - 1 or not carry[k, slot]:
                    break
                k += 1
            assert found[t, slot] == pytest.approx(total, rel=1e-4, abs=1e-4)


def test_its_arguments_are_left_as_they_are() -> None:
    reward, value, next_value = np.ones((3, 4, 2), np.float32)
    generalized_advantages(reward, value, next_value, np.ones((4, 2), np.bool_), 0.9, 0.9)
    assert (reward == 1.0).all() and (value == 1.0).all() and (next_value == 1.0).all()


@given(seed=st.integers(0, 2**32 - 1), horizon=st.integers(1, 6), rows=st.integers(0, 20))
@settings(deadline=None)
def test_a_trajectory_is_cut_where_it_reaches_the_horizon(seed: int, horizon: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    ended = random.random((rows, 3)) < 0.2
    start = random.integers(0, horizon, 3)
    age = start.copy()
    cuts = trajectory_cuts(ended, age, horizon)
    for slot in range(3):
        length = int(start[slot])
        for t in range(rows):
            length += 1
            assert cuts[t, slot] == (length == horizon and not ended[t, slot])
            if cuts[t, slot] or ended[t, slot]:
                length = 0
        assert age[slot] == length
