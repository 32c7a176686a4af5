"""Runs in EnvPool: a resumed run equals one that was never stopped, with workers too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worker_runs import CASES, copy_of_run, metrics, weights

import rlcore

pytest.importorskip("envpool", reason="EnvPool has no wheel for this platform")

STEPS = 900


def train(directory: Path, workers: Any = None, **start: Any) -> None:
    rlcore.Run(
        {
            "environment": {
                "type": "envpool", "id": "Pendulum-v1", "num_envs": 3,
                "options": {"max_episode_steps": 70, "num_threads": 2}, "workers": workers,
            },
            "evaluation": {"interval": 350, "episodes": 2},
            "behaviors": {
                "Player": {
                    **CASES["ppo"]["behavior"],
                    "max_steps": STEPS, "summary_freq": 200, "checkpoint_interval": 300, "keep_checkpoints": 9,
                }
            },
            "checkpoint_settings": {"run_id": "run", "results_dir": str(directory), **start},
            "env_settings": {"seed": 5},
            "stats": {"console": False, "tensorboard": False},
        }
    ).train()  # fmt: skip


def test_a_run_resumed_at_a_checkpoint_equals_one_that_was_never_stopped(tmp_path: Path) -> None:
    """A pool cannot save its state: in both runs each checkpoint starts new episodes, in a pool with new seeds."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(whole)
    first = copy_of_run(whole, parts)
    assert int(first) < STEPS / 2
    halfway = weights(parts, first)
    train(parts, resume=True, checkpoint=first)
    assert weights(parts) == weights(whole) != []
    assert weights(parts) != halfway
    assert metrics(parts)[-3:] == metrics(whole)[-3:]


def test_workers_play_the_episodes_of_one_process(tmp_path: Path) -> None:
    """The environments of a pool draw from their own seeds, whichever other environments are in it."""
    alone, spread = tmp_path / "alone", tmp_path / "spread"
    train(alone)
    train(spread, workers={"count": 2})
    assert weights(spread) == weights(alone) != []
