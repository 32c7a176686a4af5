"""Runs in EnvPool, alone and in workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worker_runs import train_in, weights

pytest.importorskip("envpool", reason="EnvPool has no wheel for this platform")

POOL: dict[str, Any] = {
    "type": "envpool", "id": "Pendulum-v1", "num_envs": 3, "options": {"max_episode_steps": 70, "num_threads": 2},
}  # fmt: skip
EVALUATION = {"interval": 350, "episodes": 2}


def test_workers_play_the_episodes_of_one_process(tmp_path: Path) -> None:
    """The environments of a pool draw from their own seeds, whichever other environments are in it."""
    alone, spread = tmp_path / "alone", tmp_path / "spread"
    train_in(POOL, alone, 900, 300, evaluation=EVALUATION)
    train_in(POOL | {"workers": {"count": 2}}, spread, 900, 300, evaluation=EVALUATION)
    assert weights(spread) == weights(alone) != []
