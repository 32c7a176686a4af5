"""Tasks of MuJoCo Playground, compared with its own functions; the conformance tests; and bad input."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlcore import Actions, ConfigError, Environment, EnvironmentSettings, EpisodeSeeds
from rlcore_devkit import TensorEnvironmentConformance
from rlcore_devkit.conformance.states import assert_equal
from rlcore_devkit.playing import play
from rlcore_torch import AsNumpy, TensorEnvironment

pytest.importorskip(
    "mujoco_playground", reason="MuJoCo Playground is not installed: pip install './plugins/jax[playground]'"
)

TASK = "CartpoleBalance"
LIMIT = 9

compiled = pytest.mark.learning  # a task takes a minute to compile


def make(task: str | None, copies: int = 2, parameters: dict[str, Any] | None = None, /, **options: Any) -> Environment:
    """Create the environment of a run with one behavior ``Agent``."""
    from rlcore_jax.playground import make_environment
    from rlcore_jax.settings import PlaygroundSettings

    config = SimpleNamespace(environment_parameters=parameters or {})
    run: Any = SimpleNamespace(behavior_names=("Agent",), num_envs=copies, config=config)
    return make_environment(EnvironmentSettings(id=task, options=PlaygroundSettings(**options)), run)


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

    from rlcore_jax.tensors import JaxTensors

    environment = AsNumpy(JaxTensors(program_of(1), "Agent"))
    batch = environment.reset(EpisodeSeeds(5, first_env=3), np.zeros(1, np.int64))["Agent"]
    config = registry.get_default_config(TASK)
    config.impl = "jax"
    task = registry.load(TASK, config=config)
    reset, step = jax.jit(task.reset), jax.jit(task.step)
    fold_in = jax.random.fold_in
    moves = np.random.default_rng(0).uniform(-1, 1, (2, LIMIT, 1)).astype(np.float32)
    for episode in range(2):
        key = jax.random.key(5)
        for number in (3, episode, 0):  # the environment, its episode, and the step
            key = fold_in(key, number)
        state = reset(key)
        np.testing.assert_allclose(batch.observations["observation"][0], state.obs, rtol=1e-5, atol=1e-6)
        for number, move in enumerate(moves[episode], start=1):
            batch = environment.step({"Agent": Actions(continuous=move[None])})["Agent"]
            state = step(state, move)
            last = number == LIMIT
            assert batch.truncated.tolist() == [last] and not batch.terminated.any()
            seen = batch.final_observations if last else batch.observations
            np.testing.assert_allclose(seen["observation"][0], state.obs, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(batch.reward, [state.reward], rtol=1e-5)
    assert environment.episodes.tolist() == [2]


@compiled
def test_the_number_of_rows_that_are_reset_together_changes_nothing(program_of: Callable[..., Any]) -> None:
    from rlcore_jax.tensors import JaxTensors

    ours, theirs = (AsNumpy(JaxTensors(program_of(5, rows), "Agent")) for rows in (2, None))
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


OPTIONS = ("environment", "options", "config_overrides")


@pytest.mark.parametrize(
    ("task", "overrides", "key", "message"),
    [
        (None, {}, ("environment", "id"), "missing; name a task of Playground's control suite"),
        ("CartpoleBalanse", {}, ("environment", "id"), "did you mean 'CartpoleBalance'"),
        ("Go1JoystickFlatTerrain", {}, ("environment", "id"), "needs models of robots, which Playground downloads"),
        (TASK, {"sim_df": 0.01}, (*OPTIONS, "sim_df"), "no such entry.*did you mean 'sim_dt'"),
        (TASK, {"sim_dt": "fast"}, (*OPTIONS, "sim_dt"), "'fast' is not a value of the type of 0.01"),
        (TASK, {"impl": "warp"}, (*OPTIONS, "impl"), "'warp' is not supported; physics are computed with jax"),
        (TASK, {"vision": True}, (*OPTIONS, "vision"), "pixels are not supported; Playground renders"),
        (TASK, {"action_repeat": 2}, (*OPTIONS, "action_repeat"), "set ctrl_dt, the seconds of a step"),
    ],
)
def test_bad_input_is_refused(task: str | None, overrides: dict[str, Any], key: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make(task, 2, config_overrides=overrides)
    assert caught.value.key == key


def test_environment_parameters_are_refused() -> None:
    with pytest.raises(ConfigError, match="playground CartpoleBalance has no such parameter; it has none"):
        make(TASK, 2, {"gravity": None})
