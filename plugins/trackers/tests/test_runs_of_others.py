"""A run directory of another person names neither code to import, nor files to send, nor where they go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from tracked_runs import in_senders, send_by_hand, stats, until, writer

from rlcore_trackers import TrackerSettings
from rlcore_trackers.journal import Places
from rlcore_trackers.tracker import Task

STORE = "tracked_runs:FileTracker"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    in_senders(monkeypatch)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A tracked run with a checkpoint, in whose directory another person writes."""
    run = tmp_path / "run"
    tracked = writer("lake", STORE, TrackerSettings(system_info=False), run)
    tracked.write("Walker", 100, stats(1.0))
    until(lambda: (run / "store").exists())
    tracked.close()
    (run / "checkpoints/100").mkdir(parents=True)
    (run / "checkpoints/100/weights").write_text("weights")
    return run


def journal(run: Path, *entries: dict[str, Any]) -> None:
    with (run / "trackers/lake.jsonl").open("a") as stream:
        stream.writelines(json.dumps(entry) + "\n" for entry in entries)


def kept(run: Path) -> list[str]:
    return (run / "kept").read_text().splitlines() if (run / "kept").exists() else []


def test_the_class_of_the_tracker_is_the_registered_one(theirs: Path, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    about = json.loads((theirs / "trackers/lake.json").read_text())
    assert about.keys() == {"id"}
    (theirs / "trackers/lake.json").write_text(json.dumps(about | {"tracker": "evil:Evil", "settings": {}}))
    send_by_hand(theirs, "lake", {})
    assert not (tmp_path / "ran").exists()
    done = send_by_hand(theirs, "console", {}, code=2)
    assert "there is none; the run was not tracked with console" in done.stderr
    (theirs / "trackers/console.json").write_text(json.dumps(about))
    done = send_by_hand(theirs, "console", {}, code=2)
    assert "console: is a statistics writer that sends nothing; name a tracker" in done.stderr


def test_only_files_inside_the_run_are_sent(theirs: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (theirs / "checkpoints/link").symlink_to(tmp_path / "secret")
    (theirs / "checkpoints/200").mkdir()
    (theirs / "checkpoints/200/deep").symlink_to(tmp_path)
    places = ("../secret", str(tmp_path / "secret"), "checkpoints/link", "checkpoints/200", "a\0b")
    journal(
        theirs,
        *({"file": "checkpoint", "path": place, "step": 1} for place in places),
        {"file": "video", "path": str(tmp_path / "secret"), "step": 1},
        {"file": "checkpoint", "path": 7, "step": 1},
        {"summary": "Walker", "step": "200", "time": 0, "means": {}},
        {"file": "checkpoint", "path": "checkpoints/100", "step": 100},
    )
    done = send_by_hand(theirs, "lake", {})
    assert kept(theirs) == ["checkpoint 100 100"]
    assert done.stderr.count("is outside of the run, and is not sent") == 4


def test_a_resumed_run_sends_no_file_outside_of_it(theirs: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    journal(theirs, {"file": "checkpoint", "path": "../secret", "step": 1})
    tracked = writer("lake", STORE, TrackerSettings(), theirs, Walker=100)
    tracked.write("Walker", 200, stats(1.0))
    tracked.close()
    assert kept(theirs) == [] and "Walker 200" in (theirs / "store").read_text()


@pytest.mark.parametrize("name", ["trackers/lake", "trackers"])
def test_a_folder_of_the_tracker_that_leads_elsewhere_is_refused(theirs: Path, tmp_path: Path, name: str) -> None:
    place = theirs / name
    if place.exists():
        place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    (tmp_path / "moved").mkdir(exist_ok=True)
    done = send_by_hand(theirs, "lake", {}, code=2)
    assert "leads out of the run directory" in done.stderr


@pytest.mark.parametrize("name", ["x' OR 1=1", "0123456789ABCDEF", 7, None])
def test_an_id_that_rlcore_did_not_write_is_refused(tmp_path: Path, name: object) -> None:
    from rlcore import RunStateError

    places = Places(tmp_path, "lake")
    places.folder.mkdir()
    places.file("json").write_text(json.dumps({"id": name}))
    with pytest.raises(RunStateError, match="has no id of a tracked run"):
        places.tracked(Task(tracker=STORE, settings=attrs.asdict(TrackerSettings()), configuration={}))


def test_the_run_does_not_say_where_it_is_sent(theirs: Path) -> None:
    (theirs / "trackers/mlflow.json").write_text((theirs / "trackers/lake.json").read_text())
    (theirs / "trackers/mlflow.jsonl").touch()
    store = {"tracking_uri": "http://127.0.0.1:1", "project": "theirs"}
    done = send_by_hand(theirs, "mlflow", store, given=False, code=2)
    assert "stats.mlflow says where the run is sent: tracking_uri ('http://127.0.0.1:1'); --config FILE" in done.stderr
    # Local plugins of the run are code, and lake is one here.
    assert "lake" in send_by_hand(theirs, "lake", {}, given=False, code=2).stderr
    send_by_hand(theirs, "lake", {}, "--allow-local", given=False)
