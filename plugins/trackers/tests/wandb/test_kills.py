"""A run that is killed twice has each step once in the logs that 'wandb sync' uploads."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracked_runs import killed_twice, trained_and_killed_twice

from rlcore import Tag
from rlcore_trackers.wandb.settings import WandbSettings
from rlcore_trackers.wandb.transaction_log import rows

TRACKER = "rlcore_trackers.wandb.tracker:WandbTracker"


def stored(directory: Path) -> list[tuple[str, int, float]]:
    """Behavior, step and mean reward of each row in all logs of the run."""
    return sorted(
        (key.removesuffix(f"/{Tag.CUMULATIVE_REWARD}"), row[key.replace(Tag.CUMULATIVE_REWARD, "Step")], value)
        for log in directory.glob("trackers/wandb/wandb/offline-run-*/run-*.wandb")
        for row in rows(log)
        for key, value in row.items()
        if key.endswith(Tag.CUMULATIVE_REWARD)
    )


@pytest.mark.faults
def test_a_run_that_is_killed_twice_has_each_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = killed_twice("wandb", TRACKER, WandbSettings(), tmp_path / "run", monkeypatch)
    assert stored(tmp_path / "run") == expected


@pytest.mark.faults
def test_a_training_that_is_killed_twice_has_each_step_once_with_the_values_of_its_metrics(
    tmp_path: Path,
) -> None:
    expected = trained_and_killed_twice("wandb", {}, tmp_path)
    assert stored(tmp_path / "results/run") == expected
