"""The advice to a user whose training diverged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlcore_torch.optimization.divergence import largest, remedy

LOWER = "lower learning_rate"
NORMALIZE = "set network_settings.normalize: true"
SPEED = "the largest value of observation 'speed' is"
SCALE = "too large to learn from: scale rewards down in the cave"


def experience(reward: float = 1.0, observation: float = 1.0, group_reward: float | None = None) -> Any:
    """Rewards and observations of which one is as large as that, and negative."""
    return SimpleNamespace(
        observations={
            "speed": np.array([[0.5, -observation]], np.float32),
            "picture": np.full((1, 2), 255, np.uint8),
            "flag": np.ones((1, 1), np.bool_),
        },
        reward=np.array([0.5, -reward], np.float32),
        group_reward=None if group_reward is None else np.array([0.5, -group_reward], np.float32),
    )


@pytest.mark.parametrize(
    ("learned", "normalized", "strength", "expected"),
    [
        ({}, False, 1.0, LOWER),
        ({}, True, 0.5, LOWER),
        ({"reward": 1e38}, False, 1.0, f"the largest reward is 1e+38, {SCALE}"),
        ({"group_reward": 1e20}, False, 1.0, f"the largest reward is 1e+20, {SCALE}"),
        ({"reward": 1e38}, False, 0.0, LOWER),
        (
            {"reward": 4.0}, False, 1e36,
            "the largest reward times reward_signals.extrinsic.strength is 4e+36, too large to learn from: lower "
            "reward_signals.extrinsic.strength, or scale rewards down in the cave",
        ),
        (
            {"observation": 1e10}, False, 1.0,
            f"{SPEED} 1e+10, too large to learn from: {NORMALIZE}, or scale it down "
            "in the cave",
        ),
        ({"observation": 1e10}, True, 1.0, LOWER),
        (
            {"observation": 1e38}, False, 1.0,
            f"{SPEED} 1e+38, too large to learn from: scale the observation down in "
            "the cave",
        ),
        ({"observation": 300.0}, False, 1.0, f"{NORMALIZE} ({SPEED} 300), or {LOWER}"),
        ({"observation": 300.0}, True, 1.0, LOWER),
        ({"reward": 1e8}, True, 1.0, f"{LOWER}, or scale rewards down in the cave (the largest reward is 1e+08)"),
    ],
)  # fmt: skip
def test_the_number_that_is_too_large_is_blamed_and_else_the_learning_rate(
    learned: dict[str, float], normalized: bool, strength: float, expected: str
) -> None:
    assert remedy(experience(**learned), normalized, strength, where="cave") == expected


def test_what_holds_nothing_is_not_large() -> None:
    assert largest(None) == largest(np.empty((0, 3), np.float32)) == 0.0
    assert largest(np.array([-7, 3])) == 7.0
