"""SAC's examples learn what they promise, on every seed, as a user runs them; and a hybrid action is learned."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from landing import best_return
from sac_training import CARTPOLE, HYBRID, PENDULUM, take_core, train_and_evaluate

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]  # the first test waits for all trainings

TRAININGS = [(PENDULUM, seed) for seed in (1, 2, 3, 4, 5)] + [
    (name, seed) for name in (CARTPOLE, HYBRID) for seed in (1, 2, 3)
]


@pytest.fixture(scope="module")
def returns(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, int], list[float]]:
    """Of every training, two of which run at a time."""
    directories = [str(tmp_path_factory.mktemp("training")) for _ in TRAININGS]
    context = multiprocessing.get_context("spawn")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    free = context.SimpleQueue()
    for k in range(2):
        free.put(cores[k % len(cores)])
    with ProcessPoolExecutor(2, context, take_core, (free,)) as pool:
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
