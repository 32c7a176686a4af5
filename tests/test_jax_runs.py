"""Runs in simulators of JAX, alone and in workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worker_runs import train_in, weights

pytest.importorskip("jax", reason="JAX is not installed: pip install './plugins/jax[pgx,playground]'")

BREAKOUT: dict[str, Any] = {
    "type": "pgx", "id": "minatar-breakout", "num_envs": 4, "options": {"max_episode_steps": 40},
}  # fmt: skip
EVALUATION = {"interval": 350, "episodes": 2}


@pytest.fixture
def pgx() -> None:
    pytest.importorskip("pgx", reason="pgx is not installed: pip install './plugins/jax[pgx]'")


@pytest.mark.usefixtures("pgx")
def test_workers_play_the_episodes_of_one_process(tmp_path: Path) -> None:
    alone, spread = tmp_path / "alone", tmp_path / "spread"
    train_in(BREAKOUT, alone, 900, 300)
    train_in(BREAKOUT | {"workers": {"count": 2}}, spread, 900, 300)
    assert weights(spread) == weights(alone) != []
