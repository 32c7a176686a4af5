"""Logs that wandb itself wrote, whole and cut short at every place, and a run whose log was cut short."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracked_runs import by_behavior, in_senders, stats, until, writer

from rlcore import StatSummary
from rlcore_trackers.wandb.settings import WandbSettings
from rlcore_trackers.wandb.transaction_log import BLOCK, records, rows
from rlcore_trackers.writer import TrackerWriter

TRACKER = "rlcore_trackers.wandb.tracker:WandbTracker"
LOGS = "trackers/wandb/wandb/offline-run-*/run-*.wandb"
STEPS = tuple(range(100, 4100, 100))


def made(directory: Path, **resumed: int) -> TrackerWriter:
    return writer("wandb", TRACKER, WandbSettings(), directory, **resumed)


def steps(directory: Path) -> list[int]:
    """The steps in all logs of a run, sorted."""
    found = [row for log in directory.glob(LOGS) for row in rows(log)]
    return sorted(step for _, step, _ in by_behavior((row["Walker/Step"], row) for row in found))


@pytest.mark.faults
def test_a_log_is_read_up_to_the_place_where_it_was_cut_and_the_next_log_has_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_senders(monkeypatch)
    run = tmp_path / "run"
    first = made(run)
    wide = {f"Wide/{number}": StatSummary.of([number / 7]) for number in range(40)}  # the log has several blocks
    for step in STEPS:
        first.write("Walker", step, {**stats(step / 100), **wide})
    first.close()
    (log,) = run.glob(LOGS)
    whole = log.read_bytes()
    assert len(whole) > 2 * BLOCK
    found = [(row["Walker/Step"], row["Walker/Wide/7"], row["_step"]) for row in rows(log)]
    assert found == [(step, 1.0, index) for index, step in enumerate(STEPS)]
    complete = list(records(whole))
    counts = []
    for length in range(0, len(whole), 97):
        read = list(records(whole[:length]))
        assert read == complete[: len(read)]
        counts.append(len(read))
    assert counts == sorted(counts) and counts[-1] in (len(complete) - 1, len(complete))
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    assert list(records(bytes(damaged))) == complete[: len(list(records(bytes(damaged))))]
    assert list(records(b"no log")) == []

    # A kill while wandb was writing: the note of a complete process is not there, and the log ends within a record.
    (run / "trackers/wandb/sent.json").unlink()
    log.write_bytes(whole[: len(whole) // 2])
    kept = steps(run)
    assert 10 < len(kept) < 30
    made(run, Walker=4000).close()
    assert steps(run) == list(STEPS)


@pytest.mark.learning
def test_logs_that_were_uploaded_and_deleted_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_senders(monkeypatch)
    first = made(tmp_path)
    first.write("Walker", 100, stats(1.0))
    until(lambda: steps(tmp_path) == [100])
    first.close()
    for log in tmp_path.glob(LOGS):
        log.unlink()  # as 'wandb sync --clean' does with the folder
    resumed = made(tmp_path, Walker=100)
    resumed.write("Walker", 200, stats(2.0))
    resumed.close()
    assert steps(tmp_path) == [200]
