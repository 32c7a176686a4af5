"""The number of an episode is always the same: for any caller, in any order, before and after a resume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore import derive_generator

TEXT = """
environment_parameters:
  length: {sampler_type: uniform, sampler_parameters: {min_value: 2, max_value: 4}}
  mass: {sampler_type: uniform, sampler_parameters: {seed: 3}}
  gravity: 9.8
"""
LESSONS = """
environment_parameters:
  length:
    curriculum:
      - name: Wide
        value: {sampler_type: uniform}
        completion_criteria: {behavior: B, threshold: 1}
      - name: Fixed
        value: 5
        completion_criteria: {behavior: B, threshold: 1}
      - name: Own
        value: {sampler_type: uniform, sampler_parameters: {seed: 3, max_value: 10}}
  mass: {sampler_type: uniform}
"""


def number(seed: int, stream: str, env: int, episode: int) -> float:
    """Compute the uniform number of an episode independently."""
    return float(derive_generator(seed, stream, env, episode // 256).random((256, 1))[episode % 256, 0])


def drawn(lessons: Any, env_index: Any, episodes: Any) -> list[list[float]]:
    values: list[list[float]] = lessons.draw(np.array(env_index), np.array(episodes)).values.tolist()
    return values


def test_the_number_of_an_episode_depends_on_parameter_environment_and_episode(make: Any) -> None:
    lessons = make(TEXT, seed=7)
    for env, episode in [(0, 0), (3, 0), (0, 255), (0, 256), (2, 4000), (0, 5)]:
        assert drawn(lessons, [env], [episode]) == [
            [2 + 2 * number(7, "parameters/length", env, episode), number(3, "parameters/mass", env, episode), 9.8]
        ]


@pytest.mark.parametrize(("seed", "num_envs"), [(8, 4), (7, 9)])
def test_numbers_depend_on_the_runs_seed_and_not_on_num_envs(make: Any, seed: int, num_envs: int) -> None:
    one = drawn(make(TEXT), [0, 1], [3, 4])
    other = drawn(make(TEXT, seed=seed, num_envs=num_envs), [0, 1], [3, 4])
    assert ([row[0] for row in one] == [row[0] for row in other]) == (seed == 7)
    assert [row[1:] for row in one] == [row[1:] for row in other]  # one with its own seed, one constant


def test_a_lesson_has_its_sampler_and_the_other_parameters_keep_their_values(script: Any) -> None:
    running = script(LESSONS)
    mass = [number(7, "parameters/mass", env, 9) for env in (0, 1)]
    wide = [number(7, "parameters/length", env, 9) for env in (0, 1)]
    own = [10 * number(3, "parameters/length", env, 9) for env in (0, 1)]
    for lesson, length in enumerate([wide, [5.0, 5.0], own]):
        assert running.on == (lesson, 0)
        for _ in range(2):
            assert drawn(running.lessons, [0, 1], [9, 9]) == [list(row) for row in zip(length, mass, strict=True)]
            running.play("resume")
        running.play("2")


def test_evaluations_play_the_last_lesson(make: Any) -> None:
    lessons = make(LESSONS, seed=20, num_envs=2)
    target = lessons.draw_target(np.array([0, 1]), np.array([70, 2]))
    assert target.tolist() == [
        [10 * number(3, "parameters/length", env, episode), number(20, "parameters/mass", env, episode)]
        for env, episode in ((0, 70), (1, 2))
    ]
