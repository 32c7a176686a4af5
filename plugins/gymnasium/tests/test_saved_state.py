"""Environments that are known exactly save their state: a restored one steps as the one that was saved, bit for bit."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from gymnasium.envs.registration import EnvSpec, WrapperSpec
from numpy.typing import NDArray
from one_behavior import begin

from rlcore import AgentBatch, Environment, EpisodeSeeds, SavedValueError, SavesState, load_checkpoint, save_checkpoint
from rlcore_devkit.playing import random_actions
from rlcore_gymnasium.saved_state import SavingEnvironment

CLASSIC = ("Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
ROBOTS = (
    "Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum", "InvertedPendulum",
    "Pusher", "Reacher", "Swimmer", "Walker2d",
)  # fmt: skip
NUM_ENVS = 2
LIMIT = 37  # steps of an episode at most


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log file into the working directory


def needs_mujoco(env_id: str) -> str:
    if env_id.endswith(("-v4", "-v5")) and importlib.util.find_spec("mujoco") is None:
        pytest.skip("MuJoCo is not installed")
    return env_id


def played(environment: Environment, steps: int, generator: np.random.Generator) -> None:
    begin(environment, EpisodeSeeds(3, 5), [2, 9])
    for _ in range(steps):
        environment.step(random_actions(environment.behaviors, None, generator))


def through_a_checkpoint(state: dict[str, Any], place: Path) -> Any:
    return load_checkpoint(save_checkpoint(place, 1, {"run": state}))["run"]


def content(batch: AgentBatch) -> list[bytes]:
    arrays: list[NDArray[Any]] = [*batch.observations.values(), batch.reward, batch.terminated, batch.truncated]
    finals = batch.final_observations or {}
    return [array.tobytes() for array in (*arrays, *finals.values(), batch.ended)]


def equal_steps(first: Environment, second: Environment, steps: int) -> int:
    """The number of steps after which two environments first differ, given equal actions."""
    generator = np.random.default_rng(8)
    for step in range(steps):
        actions = random_actions(first.behaviors, None, generator)
        ours, theirs = (each.step(copy.deepcopy(actions))["Agent"] for each in (first, second))
        if content(ours) != content(theirs) or first.episodes.tolist() != second.episodes.tolist():
            return step
    return steps


@pytest.mark.parametrize("env_id", [*CLASSIC, *(f"{name}-v5" for name in ROBOTS)])
def test_a_restored_environment_steps_as_the_one_that_was_saved(make: Any, tmp_path: Path, env_id: str) -> None:
    """Over several episodes. The state goes through the files of a checkpoint, and saving it changes nothing."""
    saved, restored, whole = (make(needs_mujoco(env_id), NUM_ENVS, max_episode_steps=LIMIT) for _ in range(3))
    assert isinstance(saved, SavingEnvironment) and isinstance(saved, SavesState)
    for environment in (saved, whole):
        played(environment, 23, np.random.default_rng(0))
    state = through_a_checkpoint(saved.state_dict(), tmp_path)
    batch = restored.load_state_dict(state)["Agent"]
    assert not batch.reward.any() and not batch.ended.size
    assert all(array.tobytes() == state["observations"][name].tobytes() for name, array in batch.observations.items())
    assert equal_steps(saved, restored, 2 * LIMIT) == 2 * LIMIT
    played(saved, 23, np.random.default_rng(0))
    assert equal_steps(saved, whole, 2 * LIMIT) == 2 * LIMIT  # one was saved and restored from, the other was not
    assert saved.episodes.min() >= 4


def test_the_generator_of_an_episode_is_restored(make: Any) -> None:
    saved, restored = (make("Pendulum-v1", NUM_ENVS) for _ in range(2))
    played(saved, 5, np.random.default_rng(0))
    for env in saved.vector.envs:
        env.unwrapped.np_random.random(7)  # an environment that draws in its steps
    restored.load_state_dict(saved.state_dict())
    ours, theirs = ([env.unwrapped.np_random.random() for env in each.vector.envs] for each in (saved, restored))
    assert ours == theirs


class TiredPendulum(PendulumEnv):
    """Another class, whose state is unknown although it has the attributes of the known one."""


@pytest.mark.parametrize("what", ["subclass", "wrapper", "attribute"])
def test_what_is_not_known_exactly_is_not_saved(make: Any, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrappers: tuple[WrapperSpec, ...] = ()
    entry: Any = TiredPendulum if what == "subclass" else PendulumEnv
    if what == "wrapper":
        halved = {"func": lambda reward: reward / 2}
        wrappers = (WrapperSpec("TransformReward", "gymnasium.wrappers:TransformReward", halved),)
    if what == "attribute":
        made = PendulumEnv.__init__

        def with_a_list(self: Any, *arguments: Any, **keywords: Any) -> None:
            made(self, *arguments, **keywords)
            self.past = []

        monkeypatch.setattr(PendulumEnv, "__init__", with_a_list)
    spec = EnvSpec("rlcore-tests/Tired-v0", entry, additional_wrappers=wrappers)
    monkeypatch.setitem(gymnasium.registry, spec.id, spec)
    environment = make(spec.id, NUM_ENVS)
    assert not isinstance(environment, SavesState)
    played(environment, 3, np.random.default_rng(0))


def test_values_of_parameters_are_those_of_the_open_and_of_the_next_episodes(make: Any, tmp_path: Path) -> None:
    """An attribute, and a constructor argument, which makes the environments again."""
    routes = {"g": {"attribute": "unwrapped.g"}, "limit": {"constructor": "max_episode_steps"}}
    saved, restored = (make("Pendulum-v1", NUM_ENVS, parameters=routes) for _ in range(2))
    saved.set_parameters({"g": np.array([5.0, 6.0]), "limit": np.array([LIMIT, LIMIT + 1.0])})
    played(saved, 23, np.random.default_rng(0))
    saved.set_parameters({"g": np.array([7.0, 8.0]), "limit": np.array([LIMIT - 5.0, LIMIT])})
    restored.load_state_dict(through_a_checkpoint(saved.state_dict(), tmp_path))
    assert [env.unwrapped.g for env in restored.vector.envs] == [5.0, 6.0]
    assert equal_steps(saved, restored, 2 * LIMIT) == 2 * LIMIT
    assert [env.unwrapped.g for env in restored.vector.envs] == [7.0, 8.0]


def spoiled(state: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    state = copy.deepcopy(state)
    *way, last = path.split("/")
    place: Any = state
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[last] = value
    return state


@pytest.mark.parametrize("case", yaml.safe_load((Path(__file__).parent / "data/wrong_states.yaml").read_text("utf-8")))
def test_a_state_that_does_not_fit_is_refused(make: Any, case: dict[str, Any]) -> None:
    [(path, value)] = case.items()
    if isinstance(value, dict) and "zeros" in value:
        value = np.zeros(value["zeros"], value.get("dtype", np.float64))
    saved, restored = (make(needs_mujoco("Reacher-v5"), NUM_ENVS) for _ in range(2))
    played(saved, 5, np.random.default_rng(0))
    with pytest.raises(SavedValueError):
        restored.load_state_dict(spoiled(saved.state_dict(), path, value))
    restored.load_state_dict(saved.state_dict())
