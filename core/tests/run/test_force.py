"""``--force`` replaces a run only when the new one has a checkpoint."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.errors import NonFiniteError, PluginError, RunStateError
from rlcore.files.lock import DirectoryLock, is_locked
from rlcore.storage.checkpoint import load_checkpoint
from rlcore.storage.directory import ResultsDirectory

FORCE = {"checkpoint_settings": {"force": True}}
RESUME = {"checkpoint_settings": {"resume": True}}


class Refuses:
    """A plugin whose ``hook`` raises; ``note`` is a file that it writes before."""

    def __init__(self, hook: str, error: BaseException, note: str = "") -> None:
        self.notes = {note: b"of the new run"} if note else {}

        def refuse(run: Any) -> None:
            for name, text in self.notes.items():
                (run.directory / name).write_bytes(text)
            raise error

        setattr(self, hook, hookimpl(refuse))


@pytest.mark.parametrize(
    ("plugin", "error"),
    [
        (Refuses("rlcore_create_stats_writer", OSError("no network")), PluginError),
        (Refuses("rlcore_run_started", OSError("no network"), "notes.txt"), PluginError),
        (Refuses("rlcore_run_started", KeyboardInterrupt(), "notes.txt"), KeyboardInterrupt),
    ],
)
def test_a_start_that_fails_after_it_wrote_costs_no_old_run_and_takes_no_name(
    make_run: Any, files: Any, plugin: Any, error: type[BaseException]
) -> None:
    def fail(changes: Any = None) -> None:
        run = make_run(changes, plugins={"cloud": plugin})
        run.plugins._manager._strict = True
        with pytest.raises(error):
            run.train()

    if not plugin.notes:
        fail()
        assert not files().path.exists()
    make_run().train()
    before = files().everything()
    fail({**FORCE, "env_settings.seed": 6})
    assert files().everything() == before | plugin.notes, "what a plugin does not declare could be a user's"
    assert [path.name for path in files().path.parent.iterdir()] == ["run"]
    make_run(RESUME).train()  # the lock is free


def test_a_run_that_fails_before_its_first_checkpoint_costs_no_old_run(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rlcore")
    make_run().train()
    before = files().everything()
    diverges = {**FORCE, "environment.options": {"fault": "NaN reward", "at": 1}}
    with pytest.raises(NonFiniteError):
        make_run(diverges).train()
    aside = files("run.replaced").path
    assert (
        f"{files().path}: the run that was here is kept in {aside} until this one has a regular checkpoint"
        in caplog.text
    )
    assert f"{files().path}: the run that was here before is still in {aside}" in caplog.text
    assert files("run.replaced").everything() == before
    with pytest.raises(RunStateError, match=rf"no checkpoint; the run that it was to replace is in {aside}; start it"):
        make_run(RESUME).train()
    # Tried again, it is still the old run that waits, and goes when there is something in its place.
    with pytest.raises(NonFiniteError):
        make_run(diverges).train()
    assert files("run.replaced").everything() == before
    assert sorted(path.name for path in files().path.parent.iterdir()) == ["run", "run.replaced"]
    make_run(FORCE, max_steps=60).train()
    assert [path.name for path in files().path.parent.iterdir()] == ["run"] and files().steps == [40, 60]


@pytest.mark.parametrize("steps", [0, 20])
def test_a_run_that_is_stopped_before_a_regular_checkpoint_costs_no_old_run(
    make_run: Any, files: Any, steps: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A user who stops it may have seen that it was a mistake."""
    make_run().train()
    before = files().everything()
    run = make_run(FORCE, summary_freq=20)
    run.start()
    if steps:
        next(run)
    run.close("interrupted")
    assert files().steps == [steps] and files("run.replaced").everything() == before
    resumed = make_run(RESUME, summary_freq=20)
    resumed.start()
    assert files("run.replaced").everything() == before
    resumed.train()
    assert not files("run.replaced").path.exists()


def test_a_resume_that_cannot_start_changes_neither_result_nor_configuration(make_run: Any, files: Any) -> None:
    make_run().train()
    before = files().everything()
    run = make_run(RESUME, max_steps=400)
    run.plugins._manager._strict = True
    run.plugins.register(Refuses("rlcore_run_started", OSError("no network"), "notes.txt"), "cloud")
    with pytest.raises(PluginError):
        run.train()
    for name in ("result.json", "configuration.yaml", "metrics.jsonl"):
        assert files().everything()[name] == before[name]


@pytest.mark.parametrize("change", ["newer", "link", "another run", "resumed"])
def test_a_replaced_run_is_deleted_only_as_it_was_where_it_was(
    make_run: Any, files: Any, tmp_path: Path, abandon: Any, change: str
) -> None:
    make_run(max_steps=100).train()
    run = make_run(FORCE)
    run.start()
    place = files("run.replaced")
    again = {"checkpoint_settings.run_id": "run.replaced"}
    if change == "newer":
        manifest = place.path / "checkpoints/100/manifest.json"
        manifest.write_text(manifest.read_text().replace('"checkpoint_format": 1', '"checkpoint_format": 9'))
    elif change == "link":
        place.path.rename(tmp_path / "moved")
        place.path.symlink_to(tmp_path / "moved")
    else:
        abandon(run)
        if change == "another run":
            shutil.rmtree(place.path)
        make_run(again if change == "another run" else {**RESUME, **again}).train()
        run = make_run(FORCE)
    before = place.everything()
    run.train()
    assert place.everything() == before and len(before) > 10


def test_a_replaced_run_that_someone_holds_stays_while_a_later_one_is_deleted(
    make_run: Any, files: Any, abandon: Any
) -> None:
    make_run(max_steps=100).train()
    run = make_run(FORCE)
    run.start()
    abandon(run)
    held = files("run.replaced")
    lock = DirectoryLock(files("run.replaced").path)
    lock.acquire()
    make_run(FORCE).train()
    before = held.everything()
    make_run(FORCE).train()
    lock.release()
    assert held.everything() == before and not files("run.replaced-2").path.exists()


def test_a_name_that_a_user_gave_is_not_taken(make_run: Any, files: Any) -> None:
    make_run({"checkpoint_settings.run_id": "run.replaced"}).train()
    make_run().train()
    before = files("run.replaced").everything()
    run = make_run(FORCE)
    run.start()
    assert files("run.replaced-2").steps and is_locked(files("run.replaced-2").path)
    next(run)
    assert files().steps == [40], "deleted with the first checkpoint"
    assert files("run.replaced").everything() == before and not files("run.replaced-2").path.exists()
    run.close("interrupted")


# What is renamed, made and written from the moment the old run is moved to the new one's first regular checkpoint.
CALLS = [(Path, "rename"), (Path, "mkdir"), (Path, "replace"), (Path, "unlink"), (Path, "rmdir"), (shutil, "rmtree")]


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that dies closes as a process that is gone: the operating system frees its locks."""

    def die(self: ResultsDirectory) -> None:
        if sys.exception() is None:
            return close(self)
        self._lock.release()
        return self._replaced.release()

    close = ResultsDirectory.close
    monkeypatch.setattr(ResultsDirectory, "close", die)


@pytest.mark.parametrize("calls", range(0, 60, 4))
def test_a_forced_run_killed_at_any_change_of_the_disk_leaves_the_old_run_or_a_checkpoint(
    make_run: Any, files: Any, killing: Any, undone: None, calls: int
) -> None:
    make_run().train()
    before = files().everything()
    with killing(calls, *CALLS) as killed:
        try:
            make_run({**FORCE, "env_settings.seed": 6}, max_steps=60).train()
        except killed:
            pass
        else:
            assert calls > 30
    whole = [path for path in files().path.parent.iterdir() if holds(path, before)]
    if whole == [files().path]:
        make_run(RESUME).train()
        assert holds(files().path, before)
    elif files().steps:
        assert load_checkpoint(files().path / "checkpoints" / "40")["run"]["seed"] == 6
        make_run({**RESUME, "env_settings.seed": 6}, max_steps=60).train()
        assert [path.name for path in files().path.parent.iterdir()] == ["run"]
    else:
        assert whole == [files("run.replaced").path]
        make_run({**RESUME, "checkpoint_settings.run_id": "run.replaced"}).train()
        with pytest.raises(RunStateError, match=r"run\.replaced"):
            make_run(RESUME).train()


def holds(path: Path, everything: dict[str, bytes]) -> bool:
    """Whether a run is there, whole; a resume gives its mark another id, and its lock another owner."""
    wanted = {name: data for name, data in everything.items() if name not in ("rlcore_run.json", ".lock")}
    return all((path / name).is_file() and (path / name).read_bytes() == data for name, data in wanted.items())


@pytest.mark.parametrize("name", ["../victim", "victim", "", "a/b", "/tmp/victim"])
def test_a_mark_of_somebody_else_reaches_no_other_run(make_run: Any, files: Any, name: str) -> None:
    make_run({"checkpoint_settings.run_id": "victim"}).train()
    make_run(max_steps=100).train()
    victim = files("victim").everything()
    mark = files().json("rlcore_run.json")
    forged = {"replaces": {name: files("victim").json("rlcore_run.json")["run"]}, "files": ["*", "../victim/*"]}
    (files().path / "rlcore_run.json").write_text(json.dumps(mark | forged))
    (files().path / "notes.txt").write_text("mine")
    make_run(RESUME).train()
    make_run(FORCE).train()
    assert files("victim").everything() == victim and (files().path / "notes.txt").exists()
