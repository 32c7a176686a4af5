"""Environments that draw from generators which no ``reset(seed)`` reaches: equal seeds give equal runs all the same."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gym_play import Scripted
from gymnasium import spaces

from rlcore import Run, find_checkpoints, load_checkpoint


class Dice(Scripted):
    """Draws from NumPy's global generator, as many environments do."""

    action_space = spaces.Discrete(3)
    _length = 8
    _ends = "truncated"

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)

    def draw(self) -> Any:
        return np.random.uniform(-1, 1, 3).astype(np.float32)  # noqa: NPY002 # what this is about

    def begin(self, seed: int | None, options: Any) -> None:
        self.seen = self.draw()

    def act(self, action: Any) -> float:
        self.seen = self.draw()
        return float(self.seen.sum())

    def observe(self) -> Any:
        return self.seen


class Pips(Dice):
    """Draws from Python's global generator, single normal numbers too: of two that are drawn, one is kept."""

    def draw(self) -> Any:
        return np.clip([random.gauss(0, 0.3) for _ in range(3)], -1, 1).astype(np.float32)


class Sample(Dice):
    """Draws from its observation space."""

    def draw(self) -> Any:
        return self.observation_space.sample()


class Own(Dice):
    """Draws from a generator of its own, which nothing seeds."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng()

    def draw(self) -> Any:
        return self.generator.uniform(-1, 1, 3).astype(np.float32)


class Slow(Dice):
    def begin(self, seed: int | None, options: Any) -> None:
        time.sleep(0.01)
        super().begin(seed, options)


@pytest.fixture
def run_of(tmp_path: Path) -> Callable[..., Run]:
    def make(environment: Any, run_id: str = "dice", **checkpoint_settings: Any) -> Run:
        config = {
            "preset": "none",
            "environment": {"num_envs": 2},
            "behaviors": {
                "B": {
                    "trainer_type": "ppo", "max_steps": 128, "summary_freq": 32, "checkpoint_interval": 64,
                    "hyperparameters": {"buffer_size": 32, "batch_size": 16, "num_epoch": 1},
                }
            },
            "evaluation": {"interval": 32, "episodes": 2},
            "env_settings": {"seed": 7},
            "checkpoint_settings": {"run_id": run_id, "results_dir": str(tmp_path), **checkpoint_settings},
        }  # fmt: skip
        return Run(config, environment=environment)

    return make


def learned(run: Run) -> dict[str, Any]:
    """The weights of a run that is over, and the open episodes."""
    saved = load_checkpoint(find_checkpoints(run.directory.path / "checkpoints")[-1].path)
    return {"B": saved["B"]["model"], "behaviors": saved["run"]["behaviors"], "generators": saved["run"]["generators"]}


@pytest.mark.parametrize("environment", [Dice, Pips, Sample])
def test_equal_seeds_give_equal_runs_and_a_resumed_run_is_equal(environment: Any, run_of: Any) -> None:
    first = run_of(environment, "first")
    second = run_of(environment, "second")
    with first:
        first.train()
        assert first.describe().resume.kind == "exact"
    random.random()
    np.random.rand()  # noqa: NPY002
    with second:
        second.train()
    np.testing.assert_equal(learned(second), expected := learned(first))
    np.random.rand()  # noqa: NPY002
    with run_of(environment, "second", resume=True, checkpoint="64") as resumed:
        resumed.train()
    np.testing.assert_equal(learned(resumed), expected)


def test_an_evaluation_draws_nothing_of_what_the_training_draws(run_of: Any, tmp_path: Path) -> None:
    with run_of(Dice) as evaluating:
        evaluating.start()
        before = np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index] # noqa: NPY002
        evaluating.evaluate(3)
        np.testing.assert_array_equal(np.random.get_state()[1], before[0])  # type: ignore[index] # noqa: NPY002
        assert random.getstate() == before[1]


def test_a_generator_that_no_seed_reaches_makes_the_promise_statistical(run_of: Any) -> None:
    with run_of(Own) as run:
        promise = run.start() or run.describe().resume
    assert promise.kind == "statistical"
    assert "Own begins other episodes with equal seeds: it has a generator that reset(seed) does not seed" in str(
        promise
    )


def test_slow_resets_are_not_done_twice_and_the_promise_says_so(run_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlcore_gymnasium.repeated_resets.SLOW", 0.005)
    with run_of(Slow) as run:
        promise = run.start() or run.describe().resume
    assert promise.kind == "exact"
    assert "equal seeds begin equal episodes was not tried, because a reset takes 0.0 s" in str(promise)
