"""Random kills of runs of every kind: each ends as the run never stopped did.

``RLCORE_ATTACK_TRIALS=120 pytest tests/faults/test_attack.py`` is the attack, part of ``pytest --deep``; by
default each kind has one trial.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from typing import Any

import pytest
from fault_cases import ATTACKED

pytestmark = pytest.mark.faults

TRIALS = int(os.environ.get("RLCORE_ATTACK_TRIALS", len(ATTACKED)))
KINDS = list(ATTACKED)


def metrics(place: Any) -> list[Any]:
    lines = [json.loads(line) for line in (place.run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        del line["time"], line["stats"]["Performance/Steps Per Second"]
    return lines


@pytest.mark.parametrize("trial", range(TRIALS))
def test_a_run_killed_at_random_times_ends_as_the_run_never_stopped(
    workplace: Any, whole_run: Any, case: Any, trial: int
) -> None:
    behavior = case(KINDS[trial % len(KINDS)])
    draw = random.Random(f"attack {trial}")
    whole, place = whole_run(**behavior), workplace(**behavior)
    flags: list[str] = []
    for _ in range(draw.randint(1, 3)):
        process = place.start(*flags, slow_fsync=0.01)
        place.wait_for(lambda: bool(place.steps))  # killed earlier, a run is started again, not resumed
        time.sleep(draw.uniform(0.0, 1.0))
        process.kill()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            assert process.exitcode == 0, place.stderr
        place.verify()
        flags = ["--resume"]
    assert place.finish("--resume") == 0, place.stderr
    assert place.verify() == whole.steps
    assert [place.content(step) for step in place.steps] == [whole.content(step) for step in whole.steps]
    assert metrics(place) == metrics(whole)
    assert place.json("result.json")["behaviors"] == whole.json("result.json")["behaviors"]
    assert place.leftovers() == []
