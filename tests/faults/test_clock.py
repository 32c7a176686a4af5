"""A clock that jumps: nothing that a run decides depends on the time of day, only what it prints for people."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest

pytestmark = pytest.mark.faults

DAY = 86_400.0
YEAR = 31_536_000.0
EVALUATED = {
    "max_steps": 1600,
    "checkpoint_interval": 200,
    "keep_checkpoints": 3,
    "summary_freq": 200,
    "evaluation": {"interval": 400, "episodes": 2},
}


def test_a_run_whose_clock_jumps_equals_one_whose_clock_is_right(workplace: Any, whole_run: Any) -> None:
    """The clock jumps back and forth by a day, and is ten years behind after the resume."""
    whole = whole_run(**EVALUATED)
    place = workplace(**EVALUATED)
    began = time.monotonic()
    process = place.start(clock=(0.0, DAY), slow_fsync=0.01)
    place.wait_for(lambda: bool(place.steps) and place.steps[-1] >= 600)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert place.finish("--resume", clock=(-10 * YEAR, -DAY)) == 0, place.stderr
    lasted = time.monotonic() - began
    assert "warning" not in place.stderr
    assert place.verify() == whole.steps == [1200, 1400, 1600], "the newest are those of the largest step"
    assert [place.content(step) for step in place.steps] == [whole.content(step) for step in whole.steps]
    assert place.metrics() == whole.metrics()
    best = sorted(path.name for path in (whole.checkpoints / "best").iterdir())
    assert sorted(path.name for path in (place.checkpoints / "best").iterdir()) == best
    result = place.json("result.json")
    assert result["behaviors"] == whole.json("result.json")["behaviors"] and 0 < result["wall_seconds"] < lasted
    elapsed = [json.loads((place.checkpoints / f"{step}/state.json").read_text())["run"] for step in place.steps]
    seconds = [run["wall_seconds"] for run in elapsed]
    assert seconds == sorted(seconds) and 0 < seconds[-1] < lasted
