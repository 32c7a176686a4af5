"""Signals, and two processes that want one run."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

pytestmark = pytest.mark.faults

LONG = {"max_steps": 10_000_000, "keep_checkpoints": 2, "checkpoint_interval": 2000}


def consistent(place: Any, outcome: str) -> None:
    """Result, status, metrics and checkpoints tell one story."""
    result = place.json("result.json")
    steps = place.verify()
    assert result["outcome"] == outcome
    assert result["behaviors"]["Agent"]["steps"] == steps[-1]
    status = place.json("run_logs/training_status.json")
    assert [entry["steps"] for entry in status["Agent"]["checkpoints"]] == steps
    assert ("final_checkpoint" in status["Agent"]) == (outcome == "done")
    assert place.leftovers() == []


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_process_at_once_and_costs_nothing_old(workplace: Any, second: signal.Signals) -> None:
    place = workplace(**LONG)
    process = place.start(slow_fsync=0.5)  # a save takes some seconds
    place.wait_for(lambda: bool(place.steps) and any("rlcore-tmp" in path.name for path in place.checkpoints.iterdir()))
    os.kill(process.pid, signal.SIGINT)
    words = "stopping: saving a checkpoint; a second Ctrl-C or SIGTERM ends the run at once and loses"
    place.wait_for(lambda: place.stderr.startswith(words), seconds=2.0)
    assert process.exitcode is None  # it is saving, and would end when it has
    sent = time.monotonic()
    os.kill(process.pid, second)
    process.join(10)
    assert process.exitcode == 128 + second
    assert time.monotonic() - sent < 0.4
    before = place.verify()
    assert before
    assert place.finish("--resume", "--set", f"behaviors.Agent.max_steps={before[-1] + 100}") == 0, place.stderr
    consistent(place, "done")


def test_two_processes_cannot_write_to_one_run_and_the_first_goes_on(workplace: Any) -> None:
    place = workplace(**LONG)
    other = workplace("other", workplace("none").results)
    other.results = place.results
    other.configure(**LONG)
    first = place.start()
    place.wait_for(lambda: len(place.steps) >= 1)
    locked = f"error: {place.run}: another process is writing to this run; wait or stop it\n"
    for options in ((), ("--resume",), ("--force",)):
        assert other.finish(*options) == 5 and other.stderr == locked
    assert first.exitcode is None
    seen = place.steps
    place.wait_for(lambda: place.steps != seen)
    # A process that is killed gives its lock back.
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    steps = place.verify()[-1]
    assert other.finish("--resume", "--set", f"behaviors.Agent.max_steps={steps + 100}") == 0, other.stderr
    consistent(place, "done")
