"""A run of a study in Trackio's database: group, commit, deviations, system metrics."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tracked_runs import written_in_study

from rlcore import Tag
from rlcore_trackers.trackio.settings import TrackioSettings

TRACKER = "rlcore_trackers.trackio.tracker:TrackioTracker"


def test_a_run_of_a_study_is_grouped_and_has_its_commit_and_deviations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TrackioSettings(directory=str(tmp_path / "trackio"))
    commit = written_in_study("trackio", TRACKER, settings, tmp_path, monkeypatch)
    with closing(sqlite3.connect(tmp_path / "trackio/rlcore.db")) as database:
        ((name, text),) = database.execute("SELECT run_name, config FROM configs").fetchall()
        rows = [json.loads(row) for (row,) in database.execute("SELECT metrics FROM metrics ORDER BY step")]
    configuration = json.loads(text)
    assert (name, configuration["_Group"]) == ("walk-seed-3", "walk")
    assert configuration["rlcore"] == {"seed": "3", "job_type": "seed", "commit": commit, "dirty": True}
    assert b"example.org" not in text
    assert [row[f"Walker/{Tag.CUMULATIVE_REWARD}"] for row in rows] == pytest.approx([1.0, 2.0])
    assert [row[f"Walker/{Tag.CUMULATIVE_REWARD} Std"] for row in rows] == pytest.approx([2.0, 2.0])


PROGRAM = """
import sys, time
from pathlib import Path

import attrs
import trackio.cpu

from rlcore_trackers import Tracked
from rlcore_trackers.trackio.settings import TrackioSettings
from rlcore_trackers.trackio.tracker import TrackioTracker

folder, process = Path(sys.argv[1]), int(sys.argv[2]) or None
monitor = trackio.cpu.CpuMonitor
trackio.cpu.CpuMonitor = lambda run: monitor(run, interval=0.1)
tracker = TrackioTracker(
    Tracked(
        id="0123456789abcdef",
        name="walk",
        directory=folder,
        place=folder / "place",
        settings=attrs.asdict(TrackioSettings(directory=str(folder))),
        configuration={},
        process=process,
    )
)
time.sleep(1.0)
tracker.finish("done")
"""


@pytest.mark.learning
@pytest.mark.parametrize("process", [1, 0])
def test_system_metrics_are_sampled_while_a_process_trains(tmp_path: Path, process: int) -> None:
    # A process of its own, as the sender, because Trackio keeps its folder and variables for a whole process.
    variables = {**os.environ, "TRACKIO_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path), str(process)], check=True, env=variables)
    with closing(sqlite3.connect(tmp_path / "rlcore.db")) as database:
        rows = database.execute("SELECT run_name, metrics FROM system_metrics").fetchall()
    assert bool(rows) == bool(process)
    assert all(name == "walk" and "cpu/utilization" in json.loads(metrics) for name, metrics in rows)
