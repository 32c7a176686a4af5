"""The advice to a user whose training diverged."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from rlcore_torch.optimization.divergence import largest, remedy


@pytest.mark.parametrize("normalized", [False, True])
def test_the_advice_has_the_largest_numbers(normalized: bool) -> None:
    experience = SimpleNamespace(
        observations={
            "speed": np.array([[0.5, -300.0]], np.float32),
            "picture": np.full((1, 2), 255, np.uint8),
            "flag": np.ones((1, 1), np.bool_),
        },
        reward=np.array([0.5, -4.0], np.float32),
        group_reward=np.array([0.5, -1e8], np.float32),
    )
    advice = remedy(experience, normalized, lower="strength")
    assert advice.startswith(
        "the largest reward is 1e+08, and the largest value of observation 'speed' 300; lower strength, or scale down"
    )
    assert ("set network_settings.normalize: true" in advice) != normalized
    assert largest(None) == largest(np.empty((0, 3), np.float32)) == 0.0
