"""Faults of a tracker cost a training nothing, and its store no step: senders are real processes here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lake_plugin import SPEC
from tracked_runs import context, in_senders, journaled, killed_twice, send_by_hand, stats, until, writer

from rlcore_trackers import TrackerSettings
from rlcore_trackers.hooks import hooks_of, make_writer

STORE = "tracked_runs:FileTracker"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    in_senders(monkeypatch)


def stored(run: Path) -> list[int]:
    return [int(line.split()[1]) for line in (run / "store").read_text().splitlines()]


def test_a_store_that_fails_for_a_while_gets_everything_after_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rlcore")
    (tmp_path / "faults").write_text('{"fail": 2}')
    tracked = writer("lake", STORE, TrackerSettings(), tmp_path)
    tracked.write("Walker", 100, stats(1.0))
    until(lambda: (tmp_path / "store").exists())
    tracked.write("Walker", 200, stats(1.0))
    tracked.run_finished("done")
    tracked.close()
    assert stored(tmp_path) == [100, 200]
    assert [record.getMessage() for record in caplog.records] == [
        "OSError: database is locked; it is tried again, and the training goes on",
        "the store has the done run",
    ]


@pytest.mark.faults
@pytest.mark.parametrize("refused", [[200], [100, 300], [400]])
def test_a_summary_that_is_refused_does_not_keep_others_and_files_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, refused: list[int]
) -> None:
    caplog.set_level("INFO", "rlcore")
    (tmp_path / "faults").write_text(json.dumps({"refuse": refused}))
    tracked = writer("lake", STORE, TrackerSettings(checkpoints="last", finish_timeout=25), tmp_path)
    for step in (100, 200, 300, 400):
        tracked.write("Walker", step, stats(1.0))
    checkpoint = tmp_path / "checkpoints" / "400"
    checkpoint.mkdir(parents=True)
    tracked.checkpoint_saved(400, checkpoint)
    tracked.run_finished("done")
    tracked.close()
    assert stored(tmp_path) == [step for step in (100, 200, 300, 400) if step not in refused]
    assert (tmp_path / "kept").read_text() == "checkpoint 400 400\n"
    said = [record.getMessage() for record in caplog.records]
    first = f"the summary of 'Walker' at step {refused[0]}: ValueError: this step is out of range"
    assert f"{len(refused)} refused by the store: {first}" in said[-1]


def test_the_store_is_asked_again_after_a_send_that_failed_in_the_middle(tmp_path: Path) -> None:
    (tmp_path / "faults").write_text('{"part": 1}')
    tracked = writer("lake", STORE, TrackerSettings(), tmp_path)
    for step in (100, 200, 300):  # before the sender has started
        tracked.write("Walker", step, stats(1.0))
    tracked.close()
    assert stored(tmp_path) == [100, 200, 300]


@pytest.mark.faults
def test_a_journal_that_was_removed_and_begun_again_is_read_from_its_beginning(tmp_path: Path) -> None:
    tracked = writer("lake", STORE, TrackerSettings(), tmp_path)
    tracked.write("Walker", 100, stats(1.0))
    until(lambda: (tmp_path / "store").exists())
    (tmp_path / "trackers/lake.jsonl").unlink()
    tracked.write("Walker", 200, stats(1.0))  # as long as the line before
    tracked.close()
    assert stored(tmp_path) == [100, 200]


@pytest.mark.faults
def test_a_line_of_the_journal_that_is_half_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    tracked = writer("lake", STORE, TrackerSettings(), tmp_path)
    tracked.write("Walker", 100, stats(1.0))
    until(lambda: (tmp_path / "store").exists())
    line = (tmp_path / "trackers/lake.jsonl").read_bytes().splitlines(keepends=True)[0].replace(b"100", b"200")
    with (tmp_path / "trackers/lake.jsonl").open("ab", buffering=0) as journal:
        journal.write(line[:20])
        time.sleep(1.0)  # several looks of the sender
        journal.write(line[20:])
    tracked.close()
    assert stored(tmp_path) == [100, 200]


@pytest.mark.faults
def test_what_a_library_lost_without_a_word_is_sent_again_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rlcore")
    (tmp_path / "faults").write_text('{"lose": 1}')
    tracked = writer("lake", STORE, TrackerSettings(), tmp_path)
    tracked.write("Walker", 100, stats(1.0))
    until(lambda: '"lose": 0' in (tmp_path / "faults").read_text())
    tracked.write("Walker", 200, stats(1.0))
    tracked.run_finished("done")
    tracked.close()
    assert sorted(stored(tmp_path)) == [100, 200]
    assert [record.getMessage() for record in caplog.records] == [
        "RuntimeError: the store lacks 1 summaries that were sent; it is tried again, and the training goes on",
        "the store has the done run",
    ]


@pytest.mark.faults
def test_a_tracker_that_hangs_at_the_end_is_given_up_and_the_command_of_the_warning_sends_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "faults").write_text('{"hang": true}')
    tracked = writer("lake", STORE, TrackerSettings(finish_timeout=2.0), tmp_path)
    tracked.write("Walker", 100, stats(1.0))
    until(lambda: (tmp_path / "store").exists())
    begun = time.monotonic()
    tracked.close()
    assert time.monotonic() - begun < 4.0
    (record,) = caplog.records
    command = f"python -m rlcore_trackers {tmp_path} lake"
    assert record.getMessage().startswith("did not finish in time; ") and f"'{command}'" in record.getMessage()
    (tmp_path / "faults").unlink()
    tracked = writer("lake", STORE, TrackerSettings(finish_timeout=0.0), tmp_path, Walker=100)
    tracked.write("Walker", 200, stats(1.0))
    tracked.close()  # at once, long before its sender has started
    send_by_hand(tmp_path, "lake", {})
    assert stored(tmp_path) == [100, 200]


@pytest.mark.faults
def test_a_run_that_is_killed_twice_has_each_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = killed_twice("lake", STORE, TrackerSettings(), tmp_path / "run", monkeypatch)
    assert journaled(tmp_path / "run", "lake") == len(expected)
    assert sorted((tmp_path / "run/store").read_text().splitlines()) == sorted(
        f"{behavior} {step}" for behavior, step, _ in expected
    )


def test_a_sender_whose_training_was_killed_sends_the_rest_and_ends(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib; from tracked_runs import *\n"
        "tracked = writer('lake', 'tracked_runs:FileTracker', TrackerSettings(), pathlib.Path(sys.argv[1]))\n"
        "for step in (100, 200): tracked.write('Walker', step, stats(1.0))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == -signal.SIGKILL
    until(lambda: (tmp_path / "store").exists())
    assert stored(tmp_path) == [100, 200]
    # The lock is free again when the sender has ended.
    send_by_hand(tmp_path, "lake", {})
    assert stored(tmp_path) == [100, 200]


def test_a_program_that_a_killed_sender_started_keeps_the_next_sender_waiting(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    script = (
        "import os, pathlib, subprocess, sys; from rlcore_trackers.lock import take\n"
        "assert take(pathlib.Path(sys.argv[1]), lambda: False)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], stdout=2)\n"
        "print(child.pid, flush=True); os.kill(os.getpid(), 9)\n"
    )
    run = [sys.executable, "-c", script, str(lock)]
    child = int(subprocess.run(run, stdout=subprocess.PIPE, check=False).stdout)
    taking = [
        sys.executable,
        "-c",
        "import pathlib, sys; from rlcore_trackers.lock import take\n"
        "sys.exit(not take(pathlib.Path(sys.argv[1]), lambda: sys.argv[2] == 'wait'))",
        str(lock),
    ]
    try:
        assert subprocess.run([*taking, "try"], check=False).returncode == 1
    finally:
        os.kill(child, signal.SIGKILL)
    assert subprocess.run([*taking, "wait"], check=False, timeout=60).returncode == 0


def test_checkpoints_are_kept_last_or_all(tmp_path: Path) -> None:
    first = "checkpoint 100 100"
    last = "checkpoint 200 200"
    _, checkpoint_saved, run_finished = hooks_of(SPEC)
    for chosen, kept in (("none", []), ("last", [last]), ("all", [first, last])):
        run = context(tmp_path / chosen)
        tracked = make_writer(SPEC, TrackerSettings(checkpoints=chosen), run)
        for step in (100, 200):
            path = run.directory / f"checkpoints/{step}"
            path.mkdir(parents=True)
            checkpoint_saved(run, step, path)
        run_finished(run, "done")
        tracked.close()
        found = run.directory / "kept"
        assert (found.read_text().splitlines() if found.exists() else []) == kept
        assert not run.held_checkpoints._held.total()
    send_by_hand(run.directory, "lake", {})
    assert found.read_text().splitlines() == kept  # the next sender knows what was sent


@pytest.mark.faults
def test_a_run_that_takes_the_place_of_another_one_gets_nothing_of_its_sender(tmp_path: Path) -> None:
    first = writer("lake", STORE, TrackerSettings(), tmp_path / "run")
    first.write("Walker", 100, stats(1.0))
    until(lambda: (tmp_path / "run/store").exists())
    (tmp_path / "run").rename(tmp_path / "old")
    second = writer("lake", STORE, TrackerSettings(), tmp_path / "run")
    first.write("Walker", 200, stats(1.0))
    first.close()
    second.write("Walker", 100, stats(1.0))
    second.close()
    assert stored(tmp_path / "run") == [100]
    assert stored(tmp_path / "old") == [100]
    journals = [(tmp_path / run / "trackers/lake.jsonl").read_text().count('"summary"') for run in ("old", "run")]
    assert journals == [2, 1]  # the moved run still has what was not sent
