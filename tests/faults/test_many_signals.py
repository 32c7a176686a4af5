"""Signals at random times, and processes that want one run at the same moment."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

import pytest

pytestmark = [pytest.mark.faults, pytest.mark.deep]

LONG = {"max_steps": 10_000_000, "keep_checkpoints": 2, "checkpoint_interval": 1000}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("numbers", [(signal.SIGINT,), (signal.SIGTERM,), (signal.SIGINT, signal.SIGINT)])
def test_a_signal_at_a_random_time_ends_the_run_with_its_code_and_a_whole_checkpoint(
    workplace: Any, numbers: tuple[signal.Signals, ...], seed: int
) -> None:
    place, draw = workplace(**LONG), random.Random(f"{numbers} {seed}")
    process = place.start(slow_fsync=draw.choice((0.0, 0.02)))
    place.wait_for(lambda: bool(place.steps))
    time.sleep(draw.uniform(0.0, 1.0))
    sent = time.monotonic()
    for number in numbers:
        os.kill(process.pid, number)
        time.sleep(draw.uniform(0.0, 0.05))
    process.join(60)
    assert process.exitcode == 128 + numbers[-1], place.stderr
    assert time.monotonic() - sent < 10
    last = place.verify()[-1]
    assert place.finish("--resume", "--set", f"behaviors.Agent.max_steps={last + 100}") == 0, place.stderr
    result, status = place.json("result.json"), place.json("run_logs/training_status.json")
    assert result["outcome"] == "done" and result["behaviors"]["Agent"]["steps"] == place.verify()[-1]
    assert [entry["steps"] for entry in status["Agent"]["checkpoints"]] == place.steps
    assert place.leftovers() == []


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("number", range(5))
def test_of_two_processes_that_start_at_once_one_has_the_run(workplace: Any, number: int, resumed: bool) -> None:
    place = workplace(**LONG)
    other = workplace("other", place.results, **LONG)
    if resumed:
        process = place.start()
        place.wait_for(lambda: bool(place.steps))
        os.kill(process.pid, signal.SIGTERM)
        process.join(60)
    flags = ["--resume"] if resumed else []
    both = [(each, each.start(*flags)) for each in (place, other)]
    place.wait_for(lambda: any(process.exitcode is not None for _, process in both))
    first_ended = 0 if both[0][1].exitcode is not None else 1
    (loser, lost), (winner, process) = both[first_ended], both[1 - first_ended]
    assert lost.exitcode == 5 and process.exitcode is None
    assert "another process is writing to this run; wait or stop it" in loser.stderr, loser.stderr
    seen = place.steps
    place.wait_for(lambda: place.steps != seen)
    os.kill(process.pid, signal.SIGTERM)
    process.join(60)
    assert process.exitcode == 143, winner.stderr
    assert place.verify() and place.json("result.json")["outcome"] == "interrupted"
