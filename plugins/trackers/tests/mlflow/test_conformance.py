"""The writer passes the conformance tests of statistics writers, by what the real library has stored."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tracked_runs import by_behavior, journaled, until

from rlcore_devkit import PluginConformance, StatsWriterConformance
from rlcore_devkit.conformance.writers import Written

pytest.importorskip("mlflow")


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-trackers/mlflow"


@pytest.mark.learning
class TestMlflow(StatsWriterConformance):
    writer = "rlcore-trackers/mlflow"
    skip = {
        "test_a_resumed_run_goes_on_after_what_it_kept": "the first result of a step counts: see test_kills.py",
    }

    @pytest.fixture(autouse=True)
    def _place(self, _skip_and_place: None, tmp_path: Path) -> None:
        self.directory = tmp_path / "run"
        self.directory.mkdir()

    def read(self, directory: Path) -> list[Written]:
        """Read MLflow's database."""
        database = directory.parent / "mlflow.db"
        until(lambda: len(stored(database)) == journaled(directory, "mlflow"))
        return stored(database)


def stored(path: Path) -> list[Written]:
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as database:
        try:
            rows = database.execute("SELECT step, key, value FROM metrics WHERE NOT is_nan").fetchall()
        except sqlite3.OperationalError:  # the table is being made
            return []
    steps: dict[tuple[int, str], dict[str, float]] = {}
    for step, key, value in rows:
        steps.setdefault((step, key.partition("/")[0]), {})[key] = value
    return by_behavior((step, row) for (step, _), row in steps.items())
