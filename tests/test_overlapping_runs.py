"""Trainings whose workers step while the run computes: what they learn and promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from worker_runs import metrics, train

from rlcore import ConfigError

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
