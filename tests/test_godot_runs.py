"""Runs in Godot: a resumed run equals one that was never stopped, and is exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from godot_worlds import engine_of, project_of
from worker_runs import whole_run_that_a_resumed_one_equals


@pytest.mark.parametrize("version", [3, pytest.param(4, marks=pytest.mark.learning)])
def test_a_run_resumed_at_a_checkpoint_equals_one_that_was_never_stopped(version: int, tmp_path: Path) -> None:
    """Each checkpoint starts the engine again, with the seed of the next episode."""
    game: dict[str, Any] = {
        "type": "godot", "engine": engine_of(version), "project": str(project_of(version, tmp_path)),
        "args": ["--world=pole", "--agents=4"], "repeatable": True,
    }  # fmt: skip
    run = whole_run_that_a_resumed_one_equals(game, tmp_path, 640, 160, export={"onnx": {"profile": "godot"}})
    assert (run / "Player.onnx").is_file()
    assert "Godot Engine" in (run / "run_logs" / "godot-0.log").read_text()
