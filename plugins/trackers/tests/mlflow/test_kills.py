"""A run that is killed twice has each step once in MLflow's database, which is read with sqlite3."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tracked_runs import in_senders, killed_twice, trained_and_killed_twice, writer, written_while_locked

from rlcore import Tag
from rlcore_trackers.mlflow.settings import MlflowSettings

pytest.importorskip("mlflow")
TRACKER = "rlcore_trackers.mlflow.tracker:MlflowTracker"


def stored(database: Path) -> list[tuple[str, int, float]]:
    """Behavior, step and mean reward of each value in the database."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT key, step, value FROM metrics").fetchall()
    return sorted(
        (key.removesuffix(f"/{Tag.CUMULATIVE_REWARD}"), step, value)
        for key, step, value in rows
        if key.endswith(Tag.CUMULATIVE_REWARD)
    )


@pytest.mark.faults
def test_a_run_that_is_killed_twice_has_each_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = killed_twice("mlflow", TRACKER, MlflowSettings(), tmp_path / "run", monkeypatch)
    assert stored(tmp_path / "mlflow.db") == expected
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        assert database.execute("SELECT status FROM runs").fetchall() == [("FINISHED",)]


@pytest.mark.faults
def test_a_training_that_is_killed_twice_has_each_step_once_with_the_values_of_its_metrics(
    tmp_path: Path,
) -> None:
    expected = trained_and_killed_twice("mlflow", {}, tmp_path)
    assert stored(tmp_path / "results/mlflow.db") == expected


@pytest.mark.faults
def test_a_locked_database_holds_no_training_up_and_loses_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_senders(monkeypatch)
    written_while_locked(writer("mlflow", TRACKER, MlflowSettings(), tmp_path / "run"), tmp_path / "mlflow.db")
    assert stored(tmp_path / "mlflow.db") == [("Walker", 100, 1.0), ("Walker", 200, 2.0), ("Walker", 300, 3.0)]
