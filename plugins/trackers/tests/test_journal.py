"""The journal of a run: what it keeps of kills, full disks and backups."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import attrs
import pytest

from rlcore_trackers import TrackerSettings
from rlcore_trackers import journal as module
from rlcore_trackers.journal import Journal, Places
from rlcore_trackers.tracker import Task


def entry(step: int, behavior: str = "Walker") -> dict[str, object]:
    return {"summary": behavior, "step": step}


def steps(places: Places) -> list[int]:
    return [json.loads(line)["step"] for line in places.file("jsonl").read_text().splitlines()]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path, "lake")


def test_a_last_line_that_was_cut_short_is_written_again(places: Places) -> None:
    journal = Journal(places)
    for step in (100, 200):
        journal.append(entry(step))
    journal.close()
    path = places.file("jsonl")
    path.write_bytes(path.read_bytes()[:-5])
    resumed = Journal(places)
    assert resumed.keys == {("Walker", 100)}
    resumed.append(entry(200))
    assert steps(places) == [100, 200]


def test_a_journal_with_entries_of_another_form_is_read(places: Places) -> None:
    places.folder.mkdir()
    lines = ['{"summary": ["a"], "step": 1}', '{"summary": "Walker"}', "[]", "x", '{"end": {}, "session": 1}']
    places.file("jsonl").write_text("\n".join([*lines, json.dumps(entry(100)), ""]))
    assert Journal(places).keys == {("Walker", 100)}


@pytest.mark.parametrize("damage", ["directory", "link"])
def test_a_journal_that_cannot_be_read_is_moved_aside(
    places: Places, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    places.folder.mkdir()
    path = places.file("jsonl")
    path.mkdir() if damage == "directory" else path.symlink_to(places.directory / "elsewhere")
    journal = Journal(places)
    journal.append(entry(100))
    assert steps(places) == [100] and os.path.lexists(places.folder / "lake.jsonl.damaged")
    assert "moved to lake.jsonl.damaged, and a new journal is begun" in caplog.text


def test_entries_of_a_full_disk_wait_and_come_in_order(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(places)
    journal.append(entry(100))
    write = os.write
    for full in (lambda descriptor, line: write(descriptor, line[:4]), lambda *_: _no_space()):
        monkeypatch.setattr(module.os, "write", full)
        with pytest.raises(OSError, match=r"full|space"):
            journal.append(entry(200 + 100 * journal.waiting))
        assert steps(places) == [100]
    assert journal.waiting == 2
    monkeypatch.setattr(module.os, "write", write)
    journal.append(entry(400))
    assert steps(places) == [100, 200, 300, 400] and journal.waiting == 0


def _no_space() -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_backup_by_hard_links_gets_no_entry_and_a_removed_journal_is_begun_again(
    places: Places, tmp_path: Path
) -> None:
    journal = Journal(places)
    journal.append(entry(100))
    (tmp_path / "backup").hardlink_to(places.file("jsonl"))
    journal.append(entry(200))
    assert steps(places) == [100, 200]
    assert len((tmp_path / "backup").read_text().splitlines()) == 1
    places.file("jsonl").unlink()
    journal.append(entry(300))
    assert steps(places) == [300]


def test_a_resumed_run_keeps_its_id_and_another_run_has_another(places: Places, tmp_path: Path) -> None:
    places.folder.mkdir()
    ids = []
    for project in ("a", "b"):
        settings = attrs.asdict(TrackerSettings(project=project))
        task = Task(tracker="lake:Lake", settings=settings, configuration={})
        places.write_about(None)
        tracked = places.tracked(task)
        ids.append(tracked.id)
        assert (tracked.settings, tracked.name, tracked.directory) == (task.settings, tmp_path.name, tmp_path)
    other = Places(tmp_path, "river")
    other.write_about(None)
    assert ids[0] == ids[1] != other.tracked(task).id
