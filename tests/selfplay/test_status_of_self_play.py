"""The section of the training status about self-play."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import small_run

from rlcore import Run

BLOCK: dict[str, Any] = {
    "trainer_type": "ppo",
    "max_steps": 300,
    "summary_freq": 100,
    "checkpoint_interval": 100,
    "hyperparameters": {"batch_size": 32, "buffer_size": 128},
    "self_play": {"save_steps": 100, "swap_steps": 50},
}


def test_the_status_says_who_learns_and_how_strong_the_opponents_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    changes = {
        "environment": {"type": "duel", "num_envs": 4},
        "behaviors": {"Agent": BLOCK},
        "plugins.local": ["tests/support/duels.py"],
    }
    with Run(small_run(tmp_path, changes, run_id="duel")) as run:
        run.train()
        logs = run.directory.path / "run_logs"
    status = json.loads((logs / "training_status.json").read_text())
    section = status["self_play"]
    assert section["learning_team"] == 0 and section["rated_games"] > 0
    assert section["elo"].keys() == {"Agent"}
    assert {"Agent@0", "Agent@300"} <= section["opponents"]["elo"].keys()
    assert status["Agent"]["elo"] == section["elo"]["Agent"], "where ML-Agents writes it"
