"""A curriculum teaches what is not learned without one, and randomised training what one world does not teach."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
from curriculum_training import (
    ADR,
    CARTPOLE,
    DIALS,
    LESSONS,
    LEVELS,
    LOCK,
    NONE,
    PROGRESS,
    TRAININGS,
    train_and_balance,
    train_and_open,
)
from sac_training import take_core

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400)]  # the first test waits for all trainings

SEEDS = {LOCK: (1, 2, 3, 4, 5), DIALS: (1, 2, 3), CARTPOLE: (1, 2, 3)}
Reached = Mapping[tuple[str, str, int], Any]


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Reached:
    """By every training, two of which run at a time."""
    runs = [(task, curriculum, seed) for task, curriculum in TRAININGS for seed in SEEDS[task]]
    context = multiprocessing.get_context("spawn")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    free = context.SimpleQueue()
    for k in range(2):
        free.put(cores[k % len(cores)])
    with ProcessPoolExecutor(2, context, take_core, (free,)) as pool:
        tasks = {}
        for each in runs:
            train = train_and_balance if each[0] == CARTPOLE else train_and_open
            tasks[each] = pool.submit(train, *each, str(tmp_path_factory.mktemp("training")))
        found = {each: task.result() for each, task in tasks.items()}
    for each, value in found.items():
        print(*each, np.round(value, 2).tolist())
    return found


@pytest.mark.parametrize("seed", SEEDS[LOCK])
def test_the_combination_lock_is_opened_by_no_seed_without_a_curriculum(reached: Reached, seed: int) -> None:
    assert reached[LOCK, NONE, seed] == 0.0


@pytest.mark.parametrize("seed", SEEDS[LOCK])
@pytest.mark.parametrize("curriculum", [LESSONS, ADR, PROGRESS, LEVELS])
def test_the_combination_lock_is_opened_with_a_curriculum_in_as_many_steps(
    reached: Reached, curriculum: str, seed: int
) -> None:
    assert reached[LOCK, curriculum, seed] >= 0.95


@pytest.mark.parametrize("seed", SEEDS[DIALS])
def test_dials_are_set_by_sac_with_lessons_and_by_no_seed_without(reached: Reached, seed: int) -> None:
    assert reached[DIALS, NONE, seed] == 0.0
    assert reached[DIALS, LESSONS, seed] >= 0.95


def test_randomised_training_balances_poles_that_training_on_one_pole_does_not(reached: Reached) -> None:
    by_one = np.mean([reached[CARTPOLE, NONE, seed] for seed in SEEDS[CARTPOLE]], axis=0)  # nominal, then the corners
    by_many = np.mean([reached[CARTPOLE, ADR, seed] for seed in SEEDS[CARTPOLE]], axis=0)
    assert by_many[0] >= 0.95 * by_one[0]
    assert by_many[1:].mean() >= 1.3 * by_one[1:].mean()
