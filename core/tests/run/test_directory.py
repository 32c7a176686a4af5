"""The run directory: which run may use it, and what is never deleted."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from rlcore import hookimpl, pruning
from rlcore.errors import EnvironmentFailed, RunStateError
from rlcore.storage import mark

RESUME = {"checkpoint_settings.resume": True}
FORCE = {"checkpoint_settings.force": True}


def test_an_existing_run_is_refused_and_one_that_goes_on_is_left_alone(make_run: Any, files: Any) -> None:
    first = make_run()
    thread = threading.Thread(target=first.start)  # a run may be started in one thread and closed in another
    thread.start()
    thread.join()
    while not files().steps:
        next(first)
    for changes in ({}, RESUME, FORCE):  # without an option, --force must not be what the message advises
        with pytest.raises(RunStateError, match="another process is writing to this run"):
            make_run(changes).train()
    first.train()
    assert first.outcome == "done" and files().steps[-1] == 200
    before = files().everything()
    with pytest.raises(RunStateError) as caught:
        make_run().train()
    assert str(caught.value) == (
        f"{files().path}: this run exists; resume it (--resume), replace it (--force) or choose another --run-id"
    )
    assert files().everything() == before
    make_run(RESUME).train()  # and the lock is free again


def test_a_checkpoint_that_its_run_deletes_while_another_one_looks_says_that_the_run_is_in_use(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_run()
    while not files().steps:
        next(first)
    look = mark.foreign_entries

    def look_too_late(checkpoint: Path) -> Any:
        shutil.rmtree(checkpoint)  # as the first run does with old ones
        return look(checkpoint)

    monkeypatch.setattr(mark, "foreign_entries", look_too_late)
    with pytest.raises(RunStateError, match="another process is writing to this run"):
        make_run(RESUME).train()
    first.close()
    with pytest.raises(RunStateError, match="No such file"):  # the run is closed: another program deletes files here
        make_run(RESUME).train()


class Events:
    """A plugin that writes a file for each behavior, and says so."""

    @hookimpl
    def rlcore_run_started(self, run: Any) -> None:
        run.own_files("{behavior}/events.*", "plots/final/*.png")
        for name in ("Agent/events.1", "plots/final/a.png"):
            (run.directory / name).parent.mkdir(parents=True, exist_ok=True)
            (run.directory / name).write_text(str(run.seed))

    @hookimpl
    def rlcore_checkpoint_saved(self, run: Any, step: int) -> None:
        run.own_files(f"tables/{step}.csv")
        (run.directory / "tables").mkdir(exist_ok=True)
        (run.directory / f"tables/{step}.csv").write_text(str(run.seed))


def test_force_leaves_what_rlcore_did_not_write(make_run: Any, files: Any, caplog: pytest.LogCaptureFixture) -> None:
    first = make_run(keep_checkpoints=0)
    first.plugins.register(Events(), "events")
    first.train()
    mine = [
        "notes.txt", "Agent/mine.txt", "plots/mine.png", "run_logs/own.log", "papers/a/b.pdf", ".old-draft",
        "metrics.jsonl.damaged", "tables/41.csv", ".rlcore-tmp-mine", "Agent.json/mine",
    ]  # fmt: skip
    assert (files().path / "tables/200.csv").exists()
    for name in mine:
        (files().path / name).parent.mkdir(parents=True, exist_ok=True)
        (files().path / name).write_text(name)
    make_run(FORCE, max_steps=60).train()
    assert files().steps == [40, 60]
    assert [line["step"] for line in files().metrics] == [50, 60]
    assert [(files().path / name).read_text() for name in mine] == mine
    assert not (files().path / "Agent" / "events.1").exists() and not (files().path / "plots" / "final").exists()
    assert not (files().path / "tables/200.csv").exists()
    assert [path.name for path in files().path.parent.iterdir()] == ["run"]
    # What others put among checkpoints stays where no step can meet it, and so does what would replace a link.
    (files().path / "checkpoints" / "80").mkdir()
    (files().path / "checkpoints" / "80" / "photo.jpg").write_text("mine")
    (files().path / "checkpoints" / "60" / "notes.txt").write_text("mine")
    (files().path / "photo.jpg").write_text("mine")
    run = make_run(FORCE, max_steps=80)
    run.start()
    (files().path / "photo.jpg").symlink_to("nowhere")
    run.train()
    assert files().steps == [40, 80] and (files().path / "photo.jpg").is_symlink()
    left = files("run.replaced").everything()
    assert left == dict.fromkeys(["checkpoints/60/notes.txt", "checkpoints/80/photo.jpg", "photo.jpg"], b"mine")
    message = f"{files('run.replaced').path}: checkpoints, photo.jpg stays there; rlcore did not write it"
    assert message in caplog.messages


@pytest.mark.parametrize("changes", [{}, FORCE])
def test_nothing_without_the_mark_of_rlcore_is_replaced(
    make_run: Any, files: Any, tmp_path: Path, changes: Any
) -> None:
    """A run of ML-Agents has a configuration.yaml too, and the same default name."""
    for names in (("configuration.yaml", "Agent.onnx", "run_logs/training_status.json"), (".lock",)):
        for name in names:
            (files().path / name).parent.mkdir(parents=True, exist_ok=True)
            (files().path / name).write_text("{}")
        before = files().everything()
        with pytest.raises(RunStateError, match=r"exists and is not a run of rlcore \(it has no rlcore_run.json\)"):
            make_run(changes).train()
        assert files().everything() == before
        shutil.rmtree(files().path)
    files().path.write_text("")
    with pytest.raises(RunStateError, match="exists and is not a run of rlcore"):
        make_run(changes).train()
    files().path.unlink()
    files().path.symlink_to(tmp_path)
    with pytest.raises(RunStateError, match="is a symbolic link"):
        make_run(changes).train()


@pytest.mark.parametrize("name", ["checkpoints", "checkpoints/best", "run_logs", "metrics.jsonl", "Agent", "tables"])
def test_no_link_leads_to_the_files_of_another_run(make_run: Any, files: Any, name: str) -> None:
    """Another run's checkpoints beyond ``keep_checkpoints`` were deleted, and its summaries appended to."""
    other = {"checkpoint_settings.run_id": "other", "evaluation": {"interval": 50, "episodes": 1}}
    for changes in (other, {"evaluation": other["evaluation"]}):
        run = make_run(changes, keep_checkpoints=0)
        run.plugins.register(Events(), "events")
        run.train()
    before = files("other").everything()
    mine = files().path / name
    shutil.rmtree(mine) if mine.is_dir() else mine.unlink()
    mine.symlink_to(files("other").path / name)
    with pytest.raises(RunStateError, match=rf"{name}: is a symbolic link, and a run writes and deletes only"):
        make_run(RESUME, keep_checkpoints=1, max_steps=400).train()
    with pytest.raises(RunStateError, match=f"{name}: is a symbolic link"), pruning(files().path):
        pass
    forced = make_run(FORCE, keep_checkpoints=1, max_steps=100)
    forced.plugins.register(Events(), "events")
    forced.train()
    assert files("other").everything() == before and not mine.is_symlink(), "it stays with the earlier run"


def test_a_run_whose_checkpoints_are_gone_is_replaced_only_by_force(make_run: Any, files: Any) -> None:
    make_run().train()
    shutil.rmtree(files().path / "checkpoints")
    with pytest.raises(RunStateError, match="this run is over, and its checkpoints are gone"):
        make_run().train()


def test_best_policies_without_a_checkpoint_are_replaced_only_by_force(make_run: Any, files: Any, abandon: Any) -> None:
    run = make_run({"evaluation": {"interval": 50, "episodes": 2}}, checkpoint_interval=500)
    next(run)
    abandon(run)
    assert files().best == [50] and files().steps == []
    before = files().everything()
    with pytest.raises(RunStateError, match="has no checkpoint to resume, but the policies of its best evaluation"):
        make_run().train()
    with pytest.raises(RunStateError, match=r"the policies of its best evaluation are in \S+best; start it .* --force"):
        make_run(RESUME).train()
    assert files().everything() == before


def test_a_run_copied_without_its_mark_is_resumed_and_marked(make_run: Any, files: Any) -> None:
    make_run().train()
    (files().path / "rlcore_run.json").unlink()
    with pytest.raises(RunStateError, match="is not a run of rlcore"):
        make_run(FORCE).train()
    make_run(RESUME, max_steps=240).train()
    make_run(FORCE).train()


@pytest.mark.parametrize("place", ["checkpoints/80", "checkpoints/200", "checkpoints/best/100"])
def test_a_run_with_a_checkpoint_of_a_newer_rlcore_is_neither_resumed_nor_replaced_nor_pruned(
    make_run: Any, files: Any, place: str
) -> None:
    evaluated = {"evaluation": {"interval": 100, "episodes": 2}}
    make_run(evaluated, keep_checkpoints=0).train()
    if "best" in place:
        (best,) = (files().path / "checkpoints" / "best").iterdir()
        place = f"checkpoints/best/{best.name}"
    manifest = files().path / place / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"checkpoint_format": 9}))
    before = files().everything()
    for option in (RESUME, FORCE):
        with pytest.raises(RunStateError, match=rf"{place}: format version 9 is of a newer rlcore"):
            make_run(evaluated | option, max_steps=400).train()
    (files().path / "checkpoints/80/state.json").write_text('{"new": 1}')  # and of another shape
    with pytest.raises(RunStateError, match=f"{place}: format version 9 is of a newer rlcore"), pruning(files().path):
        pass
    before["checkpoints/80/state.json"] = b'{"new": 1}'
    assert files().everything() == before


@pytest.mark.parametrize("replaced", [True, False])
def test_nothing_is_written_into_a_directory_that_was_not_locked(make_run: Any, files: Any, replaced: bool) -> None:
    first = make_run()
    next(first)
    files().path.rename(files("old").path)
    if replaced:
        make_run(max_steps=40).train()
    before = files().everything()
    with pytest.raises(RunStateError, match="run: was moved, deleted or replaced while this run was using it"):
        first.train()
    assert first.outcome == "failed"
    assert files().everything() == before and files().path.exists() == replaced
    assert files("old").steps == [40]


def test_a_start_that_fails_leaves_nothing_and_removes_nothing_of_others(make_run: Any, files: Any) -> None:
    for option in ("resume", "inference"):
        with pytest.raises(RunStateError, match=rf"there is no run to resume .*; start it without --{option}$"):
            make_run({f"checkpoint_settings.{option}": True}).train()
    with pytest.raises(Exception, match="port"):
        make_run({"environment.options": {"fault": "raise in reset"}}).train()
    assert not files().path.exists()
    run = make_run()
    run.directory.open()
    (files().path / "notes").write_text("mine")
    run.directory.close()
    assert (files().path / "notes").read_text() == "mine"


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "run", "result.json", "a b"])
def test_the_name_of_a_behavior_cannot_leave_its_place(make_run: Any, files: Any, tmp_path: Path, name: str) -> None:
    class Names:
        """An environment that names its behavior by itself."""

        @hookimpl(wrapper=True)
        def rlcore_create_environment(self) -> Any:
            environment = yield
            environment.behaviors = {name: attrs.evolve(environment.behaviors["Agent"], name=name)}
            return environment

    run = make_run()
    run.plugins.register(Names(), "names")
    with pytest.raises(EnvironmentFailed, match=r"'corridor': has a behavior whose name cannot be used: "):
        run.train()
    assert not files().path.exists() and list(tmp_path.rglob("x*")) == []


def test_two_that_start_at_once_share_no_directory(make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one begins, and ends, between our look at the directory and our lock."""
    ours = make_run()
    acquire = ours.directory._lock.acquire

    def late(*arguments: Any, **keywords: Any) -> Any:
        make_run().train()
        return acquire(*arguments, **keywords)

    monkeypatch.setattr(ours.directory._lock, "acquire", late)
    with pytest.raises(RunStateError, match="this run exists"):
        ours.train()
    assert files().result["outcome"] == "done"
    make_run(RESUME).train()  # the lock was given back


def test_a_plugin_declares_files_of_its_own_alone(make_run: Any) -> None:
    class Greedy:
        @hookimpl
        def rlcore_run_started(self, run: Any) -> None:
            for pattern in ("", "*", "plots/*", "*/x.png/**", "../x", "/tmp/x", "a/../../x", "a\\b", "?*"):
                with pytest.raises(ValueError, match=r"is not a path within the run|matches files of any name"):
                    run.own_files(pattern)
            assert run.files == ("metrics.jsonl",)

    run = make_run()
    run.plugins.register(Greedy(), "greedy")
    run.train()
    assert run.plugins.failures == []


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_link_in_the_place_of_the_lock_empties_no_file(make_run: Any, files: Any, tmp_path: Path, link: str) -> None:
    make_run().train()
    (tmp_path / "mine").write_text("mine")
    (files().path / ".lock").unlink()
    getattr(files().path / ".lock", link)(tmp_path / "mine")
    for changes in (RESUME, FORCE):
        with pytest.raises(RunStateError, match=r"\.lock: leads to another file|\.lock: is a symbolic link"):
            make_run(changes, max_steps=400).train()
    assert (tmp_path / "mine").read_text() == "mine"
