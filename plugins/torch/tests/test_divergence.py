"""The advice to a user whose training diverged."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from rlcore_torch.optimization.divergence import largest, remedy

CASES = yaml.safe_load((Path(__file__).parent / "data/remedies.yaml").read_text(encoding="utf-8"))


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


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_number_that_is_too_large_is_blamed_and_else_the_learning_rate(case: dict[str, Any]) -> None:
    normalize, strength = case.get("normalize", False), case.get("strength", 1.0)
    learned = experience(**{key: case[key] for key in ("reward", "observation", "group_reward") if key in case})
    assert remedy(learned, normalize, strength, where="cave") == case["advice"]


def test_what_holds_nothing_is_not_large() -> None:
    assert largest(None) == largest(np.empty((0, 3), np.float32)) == 0.0
    assert largest(np.array([-7, 3])) == 7.0
