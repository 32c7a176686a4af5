"""Runs in simulators of JAX: a resumed run equals one that was never stopped, with self-play too; and workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worker_runs import PPO, train_in, weights, whole_run_that_a_resumed_one_equals

pytest.importorskip("jax", reason="JAX is not installed: pip install './plugins/jax[pgx,playground]'")

BREAKOUT: dict[str, Any] = {
    "type": "pgx", "id": "minatar-breakout", "num_envs": 4, "options": {"max_episode_steps": 40},
}  # fmt: skip
EVALUATION = {"interval": 350, "episodes": 2}


@pytest.fixture
def pgx() -> None:
    pytest.importorskip("pgx", reason="pgx is not installed: pip install './plugins/jax[pgx]'")


@pytest.mark.usefixtures("pgx")
def test_a_run_resumed_at_a_checkpoint_equals_one_that_was_never_stopped(tmp_path: Path) -> None:
    """A checkpoint has the state of the simulator, in the middle of episodes."""
    whole_run_that_a_resumed_one_equals(BREAKOUT, tmp_path, 900, 200, evaluation=EVALUATION)


@pytest.mark.usefixtures("pgx")
def test_a_resumed_run_of_self_play_equals_one_that_was_never_stopped(tmp_path: Path) -> None:
    game = {"type": "pgx", "id": "tic_tac_toe", "num_envs": 4}
    self_play = {"save_steps": 200, "team_change": 400, "swap_steps": 100}
    behaviors = {
        "Player": {
            **PPO,
            "self_play": self_play,
            "max_steps": 900,
            "summary_freq": 200,
            "checkpoint_interval": 200,
            "keep_checkpoints": 9,
        }
    }
    whole_run_that_a_resumed_one_equals(game, tmp_path, 900, 200, behaviors=behaviors)


@pytest.mark.usefixtures("pgx")
def test_workers_play_the_episodes_of_one_process(tmp_path: Path) -> None:
    alone, spread = tmp_path / "alone", tmp_path / "spread"
    train_in(BREAKOUT, alone, 900, 300)
    train_in(BREAKOUT | {"workers": {"count": 2}}, spread, 900, 300)
    assert weights(spread) == weights(alone) != []


@pytest.mark.learning  # a task takes a minute to compile
def test_a_resumed_run_in_playground_equals_one_that_was_never_stopped(tmp_path: Path) -> None:
    pytest.importorskip(
        "mujoco_playground", reason="MuJoCo Playground is not installed: pip install './plugins/jax[playground]'"
    )
    task = {"type": "playground", "id": "CartpoleBalance", "num_envs": 4, "options": {"max_episode_steps": 40}}
    whole_run_that_a_resumed_one_equals(task, tmp_path, 900, 200)
