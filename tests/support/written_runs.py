"""Run directories written by hand, so that tests of what reads them need neither a trainer nor an environment."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

REWARD = "Environment/Cumulative Reward"
Write = Callable[..., Path]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory ``results`` in the directory in which ``run_rlcore`` starts commands, and the test is."""
    place = tmp_path / "working" / "results"
    place.mkdir(parents=True)
    monkeypatch.chdir(place.parent)
    return place


@pytest.fixture
def write_run(results: Path) -> Write:
    """``write_run("a-1", seed=1, points=[(100, 1.0)])``: a run directory with one behavior and these summaries."""

    def write(
        name: str,
        seed: int = 1,
        points: Sequence[tuple[int, float | None]] = ((100, 1.0), (200, 2.0)),
        behavior: str = "Agent",
        tag: str = REWARD,
        outcome: str | None = "done",
        mean_reward: float | None = 2.5,
        **hyperparameters: Any,
    ) -> Path:
        place = results / name
        (place / "run_logs").mkdir(parents=True)
        configuration = {
            "behaviors": {behavior: {"trainer_type": "absent", "hyperparameters": hyperparameters, "max_steps": 200}},
            "env_settings": {"seed": seed},
            "checkpoint_settings": {"run_id": name},
        }
        (place / "configuration.yaml").write_text(yaml.safe_dump(configuration), "utf-8")
        lines = [
            {"behavior": behavior, "step": step, "time": 1.0, "stats": {tag: value, "Is Training": 1.0}}
            for step, value in points
        ]
        (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        if outcome is not None:
            ended = {"steps": 200, "episodes": 10, "mean_reward": mean_reward}
            result = {
                "outcome": outcome,
                "wall_seconds": 90.0,
                "steps_per_second": 50.0,
                "behaviors": {behavior: ended},
            }
            (place / "result.json").write_text(json.dumps(result), "utf-8")
        timers = {
            "total": 10.0,
            "children": {
                "run_training.setup": {"total": 1.0},
                "TrainerController.start_learning": {"total": 8.0, "children": {"env_step": {"total": 6.0}}},
            },
        }
        (place / "run_logs/timers.json").write_text(json.dumps(timers), "utf-8")
        return place

    return write
