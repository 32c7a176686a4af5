"""A run that is killed twice has each step once in Trackio's database, which is read with sqlite3."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tracked_runs import (
    in_senders,
    killed_twice,
    send_by_hand,
    stats,
    trained_and_killed_twice,
    writer,
    written_while_locked,
)

from rlcore import Tag
from rlcore_trackers.trackio.settings import TrackioSettings

TRACKER = "rlcore_trackers.trackio.tracker:TrackioTracker"


def stored(folder: Path) -> list[tuple[str, int, float]]:
    """Behavior, step and mean reward of each row."""
    with closing(sqlite3.connect(folder / "rlcore.db")) as database:
        rows = database.execute("SELECT step, metrics FROM metrics").fetchall()
    return sorted(
        (key.removesuffix(f"/{Tag.CUMULATIVE_REWARD}"), step, value)
        for step, metrics in rows
        for key, value in json.loads(metrics).items()
        if key.endswith(Tag.CUMULATIVE_REWARD)
    )


@pytest.mark.faults
def test_a_run_that_is_killed_twice_has_each_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "trackio"
    expected = killed_twice("trackio", TRACKER, TrackioSettings(directory=str(folder)), tmp_path / "run", monkeypatch)
    assert stored(folder) == expected
    with closing(sqlite3.connect(folder / "rlcore.db")) as database:
        ((name, configuration),) = database.execute("SELECT run_name, config FROM configs").fetchall()
    assert name == "run" and json.loads(configuration)["behaviors"].keys() == {"Walker", "Striker"}


@pytest.mark.faults
def test_a_training_that_is_killed_twice_has_each_step_once_with_the_values_of_its_metrics(
    tmp_path: Path,
) -> None:
    expected = trained_and_killed_twice("trackio", {"directory": "trackio"}, tmp_path)
    assert stored(tmp_path / "trackio") == expected


@pytest.mark.faults
def test_a_locked_database_holds_no_training_up_and_loses_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_senders(monkeypatch)
    folder = tmp_path / "trackio"
    written_while_locked(
        writer("trackio", TRACKER, TrackioSettings(directory=str(folder)), tmp_path / "run"), folder / "rlcore.db"
    )
    assert stored(folder) == [("Walker", 100, 1.0), ("Walker", 200, 2.0), ("Walker", 300, 3.0)]


@pytest.mark.learning
def test_films_and_checkpoints_are_kept_once_beside_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_senders(monkeypatch)
    folder = tmp_path / "trackio"
    run = tmp_path / "ppo"
    tracked = writer("trackio", TRACKER, TrackioSettings(directory=str(folder), group="seeds"), run)
    tracked.write("Walker", 100, stats(1.0))
    (run / "checkpoints/100").mkdir(parents=True)
    (run / "checkpoints/100/weights").write_text("weights")
    tracked.checkpoint_saved(100, run / "checkpoints/100")
    tracked.run_finished("done")
    tracked.close()
    (tmp_path / "films").mkdir()
    (tmp_path / "films/walk.mp4").write_bytes(b"film")
    block = {"directory": str(folder), "group": "seeds"}
    films = ("--video", str(tmp_path / "films"))
    send_by_hand(run, "trackio", block, *films)
    (run / "trackers/trackio.files").unlink()  # as if both processes were killed before they could note the files
    send_by_hand(run, "trackio", block, *films)
    with closing(sqlite3.connect(folder / "rlcore.db")) as database:
        rows = [json.loads(row) for (row,) in database.execute("SELECT metrics FROM metrics ORDER BY id")]
        artifacts = database.execute("SELECT name, version FROM artifacts JOIN artifact_versions").fetchall()
        ((configuration,),) = database.execute("SELECT config FROM configs").fetchall()
    assert len(rows) == 2 and rows[0]["Walker/Losses/Policy Loss"] == 0.25
    assert (folder / "media" / rows[1]["video/walk"]["file_path"]).read_bytes() == b"film"
    assert artifacts == [("ppo-checkpoint", 0)]
    found = json.loads(configuration)
    assert found["behaviors"].keys() == {"Walker", "Striker"} and found["_Group"] == "seeds"
