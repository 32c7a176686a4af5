"""Runs in workers: what they promise, which others they are resumed with, and how they learn without lost ones.

``data/runs_that_end_equal.yaml`` compares them with runs in one process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from checked_workers import FAULTY, fault
from compared_runs import EQUAL, summaries, train

from rlcore import BehaviorResult, ConfigError, RunStateError

HALF = {"count": 2, "overlap": "half"}
CORRIDOR = {"environment": {"type": "testing", "id": "corridor", "num_envs": 3}}  # saves its state, and not in rows


def changes(workers: Any, steps: int, **more: Any) -> dict[str, Any]:
    return {"environment.workers": workers, "behaviors.Agent.max_steps": steps, **more}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``saved("halves")``: a run in environments that save themselves, with these workers; trained once."""

    @cache
    def run(name: str) -> Path:
        workers = {"one process": None, "two workers": 2, "halves": HALF}[name]
        place = tmp_path_factory.mktemp("saved")
        train(place, CORRIDOR, changes(workers, 60))
        return place

    return run


@pytest.mark.xdist_group("saved in workers")
@pytest.mark.parametrize(
    ("first", "second", "advice"),
    [
        ("one process", 1, "resume with environment.workers: null"),
        ("two workers", None, "cannot restore its state: the entry 'run_seed' is missing"),
        ("two workers", 1, "resume with environment.workers: 2"),
        ("two workers", HALF, "resume without environment.workers.overlap"),
        ("halves", None, "cannot restore its state: the entry 'run_seed' is missing"),
        ("halves", 2, "resume with the same environment.workers, with its overlap or wait_for"),
        ("halves", {"count": 3, "overlap": "half"}, "resume with environment.workers: 2"),
    ],
)
def test_environments_that_save_themselves_are_resumed_by_the_same_workers(
    saved: Callable[[str], Path], first: str, second: Any, advice: str
) -> None:
    with pytest.raises(RunStateError, match=advice):
        train(saved(first), CORRIDOR, changes(second, 120), resume=True)


@pytest.mark.parametrize(
    "case", ["PPO", *(pytest.param(case, marks=pytest.mark.deep) for case in ("SAC", "self-play"))]
)
def test_a_run_learns_from_the_workers_that_answer_first(tmp_path: Path, case: str) -> None:
    first = {"count": 2, "wait_for": 1}
    train(tmp_path, EQUAL[f"workers, {case}"], changes(first, 300))
    train(tmp_path, EQUAL[f"workers, {case}"], changes(first, 600), resume=True)
    last = summaries(tmp_path)[-1]
    assert last["step"] >= 600 and last["stats"]["Environment/Cumulative Reward"] is not None
    found = json.loads((tmp_path / "run/result.json").read_text())["resume"]
    assert found["promise"] == "statistical"
    assert found["reasons"][0] == "workers.wait_for takes the workers that answer first"


def test_updates_while_stepping_need_an_off_policy_trainer(tmp_path: Path) -> None:
    message = "behavior 'Agent' has trainer 'ppo', which learns from complete steps"
    with pytest.raises(ConfigError, match=message) as refused:
        train(tmp_path, EQUAL["workers, PPO"], changes({"count": 2, "overlap": "updates"}, 60))
    assert "environment.workers.overlap: updates is for off-policy trainers" in str(refused.value)


@pytest.mark.parametrize("case", ["PPO", pytest.param("SAC", marks=pytest.mark.learning)])
def test_a_run_without_the_workers_that_failed_counts_and_learns_from_the_others(tmp_path: Path, case: str) -> None:
    """Two of three workers are lost. Whole episodes have 5, 6 or 7 steps. A resumed run has all workers again."""

    def train_to(steps: int, faults: list[dict[str, object]], resume: bool) -> BehaviorResult:
        environment = {"type": "faulty", "num_envs": 6, "options": {"faults": faults}}
        agent = {**EQUAL[f"workers, {case}"].get("agent", {}), "checkpoint_interval": 200}
        more = {"plugins.local": [str(FAULTY)], "env_settings.max_lifetime_restarts": 0}
        keys = changes({"count": 3, "on_failure": "drop"}, steps, **more)
        return train(tmp_path, {"environment": environment, "agent": agent}, keys, resume=resume).results()["Agent"]

    def stats() -> list[dict[str, float]]:
        lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["stats"] for line in lines]

    result = train_to(400, [fault("kill", 0, 2, 3), fault("nan", 4, 7, 1)], resume=False)
    assert result.steps == 400
    # From the second loss on, each hundred steps are 50 of environment 2 and of environment 3: episodes of 7 and 5.
    assert [line["Environment/Aborted Episodes"] for line in stats()][-2:] == [4.0, 4.0]
    assert all(5.0 <= line["Environment/Episode Length"] <= 7.0 for line in stats())
    assert result.lengths is not None and (result.lengths.min, result.lengths.max) == (5.0, 7.0)
    assert result.lengths.count == 50 // 7 + 50 // 5
    assert train_to(600, [], resume=True).steps >= 600
    last = stats()[-1]
    assert last["Environment/Aborted Episodes"] == 0.0 and last["Environment/Episode Length"] >= 5.0
