"""Values outside an environment's own spaces are refused: numpy would broadcast, wrap or parse them silently."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from gym_play import Scripted, register
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from one_behavior import act, begin

from rlcore import Environment, EnvironmentFailed, EpisodeSeeds
from rlcore_gymnasium.native import ADAPTERS

LIAR = "rlcore-tests/Liar-v0"
SEEDS = EpisodeSeeds(3)
VECTOR = Box(-1.0, 1.0, (4,))
PIXELS = Box(0, 255, (20, 20, 3), np.uint8)


class Liar(Scripted):
    """Returns ``answers`` in step ``at`` (0: in its reset) if it is the second environment."""

    made = 0

    def __init__(self, space: Space[Any] = VECTOR, at: int = 2, ends: int = 10**9, **answers: Any) -> None:
        self.observation_space, self._length = space, ends
        self.at, self.answers = at, answers
        Liar.made += 1
        self.lies = Liar.made == 2

    def observe(self) -> Any:
        return self._answer("observation", self.observation_space.sample())

    def act(self, action: Any) -> Any:
        return self._answer("reward", 1.0)

    def flags(self) -> tuple[Any, Any]:
        return self._answer("terminated", self._steps >= self._length), self._answer("truncated", False)

    def _answer(self, what: str, sound: Any) -> Any:
        return self.answers.get(what, sound) if self.lies and self._steps == self.at else sound


@pytest.fixture
def liar(make: Any) -> Callable[..., Environment]:
    """Create two environments; the second one returns this in its second step: ``liar(VECTOR, observation=...)``."""

    def made(space: Space[Any] = VECTOR, num_envs: int = 2, **options: Any) -> Environment:
        register(LIAR, Liar)
        Liar.made = 2 - num_envs
        environment: Environment = make(LIAR, num_envs, space=space, **options)
        return environment

    return made


def play(environment: Environment, steps: int = 3) -> Any:
    begin(environment)
    return act(environment, steps=steps)


SPACES: dict[str, Space[Any]] = {
    "vector": VECTOR, "pixels": PIXELS, "discrete": Discrete(4), "late": Discrete(4, start=2),
    "branches": MultiDiscrete([3, 2], start=[0, 5]), "bits": MultiBinary(3),
    "both": Dict(eyes=PIXELS, place=VECTOR), "number": Box(0, 9, (), np.int64),
    "stack": Box(0, 255, (4, 8, 6), np.uint8),
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "data/wrong_answers.yaml").read_text("utf-8")
)


def value_of(case: dict[str, Any]) -> Any:
    if "shape" in case:
        return np.full(case["shape"], case["value"], case["dtype"])
    return np.array(case["value"], case["dtype"]) if "dtype" in case else case["value"]


@pytest.mark.parametrize("name", CASES["observations"])
@pytest.mark.parametrize(("at", "doing"), [(0, "reset"), (2, "step")])
def test_an_observation_that_is_not_of_its_space_is_refused(liar: Any, name: str, at: int, doing: str) -> None:
    case = CASES["observations"][name]
    with pytest.raises(EnvironmentFailed, match=re.escape(case["message"])) as caught:
        play(liar(SPACES[case["space"]], observation=value_of(case), at=at))
    start = f"{LIAR}: environment 1, episode 0: {doing} returned observation '"
    assert str(caught.value).startswith(start) and caught.value.exit_code == 3


def test_a_final_observation_that_is_not_of_its_space_is_refused(liar: Any) -> None:
    with pytest.raises(
        EnvironmentFailed, match=r"environment 1, episode 0: step returned observation 'observation' as 0\.5"
    ):
        play(liar(VECTOR, observation=0.5, ends=2))


@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize("case", CASES["answers"].values(), ids=CASES["answers"])
def test_flags_are_booleans_and_a_reward_is_a_number(liar: Any, case: dict[str, Any], num_envs: int) -> None:
    said = f"{LIAR}: environment {num_envs - 1}, episode 0: step returned {case['message']}"
    with pytest.raises(EnvironmentFailed, match=f"^{re.escape(said)}"):
        play(liar(num_envs=num_envs, **case["answer"]))


@pytest.mark.parametrize("answer", [(np.zeros(4, np.float32), 1.0, False, {}), None, np.float32(1)])
def test_a_step_of_the_old_interface_is_told_what_to_return(liar: Any, monkeypatch: Any, answer: Any) -> None:
    monkeypatch.setattr(Liar, "step", lambda self, action: answer)
    with pytest.raises(EnvironmentFailed) as caught:
        play(liar())
    message = str(caught.value)
    assert f"{LIAR}: environment 0, episode 0: step must return (observation, reward, terminated, trun" in message
    assert "unpack" in message and caught.value.exit_code == 3


def test_messages_have_the_number_that_the_environment_has_in_the_run(liar: Any) -> None:
    environment = liar(reward=None)
    begin(environment, EpisodeSeeds(3, first_env=6))
    act(environment)
    with pytest.raises(EnvironmentFailed, match="environment 7, episode 0: step returned the reward as None"):
        act(environment)


@pytest.mark.parametrize(
    "answers",
    [
        {"terminated": np.array(False), "reward": np.array(1.0)},
        {"reward": True},
    ],
)
def test_booleans_and_numbers_of_numpy_are_accepted(liar: Any, answers: dict[str, Any]) -> None:
    batch = play(liar(**answers), 2)
    assert batch.reward.tolist() == [1.0, 1.0] and not batch.terminated.any() and not batch.truncated.any()


@pytest.mark.parametrize("case", CASES["accepted"].values(), ids=CASES["accepted"])
def test_what_means_the_same_is_accepted(liar: Any, case: dict[str, Any]) -> None:
    batch = play(liar(SPACES[case["space"]], observation=value_of(case)), 2)
    assert batch.observations["observation"][1].tolist() == case["seen"]


# ---------------------------------------------------------------- bounds


@pytest.mark.parametrize(
    ("low", "high", "bounds"),
    [
        (-1.0, 1.0, (-1.0, 1.0)),
        (np.array([0.0, -np.inf]), np.array([np.inf, 2.0]), ([0.0, -np.inf], [np.inf, 2.0])),
        (-np.inf, 5.0, (None, 5.0)),
    ],
)
def test_bounds_of_a_box_are_those_of_its_observation(liar: Any, low: Any, high: Any, bounds: Any) -> None:
    (spec,) = liar(Box(low, high, (2,), np.float64)).behaviors["Agent"].observations
    for found, wanted in zip((spec.low, spec.high), bounds, strict=True):
        assert (found is None) == (wanted is None) and (wanted is None or found.tolist() == wanted)


# ---------------------------------------------------------------- natively vectorized


class VectorLiar(VectorEnv[Any, Any, Any]):
    """Three environments in arrays that return ``answers`` in the second step."""

    num_envs = 3

    def __init__(self, mode: AutoresetMode, space: Space[Any], **answers: Any) -> None:
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = space, Discrete(2)
        self.observation_space = gymnasium.vector.utils.batch_space(space, 3)
        self.answers, self._steps = answers, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.observation_space.sample(), {}

    def step(self, actions: Any) -> Any:
        self._steps += 1
        sound = {
            "observation": self.observation_space.sample(),
            "reward": np.ones(3),
            "terminated": np.zeros(3, np.bool_),
            "truncated": np.zeros(3, np.bool_),
        }
        if self._steps == 2:
            sound |= self.answers
        return *sound.values(), {}


@pytest.mark.parametrize("mode", ADAPTERS)
@pytest.mark.parametrize("case", CASES["native"].values(), ids=CASES["native"])
def test_answers_of_an_environment_in_arrays_are_refused_too(case: dict[str, Any], mode: AutoresetMode) -> None:
    answers = {case["of"]: value_of(case)}
    vector = VectorLiar(mode, SPACES[case.get("space", "vector")], **answers)
    with pytest.raises(EnvironmentFailed, match=re.escape(case["message"])) as caught:
        play(ADAPTERS[mode](LIAR, "Agent", vector))
    assert str(caught.value).startswith(f"{LIAR}: all 3 environments, episodes 0 to 0: step returned ")


@pytest.mark.parametrize("doing", ["reset", "step"])
def test_an_info_is_a_dict(liar: Any, monkeypatch: Any, doing: str) -> None:
    sound = getattr(Liar, doing)
    monkeypatch.setattr(Liar, doing, lambda self, *words, **named: (*sound(self, *words, **named)[:-1], None))
    with pytest.raises(EnvironmentFailed, match=rf"{doing} returned the info as None; expected a dict"):
        play(liar())
