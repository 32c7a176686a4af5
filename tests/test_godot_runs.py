"""Runs in Godot: a resumed run equals one that was never stopped, and is exported."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from godot_worlds import PROJECT
from worker_runs import CASES, copy_of_run, metrics, weights

import rlcore

STEPS = 640

pytestmark = pytest.mark.skipif(
    shutil.which("godot3-server") is None, reason="godot3-server is not installed (apt install godot3-server)"
)


def train(directory: Path, **start: Any) -> None:
    rlcore.Run(
        {
            "environment": {
                "type": "godot", "project": str(PROJECT), "args": ["--world=pole", "--agents=4"], "repeatable": True,
            },
            "behaviors": {
                "Player": {
                    **CASES["ppo"]["behavior"],
                    "max_steps": STEPS, "summary_freq": 160, "checkpoint_interval": 160, "keep_checkpoints": 9,
                }
            },
            "export": {"onnx": {"profile": "godot"}},
            "checkpoint_settings": {"run_id": "run", "results_dir": str(directory), **start},
            "env_settings": {"seed": 5},
            "stats": {"console": False, "tensorboard": False},
        }
    ).train()  # fmt: skip


def test_a_run_resumed_at_a_checkpoint_equals_one_that_was_never_stopped(tmp_path: Path) -> None:
    """Each checkpoint starts the engine again, with the seed of the next episode."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(whole)
    first = copy_of_run(whole, parts)
    assert int(first) < STEPS
    halfway = weights(parts, first)
    train(parts, resume=True, checkpoint=first)
    assert weights(parts) == weights(whole) != []
    assert weights(parts) != halfway
    assert metrics(parts)[-2:] == metrics(whole)[-2:]
    assert (whole / "run" / "Player.onnx").is_file()
    assert "Godot Engine" in (whole / "run" / "run_logs" / "godot-0.log").read_text()
