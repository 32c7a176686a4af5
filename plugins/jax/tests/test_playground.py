"""Tasks of MuJoCo Playground, compared with its own functions; and the conformance tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax_worlds
import numpy as np
import pytest
from one_behavior import begin, move

from rlcore import EpisodeSeeds
from rlcore_devkit import TensorEnvironmentConformance
from rlcore_devkit.conformance.states import assert_equal
from rlcore_devkit.playing import play
from rlcore_torch import TensorEnvironment

pytest.importorskip(
    "mujoco_playground", reason="MuJoCo Playground is not installed: pip install './plugins/jax[playground]'"
)

TASK = "CartpoleBalance"
LIMIT = 9

compiled = pytest.mark.learning  # a task takes a minute to compile


@pytest.fixture(scope="module")
def program_of() -> Callable[[int, int | None], Any]:
    """Compile the task for N environments: ``program_of(num_envs, reset_rows)``; once for all tests."""
    from rlcore_jax.playground import PlaygroundTask
    from rlcore_jax.program import Program

    programs: dict[tuple[int, int | None], Any] = {}

    def program_of(num_envs: int, reset_rows: int | None = 2) -> Any:
        if (num_envs, reset_rows) not in programs:
            programs[num_envs, reset_rows] = Program(PlaygroundTask(TASK, {}), num_envs, LIMIT, reset_rows)
        return programs[num_envs, reset_rows]

    return program_of


@compiled
class TestConformance(TensorEnvironmentConformance):
    steps = 25

    @pytest.fixture(autouse=True)
    def _programs(self, program_of: Callable[..., Any]) -> None:
        self.program_of = program_of

    def make_tensors(self, num_envs: int) -> TensorEnvironment:
        from rlcore_jax.tensors import JaxTensors

        return JaxTensors(self.program_of(num_envs), "Agent")


@compiled
def test_an_environment_plays_what_the_task_plays_alone(program_of: Callable[..., Any]) -> None:
    """Two episodes of one environment, against the task's own functions: the second begins in the step of the limit."""
    import jax
    from mujoco_playground import registry

    environment = jax_worlds.playing(program_of(1))
    batch = begin(environment, EpisodeSeeds(5, first_env=3))
    config = registry.get_default_config(TASK)
    config.impl = "jax"
    task = registry.load(TASK, config=config)
    reset = jax.jit(task.reset)
    step = jax.jit(task.step)
    fold_in = jax.random.fold_in
    moves = np.random.default_rng(0).uniform(-1, 1, (2, LIMIT, 1)).astype(np.float32)
    for episode in range(2):
        key = jax.random.key(5)
        for number in (3, episode, 0):  # the environment, its episode, and the step
            key = fold_in(key, number)
        state = reset(key)
        np.testing.assert_allclose(batch.observations["observation"][0], state.obs, rtol=1e-5, atol=1e-6)
        for number, action in enumerate(moves[episode], start=1):
            batch = move(environment, action)
            state = step(state, action)
            last = number == LIMIT
            assert batch.truncated.tolist() == [last] and not batch.terminated.any()
            seen = batch.final_observations if last else batch.observations
            np.testing.assert_allclose(seen["observation"][0], state.obs, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(batch.reward, [state.reward], rtol=1e-5)
    assert environment.episodes.tolist() == [2]


@compiled
def test_the_number_of_rows_that_are_reset_together_changes_nothing(program_of: Callable[..., Any]) -> None:
    ours, theirs = (jax_worlds.playing(program_of(5, rows)) for rows in (2, None))
    ended = 0
    for one, other in zip(play(ours, 2 * LIMIT + 1), play(theirs, 2 * LIMIT + 1), strict=True):
        assert_equal(one, other)
        ended += len(one["Agent"].ended)
    assert ended == 10


def test_the_time_limit_and_the_bounds_are_those_of_the_task() -> None:
    from rlcore_jax.playground import PlaygroundTask

    task = PlaygroundTask("CheetahRun", {"episode_length": 77})
    assert task.episode_length == 77 and PlaygroundTask("CheetahRun", {}).episode_length == 1000
    assert [spec.shape for spec in task.observations] == [(17,)]
    assert task.low.tolist() == [-1] * 6 and task.high.tolist() == [1] * 6
