"""Advantages against sums written out from their definition; test_on_policy.py has them in whole rollouts."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore_torch import generalized_advantages


@pytest.mark.parametrize("lambd", [1.0, 0.95, 0.0])
@pytest.mark.parametrize("gamma", [1.0, 0.99])
def test_advantages_are_discounted_sums_of_temporal_differences(gamma: float, lambd: float) -> None:
    random = np.random.default_rng(3)
    shape = (17, 5)
    reward, value, next_value = random.standard_normal((3, *shape)).astype(np.float32)
    carry = random.random(shape) < 0.8
    before = reward.copy(), value.copy(), next_value.copy()
    found = generalized_advantages(reward, value, next_value, carry, gamma, lambd)
    for array, own in zip((reward, value, next_value), before, strict=True):
        np.testing.assert_array_equal(array, own)
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
