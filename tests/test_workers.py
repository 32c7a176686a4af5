"""A run in workers is a run in one process: equal weights, metrics and states."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from checked_workers import FAULTY, fault
from worker_runs import CASES, PPO, SAC, metrics, train, weights

import rlcore
from rlcore import RunStateError


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("corridor", "lake")])
def test_a_run_in_workers_equals_one_in_one_process(tmp_path: Path, case: str) -> None:
    one, several = tmp_path / "one", tmp_path / "several"
    train(one, case, None, 400)
    train(several, case, 2, 400)
    assert weights(one) == weights(several) != []
    assert metrics(one) == metrics(several) != []
    text = [(directory / "run" / "metrics.jsonl").read_text() for directory in (one, several)]
    assert ["Environment/Worker Restarts" in each for each in text] == [False, True]


HALF = {"count": 2, "overlap": "half"}
SAVED: dict[str, Any] = {"one process": None, "two workers": 2, "halves": HALF}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``saved("halves")``: a run in environments that save themselves, with these workers; trained once."""

    @cache
    def run(workers: str) -> Path:
        place = tmp_path_factory.mktemp("saved")
        train(place, "corridor", SAVED[workers], 60)
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
        train(saved(first), "corridor", second, 120, resume=True)


@pytest.mark.parametrize("behavior", [PPO, pytest.param(SAC, marks=pytest.mark.learning)], ids=["ppo", "sac"])
def test_a_run_without_the_workers_that_failed_counts_and_learns_from_the_others(
    tmp_path: Path, behavior: dict[str, object]
) -> None:
    """Two of three workers are lost. Whole episodes have 5, 6 or 7 steps. A resumed run has all workers again."""

    def train_to(steps: int, faults: list[dict[str, object]], resume: bool) -> rlcore.BehaviorResult:
        workers = {"count": 3, "on_failure": "drop"}
        run = rlcore.Run(
            {
                "plugins": {"local": [str(FAULTY)]},
                "environment": {"type": "faulty", "num_envs": 6, "workers": workers, "options": {"faults": faults}},
                "env_settings": {"seed": 3, "max_lifetime_restarts": 0},
                "behaviors": {"A": {**behavior, "max_steps": steps, "summary_freq": 100, "checkpoint_interval": 200}},
                "checkpoint_settings": {"run_id": "run", "results_dir": str(tmp_path), "resume": resume},
                "stats": {"console": False, "tensorboard": False},
            }
        )
        return run.train()["A"]

    result = train_to(400, [fault("kill", 0, 2, 3), fault("nan", 4, 7, 1)], resume=False)
    assert result.steps == 400
    lines = [json.loads(line)["stats"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    # From the second loss on, each hundred steps are 50 of environment 2 and of environment 3: episodes of 7 and 5.
    assert [line["Environment/Aborted Episodes"] for line in lines][-2:] == [4.0, 4.0]
    assert all(5.0 <= line["Environment/Episode Length"] <= 7.0 for line in lines)
    assert result.lengths is not None and (result.lengths.min, result.lengths.max) == (5.0, 7.0)
    assert result.lengths.count == 50 // 7 + 50 // 5
    assert train_to(600, [], resume=True).steps >= 600
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])["stats"]
    assert last["Environment/Aborted Episodes"] == 0.0 and last["Environment/Episode Length"] >= 5.0
