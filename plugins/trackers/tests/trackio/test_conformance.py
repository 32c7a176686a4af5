"""The writer passes the conformance tests of statistics writers, by what the real library has stored."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tracked_runs import by_behavior, journaled, until

from rlcore_devkit import PluginConformance, StatsWriterConformance
from rlcore_devkit.conformance.writers import Written


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-trackers/trackio"


@pytest.mark.learning
class TestTrackio(StatsWriterConformance):
    writer = "rlcore-trackers/trackio"
    skip = {
        "test_a_resumed_run_goes_on_after_what_it_kept": "the first result of a step counts: see test_kills.py",
    }

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))

    def read(self, directory: Path) -> list[Written]:
        """Read Trackio's database."""
        database = directory / "trackio/rlcore.db"
        until(lambda: len(stored(database)) == journaled(directory, "trackio"))
        return stored(database)


def stored(path: Path) -> list[Written]:
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as database:
        try:
            rows = database.execute("SELECT step, metrics FROM metrics").fetchall()
        except sqlite3.OperationalError:  # the table is being made
            return []
    return by_behavior((step, json.loads(metrics)) for step, metrics in rows)
