"""Kills at random times during a run that saves all the time: six, and sixty in a deep run."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

import pytest

pytestmark = pytest.mark.faults

SAVES_OFTEN = {"max_steps": 800, "checkpoint_interval": 32, "keep_checkpoints": 3, "summary_freq": 320}


def test_every_run_killed_at_a_random_time_resumes_from_a_verified_checkpoint_and_ends_equal(
    workplace: Any, whole_run: Any, trial: Any, deep: bool
) -> None:
    kills = 60 if deep else 6
    whole = whole_run(**SAVES_OFTEN)
    draw = random.Random(20)
    inside, killed_at = 0, []
    for kill in range(kills):
        trial()
        place = workplace(f"kill{kill}", **SAVES_OFTEN)
        process = place.start(slow_fsync=0.01)
        target = 32 * draw.randint(1, 20)  # of 25 saves: a run is killed anywhere, however fast the machine is
        place.wait_for(lambda place=place, target=target: bool(place.steps) and place.steps[-1] >= target)
        time.sleep(draw.uniform(0.0, 0.1))  # about the time of a save
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL, "the run was over before it was killed"
        inside += bool(place.leftovers())
        last = place.verify()[-1]
        killed_at.append(last)
        assert place.finish("--resume") == 0, place.stderr
        assert "warning" not in place.stderr, "a kill damages nothing, so nothing is passed over"
        assert place.leftovers() == []
        assert place.verify() == whole.steps == [736, 768, 800]
        for step in whole.steps:
            assert place.content(step) == whole.content(step)
        status = place.json("run_logs/training_status.json")
        assert [entry["steps"] for entry in status["Agent"]["checkpoints"]] == place.steps
        assert place.json("result.json")["outcome"] == "done"
    print(f"{inside} of {kills} kills met a save; they left {len(set(killed_at))} different newest checkpoints")
    assert inside >= kills / 4, f"only {inside} of {kills} kills met a save"
    assert len(set(killed_at)) > kills / 4


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(21, marks=pytest.mark.daily),
        *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(22, 26)),
    ],
)
def test_a_run_killed_again_and_again_ends_as_if_it_never_was(workplace: Any, whole_run: Any, seed: int) -> None:
    whole, place = whole_run(**SAVES_OFTEN), workplace(**SAVES_OFTEN)
    times = random.Random(seed)
    flags: list[str] = []
    for _ in range(5):
        process = place.start(*flags, slow_fsync=0.002)
        before = place.steps
        place.wait_for(lambda before=before: place.steps not in (before, []))
        time.sleep(times.uniform(0.0, 0.2))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        flags = ["--resume"]
    assert place.finish("--resume") == 0, place.stderr
    assert place.verify() == whole.steps
    for step in whole.steps:
        assert place.content(step) == whole.content(step)
