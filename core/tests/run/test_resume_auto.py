"""``--resume auto``: one command that starts a run, continues it, or says that nothing is left."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from rlcore.cli.run_options import with_auto
from rlcore.errors import ConfigError, RunStateError
from rlcore.files.lock import DirectoryLock
from rlcore.storage.directory import ResultsDirectory
from rlcore_devkit.fixtures import RunRlcore

AUTO = {"checkpoint_settings.resume": "auto"}
OWN_SEED = {**AUTO, "env_settings.seed": -1}
EVALUATED = {"evaluation": {"interval": 50, "episodes": 2}}


def states(files: Any) -> dict[int, Any]:
    return {step: files().checkpoint(step) for step in files().steps}


# ---------------------------------------------------------------- the states of a run directory


@pytest.mark.parametrize("there", ["absent", "empty", "locked before", "locked by another version"])
def test_what_was_never_begun_starts(make_run: Any, files: Any, there: str) -> None:
    if there != "absent":
        files().path.mkdir(parents=True)
    if there == "locked before":
        lock = DirectoryLock(files().path)
        lock.acquire()
        lock.release()
        assert (files().path / ".lock").read_text().startswith(f"process {os.getpid()} on {socket.gethostname()}")
    if there == "locked by another version":
        (files().path / ".lock").touch()
    make_run(AUTO).train()
    assert files().result["outcome"] == "done" and files().steps[-1] == 200
    configuration = yaml.safe_load((files().path / "configuration.yaml").read_text())
    assert configuration["checkpoint_settings"]["resume"] is False


def test_a_run_without_a_checkpoint_starts_over_in_place_with_its_seed(
    make_run: Any, files: Any, abandon: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rlcore")
    run = make_run(OWN_SEED, checkpoint_interval=100)
    next(run)
    seed = run.config.env_settings.seed
    abandon(run)
    assert files().steps == [] and files().metrics
    again = make_run(OWN_SEED, checkpoint_interval=100)
    again.train()
    assert again.config.env_settings.seed == seed and again.resumed_from is None
    assert [line["step"] for line in files().metrics] == [50, 100, 150, 200]
    assert [path.name for path in files().path.parent.iterdir()] == ["run"]
    assert f"{files().path}: has no checkpoint yet, and starts over" in caplog.messages


@pytest.mark.parametrize("content", ["", "env_settings: {seed: -3}", "env_settings: 3", "{"])
def test_a_damaged_configuration_costs_the_seed_and_no_more(
    make_run: Any, files: Any, abandon: Any, content: str
) -> None:
    run = make_run(OWN_SEED, checkpoint_interval=100)
    next(run)
    abandon(run)
    (files().path / "configuration.yaml").write_text(content)
    with make_run(OWN_SEED) as again:
        again.start()
        assert again.config.env_settings.seed >= 0


def test_best_policies_of_a_run_without_a_checkpoint_are_kept_until_it_has_one(
    make_run: Any, files: Any, abandon: Any
) -> None:
    run = make_run({**AUTO, **EVALUATED}, checkpoint_interval=120)
    next(run)
    abandon(run)
    assert files().best == [50] and files().steps == []
    (files().path / "notes.txt").write_text("mine")
    run = make_run({**AUTO, **EVALUATED}, checkpoint_interval=120)
    next(run)
    assert files("run.replaced").best == [50]
    abandon(run)  # killed again, and again nothing is lost
    make_run({**AUTO, **EVALUATED}, checkpoint_interval=120).train()
    assert files().result["outcome"] == "done" and files().best
    assert (files().path / "notes.txt").read_text() == "mine"
    assert [path.name for path in files().path.parent.iterdir()] == ["run"]


def test_a_run_with_checkpoints_continues_and_equals_one_that_was_never_stopped(
    make_run: Any, files: Any, abandon: Any
) -> None:
    make_run(keep_checkpoints=0).train()
    whole = states(files)
    shutil.rmtree(files().path)
    for _ in range(4):
        run = make_run(AUTO, keep_checkpoints=0)
        for epoch in run:
            if epoch.epoch == 1:
                break
        if run.outcome is None:
            abandon(run)
    make_run(AUTO, keep_checkpoints=0).train()
    assert states(files) == whole


def test_a_run_that_was_copied_without_its_mark_continues(make_run: Any, files: Any) -> None:
    run = make_run(AUTO)
    while not files().steps:
        next(run)
    run.close("interrupted")
    (files().path / "rlcore_run.json").unlink()
    with make_run(AUTO) as again:
        again.start()
        assert again.resumed_from is not None


def test_damaged_checkpoints_are_an_error_and_never_a_new_start(make_run: Any, files: Any) -> None:
    run = make_run(AUTO)
    while not files().steps:
        next(run)
    run.close("interrupted")
    for step in files().steps:
        (files().path / "checkpoints" / str(step) / "state.json").write_text("{")
    before = files().everything()
    with pytest.raises(RunStateError, match="restore one from a backup"):
        make_run(AUTO).train()
    assert files().everything() == before


def test_a_finished_run_stays_as_it_is(write: Any, files: Any, run_rlcore: RunRlcore) -> None:
    config = write(AUTO)
    assert run_rlcore("run", config).exit_code == 0
    before = files().everything()
    done = run_rlcore("run", config)
    assert done.exit_code == 0 and "nothing left to learn: max_steps 200 is reached" in done.stdout
    assert files().everything() == before
    shutil.rmtree(files().path / "checkpoints")
    gone = run_rlcore("run", config)
    assert gone.exit_code == 5 and "this run is over, and its checkpoints are gone" in gone.stderr


def test_an_early_end_by_an_evaluation_is_an_end(make_run: Any, files: Any) -> None:
    changes = {**AUTO, "evaluation": {"interval": 50, "episodes": 1, "stop_at": -1e9}}
    make_run(changes).train()
    before = files().everything()
    again = make_run(changes)
    again.train()
    assert again.nothing_left and files().everything() == before


@pytest.mark.parametrize("seen", ["steps", "seed"])
def test_another_configuration_is_refused_with_its_keys(make_run: Any, files: Any, seen: str) -> None:
    run = make_run(AUTO)
    while not files().steps:
        next(run)
    run.close("interrupted")
    before = files().everything()
    other: dict[str, Any] = {"env_settings.seed": 6} if seen == "seed" else {"behaviors.Agent.max_steps": 300}
    with pytest.raises(ConfigError) as caught:
        make_run({**AUTO, **other}).train()
    if seen == "seed":
        assert "the run was started with seed 5, not 6" in str(caught.value)
        return
    assert str(caught.value) == (
        f"{files().path}: resumes with another configuration (behaviors.Agent.max_steps is 300 instead of 200); "
        "--resume continues with it, and --resume auto only with the same configuration"
    )
    assert files().everything() == before
    # No number that is learned depends on these.
    with make_run({**AUTO, "evaluation": {"interval": 100, "episodes": 1}, "debug": True}) as unlike:
        unlike.start()
        assert unlike.resumed_from is not None
    make_run({"checkpoint_settings.resume": True, **other}).train()
    assert files().steps[-1] == 300


def test_files_of_others_are_refused_and_not_touched(make_run: Any, files: Any) -> None:
    for name, content in (("photo.jpg", "mine"), (".lock", "{}"), ("configuration.yaml", "{}")):
        files().path.mkdir(parents=True)
        (files().path / name).write_text(content)
        before = {path: path.read_bytes() for path in files().path.iterdir()}
        with pytest.raises(RunStateError, match=r"exists and is not a run of rlcore"):
            make_run(AUTO).train()
        assert {path: path.read_bytes() for path in files().path.iterdir()} == before
        shutil.rmtree(files().path)


def test_a_run_that_was_moved_aside_with_checkpoints_is_not_replaced_by_chance(
    make_run: Any, files: Any, killing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process was killed while it went back to an earlier checkpoint. Starting over would delete the run later."""
    make_run(keep_checkpoints=0).train()
    whole = states(files)
    back = {"checkpoint_settings.resume": True, "checkpoint_settings.checkpoint": "80"}

    def die(self: ResultsDirectory) -> None:
        """The operating system frees the locks of a process that is gone."""
        self._lock.release()
        self._replaced.release()

    with monkeypatch.context() as patch, killing(0, (shutil, "copy2"), (os, "link")) as killed:
        patch.setattr(ResultsDirectory, "close", die)
        with pytest.raises(killed):
            make_run(back, keep_checkpoints=0).train()
    assert files().steps == []
    with pytest.raises(RunStateError, match=r"the run that it was to replace is in \S+run.replaced"):
        make_run(AUTO, keep_checkpoints=0).train()
    assert {step: files("run.replaced").checkpoint(step) for step in files("run.replaced").steps} == whole


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"checkpoint_settings.force": True},
            "checkpoint_settings.force: replaces a run, which resume: auto never does",
        ),
        ({"checkpoint_settings.checkpoint": "40"}, "checkpoint_settings.checkpoint: is only for a run that exists"),
    ],
)
def test_what_would_lose_steps_at_each_start_is_refused(make_run: Any, changes: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_run({**AUTO, **changes}).train()


# ---------------------------------------------------------------- the lock


HOLD = """
import sys, time
from pathlib import Path
from rlcore.files.lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


def hold(path: Path, seconds: float) -> subprocess.Popen[str]:
    """A process that holds the lock of a run for some seconds, as the one before a requeue does."""
    environ = {**os.environ, "SLURM_JOB_ID": "4711"}
    words = [sys.executable, "-c", HOLD, str(path), str(seconds)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_another_process_is_waited_for_and_then_the_run_continues(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rlcore")
    run = make_run(AUTO)
    while not files().steps:
        next(run)
    run.close("interrupted")
    before = files().steps
    other = hold(files().path, 60.0)
    meanwhile = []

    def end_the_other() -> None:
        while "; waits up to 120 s" not in caplog.text:
            time.sleep(0.01)
        time.sleep(0.5)
        meanwhile.append(files().steps)
        other.kill()

    threading.Thread(target=end_the_other, daemon=True).start()
    make_run(AUTO).train()
    assert meanwhile == [before] and files().result["outcome"] == "done"
    line = next(message for message in caplog.messages if "waits up to 120 s" in message)
    assert f"another process is writing to this run (process {other.pid} on {socket.gethostname()}, boot " in line
    assert ", Slurm job 4711, since 20" in line
    other.wait()


@pytest.mark.parametrize(
    "settings", [{"resume": "auto", "wait_for_lock": 0.5}, {"resume": True}, {"wait_for_lock": 0.5}]
)
def test_a_process_that_does_not_end_is_named_and_its_lock_is_never_broken(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture, settings: dict[str, Any]
) -> None:
    caplog.set_level("INFO", "rlcore")
    run = make_run(AUTO)
    while not files().steps:
        next(run)
    run.close("interrupted")
    other = hold(files().path, 60.0)
    old = time.time() - 1e6
    os.utime(files().path / ".lock", (old, old))
    before = files().everything()
    begun = time.monotonic()
    with pytest.raises(RunStateError) as caught:
        make_run({f"checkpoint_settings.{key}": value for key, value in settings.items()}).train()
    waits = "wait_for_lock" in settings
    assert ("; waits up to 0.5 s" in caplog.text) == waits
    assert not waits or time.monotonic() - begun > 0.5
    assert other.poll() is None, "it waits no longer than it says"
    other.kill()
    other.wait()
    assert f"(process {other.pid} on {socket.gethostname()}" in str(caught.value)
    assert str(caught.value).endswith("; wait or stop it")
    assert files().everything() == before


def test_a_stop_ends_the_wait(make_run: Any, files: Any) -> None:
    files().path.mkdir(parents=True)
    other = hold(files().path, 60.0)
    run = make_run(AUTO)
    threading.Timer(0.5, run.request_stop, ("enough",)).start()
    begun = time.monotonic()
    with pytest.raises(RunStateError, match="another process is writing"):
        run.train()
    assert time.monotonic() - begun < 10.0
    other.kill()
    other.wait()


def test_the_lock_of_a_backup_with_hard_links_can_be_taken(make_run: Any, files: Any, tmp_path: Path) -> None:
    """``cp -al`` links the lock file too; a file of another program that is linked there stays as it is."""
    make_run(AUTO, max_steps=40).train()
    os.link(files().path / ".lock", tmp_path / "backup")
    make_run(AUTO, max_steps=40).train()
    (files().path / ".lock").unlink()
    (tmp_path / "notes").write_text("mine")
    os.link(tmp_path / "notes", files().path / ".lock")
    with pytest.raises(RunStateError, match="leads to another file"):
        make_run(AUTO, max_steps=40).train()
    assert (tmp_path / "notes").read_text() == "mine"


# ---------------------------------------------------------------- the words of a command


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("--resume FILE", "--resume FILE"),
        ("FILE --resume", "FILE --resume"),
        ("auto", "auto"),
        ("auto --resume", "auto --resume"),
        ("--resume ./auto", "--resume ./auto"),
        ("--resume -- auto", "--resume -- auto"),
        ("FILE -- --resume auto", "FILE -- --resume auto"),
        ("--resume auto", "--resume-auto"),
        ("--resume=auto", "--resume-auto"),
        ("FILE --resume auto", "FILE --resume-auto"),
        ("--resume auto FILE", "--resume-auto FILE"),
        ("--resume=auto auto", "--resume-auto auto"),
        ("--resume auto auto", "--resume-auto auto"),
        ("--resume automatic", "--resume automatic"),
        ("--resume --seed 1 auto", "--resume --seed 1 auto"),
    ],
)
def test_only_the_next_word_auto_is_the_value_of_resume(words: str, meant: str) -> None:
    assert with_auto(words.split()) == meant.split()


def test_a_file_that_is_called_auto_can_be_trained_and_resumed(
    write: Any, files: Any, run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    write().rename(tmp_path / "working" / "auto")
    for words in (("auto",), ("auto", "--resume"), ("--resume", "auto", "auto"), ("--resume=auto", "auto")):
        done = run_rlcore("run", *words)
        assert done.exit_code == 0, done.stderr
        assert ("nothing left to learn" in done.stdout) == (len(words) > 1)
    without = run_rlcore("run", "--resume", "auto")
    assert without.exit_code == 2 and "CONFIG is missing" in without.stderr
    places = ("--run-id", "run", "--results-dir", str(files().path.parent))
    assert run_rlcore("run", "--resume", "auto", *places).exit_code == 0


def test_flags_reach_the_settings(write: Any, files: Any, run_rlcore: RunRlcore) -> None:
    config = write()
    assert run_rlcore("run", config, "--resume", "auto", "--wait-for-lock", "3").exit_code == 0
    settings = yaml.safe_load((files().path / "configuration.yaml").read_text())["checkpoint_settings"]
    assert settings["wait_for_lock"] == 3.0 and settings["resume"] is False
    refused = run_rlcore("run", config, "--resume", "auto", "--force")
    assert refused.exit_code == 2 and "give only one of them" in refused.stderr
    wrong = run_rlcore("run", config, "--set", "checkpoint_settings.resume=always")
    assert wrong.exit_code == 2 and "checkpoint_settings.resume: must be" in wrong.stderr
    assert json.loads((files().path / "result.json").read_text())["outcome"] == "done"


def test_a_frozen_settings_object_names_its_signals() -> None:
    import signal

    from rlcore import CheckpointSettings

    settings = CheckpointSettings()
    ends = {signal.Signals(number).name for number, end in settings.signals().items() if end}
    assert ends == {"SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU"}
    settings = attrs.evolve(settings, save_signals=["SIGUSR1"])
    assert settings.signals()[signal.SIGUSR1] is False and settings.signals()[signal.SIGUSR2] is True
