"""Trainings whose workers step while the run computes: what they learn, promise, and refuse to resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from worker_runs import metrics, train

from rlcore import ConfigError, RunStateError

HALF = {"count": 2, "overlap": "half"}
UPDATES = {"count": 2, "overlap": "updates"}
FIRST = {"count": 2, "wait_for": 1}
DEEP = pytest.mark.deep


def promise(directory: Path) -> Any:
    return json.loads((directory / "run" / "result.json").read_text())["resume"]


@pytest.mark.parametrize("case", ["ppo", pytest.param("sac", marks=DEEP), pytest.param("ghost", marks=DEEP)])
def test_a_run_learns_from_the_workers_that_answer_first(tmp_path: Path, case: str) -> None:
    train(tmp_path, case, FIRST, 300)
    train(tmp_path, case, FIRST, 600, resume=True)
    last = metrics(tmp_path)[-1]
    assert last["step"] >= 600 and last["stats"]["Environment/Cumulative Reward"] is not None
    found = promise(tmp_path)
    assert found["promise"] == "statistical"
    assert found["reasons"][0] == "workers.wait_for takes the workers that answer first"


def test_updates_while_stepping_need_an_off_policy_trainer(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="behavior 'Player' has trainer 'ppo', which learns from complete steps"
    ) as no:
        train(tmp_path, "ppo", UPDATES)
    assert "environment.workers.overlap: updates is for off-policy trainers" in str(no.value)


@pytest.mark.parametrize(
    ("first", "second", "advice"),
    [
        (HALF, {"count": 3, "overlap": "half"}, "resume with environment.workers: 2"),
        (HALF, 2, "resume with the same environment.workers, with its overlap or wait_for"),
        (2, HALF, "resume without environment.workers.overlap"),
        (HALF, None, "cannot restore its state: the entry 'run_seed' is missing"),
    ],
    ids=["other number", "to lock-step", "from lock-step", "to one process"],
)
def test_a_run_is_resumed_with_the_overlap_that_it_was_saved_with(
    tmp_path: Path, first: Any, second: Any, advice: str
) -> None:
    train(tmp_path, "corridor", first, 60)
    with pytest.raises(RunStateError, match=advice):
        train(tmp_path, "corridor", second, 120, resume=True)
