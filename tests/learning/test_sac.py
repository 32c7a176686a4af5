"""SAC's examples learn what they promise, on every seed, as a user runs them; and a hybrid action is learned."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from landing import Landing, best_return

from rlcore import Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]  # the first test waits for all trainings

EXAMPLES = Path(__file__).parents[2] / "examples"
PENDULUM, CARTPOLE, HYBRID = "pendulum_sac.yaml", "cartpole_sac.yaml", "hybrid"
TRAININGS = [(PENDULUM, seed) for seed in (1, 2, 3, 4, 5)] + [
    (name, seed) for name in (CARTPOLE, HYBRID) for seed in (1, 2, 3)
]
EPISODES = {PENDULUM: 100, CARTPOLE: 20, HYBRID: 200}

HYBRID_CONFIG = """\
environment: {type: gymnasium, id: Landing-v0}
behaviors:
  Walker:
    trainer_type: sac
    hyperparameters:
      batch_size: 128
      buffer_size: 20000
      buffer_init_steps: 500
      learning_rate: 1.0e-3
      learning_rate_schedule: linear
      init_entcoef: 0.1
      tau: 0.01
    network_settings: {hidden_units: 64, activation: relu}
    max_steps: 15000
checkpoint_settings: {run_id: hybrid}
"""


def train_and_evaluate(name: str, seed: int, directory: str) -> list[float]:
    """Returns of deterministic episodes after a training; runs in a process of its own, on a core of its own."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})
    gymnasium.register("Landing-v0", Landing)
    text = HYBRID_CONFIG if name == HYBRID else (EXAMPLES / name).read_text(encoding="utf-8")
    config: dict[str, Any] = yaml.safe_load(text)
    config["env_settings"] = {"seed": seed}
    config["checkpoint_settings"]["results_dir"] = directory
    config["stats"] = {"console": False}
    [behavior] = config["behaviors"]
    with Run(config) as run:
        run.train()
        assert run.steps == config["behaviors"][behavior]["max_steps"]
        return list(run.evaluate(EPISODES[name]).behaviors[behavior].returns)


@pytest.fixture(scope="module")
def returns(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, int], list[float]]:
    """Of every training, two of which run at a time."""
    directories = [str(tmp_path_factory.mktemp("training")) for _ in TRAININGS]
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        tasks = [
            pool.submit(train_and_evaluate, *each, where) for each, where in zip(TRAININGS, directories, strict=True)
        ]
        return {each: task.result() for each, task in zip(TRAININGS, tasks, strict=True)}


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_the_pendulum_stands_after_twenty_thousand_steps(
    returns: Mapping[tuple[str, int], list[float]], seed: int
) -> None:
    assert len(returns[PENDULUM, seed]) == 100
    assert np.mean(returns[PENDULUM, seed]) >= -180.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cartpole_is_balanced_by_discrete_actions_after_thirty_thousand_steps(
    returns: Mapping[tuple[str, int], list[float]], seed: int
) -> None:
    assert len(returns[CARTPOLE, seed]) == 20
    assert np.mean(returns[CARTPOLE, seed]) >= 400.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_action_with_a_continuous_part_and_a_choice_is_learned(
    returns: Mapping[tuple[str, int], list[float]], seed: int
) -> None:
    starts = np.random.default_rng(0).uniform(-1.0, 1.0, (20_000, 2))
    best = np.mean([best_return(*start) for start in starts])
    untrained = -0.65  # of uniformly random actions, which announce early and far from the mark
    assert np.mean(returns[HYBRID, seed]) >= best - 0.1 * (best - untrained)
