"""The commit of the working directory: read from a repository of git's, without running what it names."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
from tracked_runs import git, repository, writer

from rlcore_trackers import TrackerSettings
from rlcore_trackers import git_state as module
from rlcore_trackers.git_state import GitState, git_state
from rlcore_trackers.journal import Places
from rlcore_trackers.tracker import Task


def test_changes_of_tracked_files_make_it_dirty_and_new_files_do_not(tmp_path: Path) -> None:
    commit = repository(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results/metrics.jsonl").touch()
    assert git_state(tmp_path / "results") == GitState(commit, dirty=False)
    (tmp_path / "train.py").write_text("changed")
    assert git_state(tmp_path) == GitState(commit, dirty=True)


def test_it_is_unknown_outside_of_a_repository_without_a_commit_and_without_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) is None
    git(tmp_path, "init", "--quiet")
    assert git_state(tmp_path) is None
    repository(tmp_path)
    assert git_state(tmp_path) is not None
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    assert git_state(tmp_path) is None
    monkeypatch.setenv("PATH", "")
    assert git_state(tmp_path) is None


def test_a_monitor_that_the_repository_names_is_not_run_and_its_index_stays(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "monitor").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    (tmp_path / "monitor").chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(tmp_path / "monitor"))
    (tmp_path / "train.py").touch()  # another time, so that git would refresh its index
    before = (tmp_path / ".git/index").stat()
    assert git_state(tmp_path) is not None
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / ".git/index").stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("sent", [True, False])
def test_one_key_sends_the_commit_of_the_working_directory_and_system_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bool
) -> None:
    commit = repository(tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = TrackerSettings(system_info=sent)
    monkeypatch.setattr("rlcore_trackers.writer.TrackerWriter._start", lambda self: None)
    writer("lake", "tracked_runs:FileTracker", settings, tmp_path / "run").close()
    places = Places(tmp_path / "run", "lake")
    task = Task(tracker="lake:Lake", settings=attrs.asdict(settings), configuration={})
    tracked = places.tracked(task, process=7)
    assert (tracked.git, tracked.process) == ((GitState(commit, dirty=False), 7) if sent else (None, None))
    assert places.tracked(task).process is None  # a run that is sent later, perhaps on another machine
    about = json.loads(places.file("json").read_text())
    assert about.keys() == ({"id", "commit", "dirty"} if sent else {"id"})
    places.file("json").write_text(json.dumps(about | {"commit": "x", "dirty": "y"}))
    assert places.tracked(task).git is None
