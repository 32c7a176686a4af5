"""A run that is killed twice has each step once in MLflow's database, which is read with sqlite3."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tracked_runs import killed_twice

from rlcore import CUMULATIVE_REWARD
from rlcore_mlflow.settings import MlflowSettings

pytest.importorskip("mlflow")
TRACKER = "rlcore_mlflow.tracker:MlflowTracker"


def stored(database: Path) -> list[tuple[str, int, float]]:
    """Behavior, step and mean reward of each value in the database."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT key, step, value FROM metrics").fetchall()
    return sorted(
        (key.removesuffix(f"/{CUMULATIVE_REWARD}"), step, value)
        for key, step, value in rows
        if key.endswith(CUMULATIVE_REWARD)
    )


@pytest.mark.faults
def test_a_run_that_is_killed_twice_has_each_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = killed_twice("mlflow", TRACKER, MlflowSettings(), tmp_path / "run", monkeypatch)
    assert stored(tmp_path / "mlflow.db") == expected
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        assert database.execute("SELECT status FROM runs").fetchall() == [("FINISHED",)]
