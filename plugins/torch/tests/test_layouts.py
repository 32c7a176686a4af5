"""The line about workers and ranks: what measured times say, and when nothing is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore import EnvironmentSpec, PhaseTimes, Ranks, RunContext, Tag, config_from_mapping, load_plugins
from rlcore.contracts.stats import StatSummary
from rlcore_torch import layouts
from rlcore_torch.layouts import Measured, advised, with_ranks, with_workers, without_ranks, without_workers

ENVS = 8


def test_predictions_are_the_sums_of_what_stays_and_what_changes() -> None:
    """10 s, of which 6 s are 1,000 steps of the environments."""
    measured = Measured(10.0, 6.0, 1000, updates=5, exchanging=2.0, in_workers=1.5)
    assert with_workers(measured, 8, 2) == pytest.approx(10 / (4 + 3 + 0.2))
    assert with_workers(measured, 5, 2) == pytest.approx(10 / (4 + 6 * 3 / 5 + 0.2))  # 3 and 2 environments
    assert without_workers(measured) == pytest.approx(10 / (4 + 1.5))
    assert with_ranks(measured, 8, 4, gradient_steps=500) == pytest.approx(10 / (4 + 1.5 + 0.35))
    assert without_ranks(measured, 2) == pytest.approx(10 / 16)
    assert without_ranks(Measured(10.0, 1.0, 1000, 5, exchanging=8.0), 4) == pytest.approx(10 / 8)
    # Exchanges of summaries and checkpoints take more time than was measured.
    assert without_ranks(Measured(10.0, 1.0, 1000, 5, exchanging=11.0), 2) == pytest.approx(10.0)


class Clock:
    """Seconds, and those of them in which this process had a processor."""

    def __init__(self, share: float = 1.0) -> None:
        self.now, self.share = 0.0, share


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(layouts, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(layouts, "process_time", lambda: clock.now * clock.share)
    monkeypatch.setattr(layouts, "_cores", lambda: 2)
    return clock


def started(tmp_path: Path, ranks: int = 1, environment: Any = None, **behavior: Any) -> RunContext:
    plugins = load_plugins()
    document = {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": ENVS, **(environment or {})},
        "behaviors": {"CartPole": {"trainer_type": "ppo", **behavior}},
    }
    run = RunContext(config_from_mapping(document, plugins), plugins, tmp_path, seed=0, num_envs=ENVS)
    run.ranks = Ranks()
    run.ranks.size = ranks
    assert advised(run, {}) == ""
    return run


def epoch(run: RunContext, clock: Clock, share: float, step: float, more: float = 0.0, updates: int = 4) -> str:
    """The advice of a run after 2 s, a ``share`` of them in steps that take ``step`` seconds.

    ``more`` are seconds of exchanges, in ranks, or of steps in workers.
    """
    clock.now += 2.0
    times = PhaseTimes(acting=0.0, stepping=2 * share, updating=2 - 2 * share, updates=updates)
    times.environment_steps = round(2 * share / step)
    run.times = times
    run.ranks.exchange_seconds += more
    return advised(run, {Tag.WORKER_STEPS: StatSummary.of([more])})


WORKERS = {"environment": {"workers": 2}}
CASES: dict[str, tuple[dict[str, Any], float, float, float, str]] = {
    "fast": ({}, 0.04, 20e-6, 0.0, "steps of the environments take 4% of the time: workers would not pay"),
    "slow": ({}, 0.95, 8e-3, 0.0, "95% of the time: with environment.workers: 2, the run would be at most about 1.8 "),
    "little": ({}, 0.20, 8e-3, 0.0, ""),
    "many fast": ({}, 0.95, 390e-6, 0.0, ""),  # less than 50 us for each of 8 environments
    "workers in vain": (
        {"environment": {"workers": 8}},
        0.60,
        300e-6,
        0.05,
        "the 8 workers cost more than they bring: a step of all environments takes 300 us with them, 12 us without; "
        "the run would be about 2.3 times as fast without environment.workers",
    ),
    "workers that pay": (WORKERS, 0.80, 4e-3, 3.0, "the 2 workers make the run about 1.7 times as fast"),
    "workers that change little": (WORKERS, 0.50, 4e-3, 1.1, ""),
    "workers that overlap": (WORKERS, 0.50, 4e-3, 0.0, ""),
    "ranks in vain": (
        {"ranks": 2},
        0.04,
        20e-6,
        1.2,
        "60% of the time is exchange with other ranks: one process would be at least 1.2 times as fast; leave torchrun",
    ),
    "ranks": ({"ranks": 2}, 0.04, 20e-6, 0.5, ""),
}


@pytest.mark.parametrize("name", CASES)
def test_a_line_says_what_another_layout_would_bring(name: str, clock: Clock, tmp_path: Path) -> None:
    how, share, step, more, said = CASES[name]
    run = started(tmp_path, **how)
    line = epoch(run, clock, share, step, more)
    assert said in line if said else line == ""
    assert epoch(run, clock, 0.95, 8e-3, more) == ""  # once


def test_ranks_are_advised_where_they_are_faster_than_workers(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "WORKER_EXCHANGE", 4e-3)  # as of workers that are far away
    run = started(tmp_path, hyperparameters={"buffer_size": 2048, "batch_size": 1024, "num_epoch": 3})
    run.behaviors = {}
    assert "2 ranks would be about 1.9 times as fast: torchrun --standalone --nproc-per-node 2" in epoch(
        run, clock, 0.95, 8e-3
    )


@pytest.mark.parametrize("share", [0.5, 1.9])
def test_nothing_is_said_of_workers_if_others_compute_or_take_the_processor(
    share: float, clock: Clock, tmp_path: Path
) -> None:
    clock.share = share
    run = started(tmp_path)
    assert epoch(run, clock, 0.95, 8e-3) == ""


def test_an_environment_whose_copies_are_one_program_gets_no_workers(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(tmp_path)
    record = EnvironmentSpec(name="pgx", target="acme:make", libraries=("jax", "pgx"))
    monkeypatch.setattr(run.plugins, "record", lambda kind, name: record)
    assert epoch(run, clock, 0.95, 8e-3) == ""


def test_the_first_update_and_less_than_a_second_are_not_judged(clock: Clock, tmp_path: Path) -> None:
    run = started(tmp_path)
    assert epoch(run, clock, 0.95, 8e-3, updates=0) == ""
    assert epoch(run, clock, 0.95, 8e-3, updates=1) == ""
    assert "workers would not pay" in epoch(run, clock, 0.04, 20e-6, updates=1)
    run = started(tmp_path)
    clock.now += 0.5
    run.times = PhaseTimes(stepping=0.4, updating=0.1, environment_steps=50, updates=9)
    assert advised(run, {}) == ""
    assert "environment.workers: 2" in epoch(run, clock, 0.95, 8e-3)
