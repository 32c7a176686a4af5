"""Lessons depend on the agent's success, and not on short episodes, which end first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import BehaviorSettings, EndedEpisodes, Plugins, RunConfig, RunContext
from rlcore_curriculum.criterion_settings import CriterionSettings
from rlcore_curriculum.lesson_settings import LessonSettings, LessonsSettings
from rlcore_curriculum.lessons import Lessons

NUM_ENVS, THRESHOLD = 256, 0.8


def lessons_of(smoothing: str) -> Lessons:
    criterion = CriterionSettings(behavior="B", threshold=THRESHOLD, min_lesson_length=50, signal_smoothing=False)
    lessons = (LessonSettings(name="a", value=0.0, completion_criteria=criterion), LessonSettings(name="b", value=1.0))
    config = RunConfig(behaviors={"B": BehaviorSettings(max_steps=10**7)})
    block = LessonsSettings(smoothing=smoothing, lessons=lessons)
    return Lessons({"p": block}, RunContext(config, Plugins(), Path(), seed=1, num_envs=NUM_ENVS))


def is_promoted(success_rate: float, seed: int, smoothing: str = "episodes") -> bool:
    """Play 1100 steps of all environments: a success takes 15 to 30 steps and returns 1, a failure takes 500."""
    random, lessons = np.random.default_rng(seed), lessons_of(smoothing)

    def begin(count: int) -> tuple[Any, Any]:
        success = random.random(count) < success_rate
        return success, np.where(success, random.integers(15, 31, count), 500)

    (success, left), numbers, begun = begin(NUM_ENVS), np.arange(NUM_ENVS), NUM_ENVS
    for step in range(1100):
        left -= 1
        rows = np.flatnonzero(left == 0)
        if not rows.size:
            continue
        told, numbers[rows] = numbers[rows], np.arange(begun, begun + rows.size)
        begun += rows.size
        lessons.episodes_ended(
            EndedEpisodes(
                behavior="B", slots=rows, env_index=rows, numbers=told, settled=int(numbers.min()),
                returns=success[rows].astype(float), group_returns=np.zeros(rows.size),
                lengths=np.ones(rows.size, np.int64), values=np.zeros((rows.size, 1)),
                draw_id=np.zeros((rows.size, 1), np.int64),
            )
        )  # fmt: skip
        success[rows], left[rows] = begin(rows.size)
        if lessons.advance({"B": step}).lessons:
            return True
    return False


@pytest.mark.parametrize(("success_rate", "promoted"), [(0.2, 0), (0.6, 0), (0.95, 5)])
def test_a_lesson_ends_by_mastery_and_not_by_the_order_of_ends(success_rate: float, promoted: int) -> None:
    assert sum(is_promoted(success_rate, seed) for seed in range(5)) == promoted


def test_ml_agents_takes_them_as_they_end() -> None:
    assert sum(is_promoted(0.2, seed, "legacy") for seed in range(5)) >= 3
