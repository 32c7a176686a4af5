"""Lessons depend on the agent's success, and not on short episodes, which end first."""

from __future__ import annotations

from pathlib import Path

import pytest
from crowds import NUM_ENVS, Crowd

from rlcore import BehaviorSettings, Plugins, RunConfig, RunContext
from rlcore_curriculum.criterion_settings import CriterionSettings
from rlcore_curriculum.lesson_settings import LessonSettings, LessonsSettings
from rlcore_curriculum.lessons import Lessons

THRESHOLD = 0.8


def lessons_of() -> Lessons:
    criterion = CriterionSettings(behavior="B", threshold=THRESHOLD, min_lesson_length=50, signal_smoothing=False)
    lessons = (LessonSettings(name="a", value=0.0, completion_criteria=criterion), LessonSettings(name="b", value=1.0))
    config = RunConfig(behaviors={"B": BehaviorSettings(max_steps=10**7)})
    block = LessonsSettings(lessons=lessons)
    return Lessons({"p": block}, RunContext(config, Plugins(), Path(), seed=1, num_envs=NUM_ENVS))


def is_promoted(success_rate: float, seed: int) -> bool:
    lessons = lessons_of()
    Crowd(lessons, success_rate, seed, behavior="B").play(1100)
    return lessons.stats() == {"Environment/Lesson Number/p": 1.0}


@pytest.mark.parametrize(("success_rate", "promoted"), [(0.2, 0), (0.6, 0), (0.95, 5)])
def test_a_lesson_ends_by_mastery_and_not_by_the_order_of_ends(success_rate: float, promoted: int) -> None:
    assert sum(is_promoted(success_rate, seed) for seed in range(5)) == promoted
