"""Values outside an environment's own spaces are refused: numpy would broadcast, wrap or parse them silently."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from rlcore import Actions, Environment, EnvironmentFailed, EpisodeSeeds, Run
from rlcore_gymnasium.native import ADAPTERS

LIAR = "rlcore-tests/Liar-v0"
SEEDS = EpisodeSeeds(3)
VECTOR = spaces.Box(-1.0, 1.0, (4,), np.float32)
PIXELS = spaces.Box(0, 255, (20, 20, 3), np.uint8)


class Liar(gymnasium.Env[Any, Any]):
    """Returns ``answers`` in step ``at`` (0: in its reset) if it is the second environment."""

    made = 0

    def __init__(self, space: spaces.Space[Any] = VECTOR, at: int = 2, ends: int = 10**9, **answers: Any) -> None:
        self.observation_space, self.action_space = space, spaces.Discrete(2)
        self.at, self.ends, self.answers, self.steps = at, ends, answers, 0
        Liar.made += 1
        self.lies = Liar.made == 2

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        return self._answer("observation", self.observation_space.sample()), {}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.steps += 1
        ended = self.steps >= self.ends
        observation = self._answer("observation", self.observation_space.sample())
        reward, terminated = self._answer("reward", 1.0), self._answer("terminated", ended)
        return observation, reward, terminated, self._answer("truncated", False), {}

    def _answer(self, what: str, sound: Any) -> Any:
        return self.answers.get(what, sound) if self.lies and self.steps == self.at else sound


@pytest.fixture
def liar(make: Any) -> Callable[..., Environment]:
    """Create two environments; the second one returns this in its second step: ``liar(VECTOR, observation=...)``."""

    def made(space: spaces.Space[Any] = VECTOR, num_envs: int = 2, **options: Any) -> Environment:
        if LIAR not in gymnasium.registry:
            gymnasium.register(LIAR, entry_point=Liar)
        Liar.made = 2 - num_envs
        environment: Environment = make(LIAR, num_envs, space=space, **options)
        return environment

    return made


def play(environment: Environment, steps: int = 3) -> Any:
    actions = {"Agent": Actions(discrete=np.zeros((environment.num_envs, 1), np.int64))}
    batch = environment.reset(SEEDS, np.zeros(environment.num_envs, np.int64))["Agent"]
    for _ in range(steps):
        batch = environment.step(actions)["Agent"]
    return batch


MULTI = spaces.MultiDiscrete([3, 2], start=[0, 5])
BOTH = spaces.Dict(eyes=PIXELS, place=VECTOR)
OBSERVATIONS: dict[str, tuple[spaces.Space[Any], Any, str]] = {
    "one value for four": (VECTOR, np.ones(1, np.float32), "as an array of float32 of shape [1]; expected shape [4]"),
    "a scalar for four": (VECTOR, 0.5, "as 0.5 (float); expected shape [4]"),
    "a column": (VECTOR, np.ones((4, 1), np.float32), "as an array of float32 of shape [4, 1]; expected shape [4]"),
    "texts": (VECTOR, np.full(4, "0.5"), "as an array of <U3 of shape [4]; expected real numbers"),
    "complex numbers": (VECTOR, np.ones(4, complex), "as an array of complex128 of shape [4]; expected real numbers"),
    "objects": (VECTOR, np.array([None] * 4), "as an array of object of shape [4]; expected real numbers"),
    "None": (VECTOR, None, "as None; expected shape [4]"),
    "lists of unequal lengths": (VECTOR, [[1], [1, 2]], "as [[1], [1, 2]] (list); expected an array"),
    "one channel for three": (PIXELS, np.ones((20, 20, 1), np.uint8), "[20, 20, 1]; expected shape [20, 20, 3]"),
    "pixels as floats": (
        PIXELS,
        np.full((20, 20, 3), 0.5),
        "of float64 of shape [20, 20, 3]; expected uint8: convert it",
    ),
    "NaN pixels": (
        PIXELS,
        np.full((20, 20, 3), np.nan),
        "expected uint8: convert it, for example with .astype(np.uint8)",
    ),
    "a pixel of 300": (PIXELS, np.full((20, 20, 3), 300), "as 300 (int64); expected an integer from 0 to 255"),
    "a pixel of -1": (PIXELS, np.full((20, 20, 3), -1, np.int16), "as -1 (int16); expected an integer from 0 to 255"),
    "option -1": (spaces.Discrete(4), -1, "as -1 (int); expected an integer from 0 to 3"),
    "option n": (spaces.Discrete(4), np.int64(4), "as 4 (int64); expected an integer from 0 to 3"),
    "option before the start": (spaces.Discrete(4, start=2), 1, "as 1 (int); expected an integer from 2 to 5"),
    "half an option": (spaces.Discrete(4), 0.5, "as 0.5 (float); expected an integer from 0 to 3"),
    "several options": (spaces.Discrete(4), np.array([1, 2]), "as an array of int64 of shape [2]; expected an integer"),
    "branch -1": (MULTI, np.array([-1, 5]), "as -1 (int64); expected an integer from 0 to 2 at [0]"),
    "a branch too far": (MULTI, np.array([0, 7]), "as 7 (int64); expected an integer from 5 to 6 at [1]"),
    "one branch for two": (MULTI, np.array([1]), "expected integers of shape [1, 2]"),
    "half a branch": (MULTI, np.array([0.5, 5.0]), "expected integers of shape [1, 2]"),
    "a bit of 2": (spaces.MultiBinary(3), np.array([0, 2, 1]), "as 2 (int64); expected 0 or 1"),
    "one bit for three": (spaces.MultiBinary(3), np.array([1]), "expected zeros and ones of shape [1, 3]"),
    "a part missing": (BOTH, {"place": np.zeros(4, np.float32)}, "observation 'eyes' as {'place':"),
    "no parts": (
        BOTH,
        np.zeros(4, np.float32),
        "observation 'eyes' as an array of float32 of shape [4]; expected one with",
    ),
    "a part of another shape": (
        BOTH,
        {"eyes": np.zeros((20, 20, 3), np.uint8), "place": 0.0},
        "observation 'place' as 0.0",
    ),
}


@pytest.mark.parametrize("case", OBSERVATIONS)
@pytest.mark.parametrize(("at", "doing"), [(0, "reset"), (2, "step")])
def test_an_observation_that_is_not_of_its_space_is_refused(liar: Any, case: str, at: int, doing: str) -> None:
    space, observation, message = OBSERVATIONS[case]
    with pytest.raises(EnvironmentFailed, match=re.escape(message)) as caught:
        play(liar(space, observation=observation, at=at))
    start = f"{LIAR}: environment 1, episode 0: {doing} returned observation '"
    assert str(caught.value).startswith(start) and caught.value.exit_code == 3


def test_a_final_observation_that_is_not_of_its_space_is_refused(liar: Any) -> None:
    with pytest.raises(
        EnvironmentFailed, match=r"environment 1, episode 0: step returned observation 'observation' as 0\.5"
    ):
        play(liar(VECTOR, observation=0.5, ends=2))


ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "a text as terminated": ({"terminated": "False"}, "terminated as 'False' (str); expected a boolean"),
    "a text as truncated": ({"truncated": "no"}, "truncated as 'no' (str); expected a boolean"),
    "a number as terminated": ({"terminated": 0}, "terminated as 0 (int); expected a boolean"),
    "None as truncated": ({"truncated": None}, "truncated as None; expected a boolean"),
    "an array as terminated": ({"terminated": np.zeros(1, np.bool_)}, "terminated as an array of bool of shape [1]"),
    "a text as reward": ({"reward": "1.0"}, "the reward as '1.0' (str); expected a number"),
    "no reward": ({"reward": None}, "the reward as None; expected a number"),
    "several rewards": ({"reward": np.ones(1)}, "the reward as an array of float64 of shape [1]; expected a number"),
    "a complex reward": ({"reward": 1j}, "the reward as 1j (complex); expected a number"),
}


@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize("case", ANSWERS)
def test_flags_are_booleans_and_a_reward_is_a_number(liar: Any, case: str, num_envs: int) -> None:
    answers, message = ANSWERS[case]
    with pytest.raises(EnvironmentFailed) as caught:
        play(liar(num_envs=num_envs, **answers))
    assert str(caught.value).startswith(f"{LIAR}: environment {num_envs - 1}, episode 0: step returned {message}")


@pytest.mark.parametrize("answer", [(np.zeros(4, np.float32), 1.0, False, {}), None, np.float32(1)])
def test_a_step_of_the_old_interface_is_told_what_to_return(liar: Any, monkeypatch: Any, answer: Any) -> None:
    monkeypatch.setattr(Liar, "step", lambda self, action: answer)
    with pytest.raises(EnvironmentFailed) as caught:
        play(liar())
    message = str(caught.value)
    assert f"{LIAR}: environment 0, episode 0: step must return (observation, reward, terminated, trun" in message
    assert "unpack" in message and caught.value.exit_code == 3


def test_a_reset_without_info_is_told_what_to_return(liar: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(Liar, "reset", lambda self, *, seed, options=None: np.zeros(4, np.float32))
    with pytest.raises(
        EnvironmentFailed, match=r"episode 0: reset must return \(observation, info\) \(too many values"
    ):
        play(liar())


def test_an_environment_that_unpacks_wrongly_itself_failed(liar: Any, monkeypatch: Any) -> None:
    def step(self: Any, action: Any) -> Any:
        _, _ = (1, 2, 3)

    monkeypatch.setattr(Liar, "step", step)
    with pytest.raises(EnvironmentFailed, match=r"step failed: ValueError: too many values to unpack"):
        play(liar())


def test_messages_have_the_number_that_the_environment_has_in_the_run(liar: Any) -> None:
    environment = liar(reward=None)
    actions = {"Agent": Actions(discrete=np.zeros((2, 1), np.int64))}
    environment.reset(EpisodeSeeds(3, first_env=6), np.zeros(2, np.int64))
    environment.step(actions)
    with pytest.raises(EnvironmentFailed, match="environment 7, episode 0: step returned the reward as None"):
        environment.step(actions)


@pytest.mark.parametrize(
    "answers",
    [
        {"terminated": np.bool_(False), "reward": np.float32(1)},
        {"terminated": np.array(False), "reward": np.array(1.0)},
        {"truncated": np.False_, "reward": 1},
        {"reward": np.int64(1)},
        {"reward": True},
    ],
)
def test_booleans_and_numbers_of_numpy_are_accepted(liar: Any, answers: dict[str, Any]) -> None:
    batch = play(liar(**answers), 2)
    assert batch.reward.tolist() == [1.0, 1.0] and not batch.terminated.any() and not batch.truncated.any()


@pytest.mark.parametrize(
    ("space", "observation", "seen"),
    [
        (VECTOR, [0.5, 0, 1, 0], [0.5, 0, 1, 0]),
        (VECTOR, np.array([0.5, 0, 1, 0], np.float64), [0.5, 0, 1, 0]),
        (VECTOR, np.array([1, 0, 1, 0]), [1, 0, 1, 0]),
        (spaces.Discrete(3), np.array(2, np.int32), [0, 0, 1]),
        (spaces.Discrete(3), True, [0, 1, 0]),
        (spaces.MultiBinary(3), [True, False, 1.0], [1, 0, 1]),
        (MULTI, [2, 6], [0, 0, 1, 0, 1]),
        (spaces.Box(0, 9, (), np.int64), 7, 7.0),
    ],
)
def test_what_means_the_same_is_accepted(liar: Any, space: Any, observation: Any, seen: Any) -> None:
    batch = play(liar(space, observation=observation), 2)
    assert batch.observations["observation"][1].tolist() == seen


def test_integers_within_a_byte_are_accepted_as_pixels(liar: Any) -> None:
    image = np.arange(1200).reshape(20, 20, 3) % 256
    batch = play(liar(PIXELS, observation=image), 2)
    np.testing.assert_array_equal(batch.observations["observation"][1], image.astype(np.uint8))


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
    (spec,) = liar(spaces.Box(low, high, (2,), np.float64)).behaviors["Agent"].observations
    for found, wanted in zip((spec.low, spec.high), bounds, strict=True):
        assert (found is None) == (wanted is None) and (wanted is None or found.tolist() == wanted)


def test_a_byte_has_no_bounds_but_its_own(liar: Any) -> None:
    (spec,) = liar(PIXELS).behaviors["Agent"].observations
    assert spec.low is spec.high is None


def test_a_run_warns_once_of_an_observation_outside_its_box(
    liar: Any, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("rlcore_ppo", reason="a whole run needs a trainer")
    liar()
    Liar.made = 0
    wrong = [0.0, 0.0, 1e6, 0.0]
    config = {
        "environment": {"type": "gymnasium", "id": LIAR, "num_envs": 2, "options": {"observation": wrong, "ends": 5}},
        "behaviors": {
            "Agent": {"trainer_type": "ppo", "max_steps": 64, "hyperparameters": {"buffer_size": 64, "batch_size": 64}}
        },
        "checkpoint_settings": {"results_dir": str(tmp_path), "run_id": "run"},
        "stats": {"console": False, "tensorboard": False},
    }
    with caplog.at_level(logging.WARNING):
        Run(config).train()
    lines = [record.getMessage() for record in caplog.records if "outside its bounds" in record.getMessage()]
    assert lines == [
        "behavior 'Agent': observation 'observation' of slot 1 (environment 1) is 1e+06 at [2] at step 2, outside "
        "its bounds -1 to 1; it is used as it is: correct the environment or what it declares (reported once)"
    ]


# ---------------------------------------------------------------- natively vectorized


class VectorLiar(VectorEnv[Any, Any, Any]):
    """Three environments in arrays that return ``answers`` in the second step."""

    num_envs = 3

    def __init__(self, mode: AutoresetMode, space: spaces.Space[Any], **answers: Any) -> None:
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = space, spaces.Discrete(2)
        self.observation_space = gymnasium.vector.utils.batch_space(space, 3)
        self.answers, self.steps = answers, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.observation_space.sample(), {}

    def step(self, actions: Any) -> Any:
        self.steps += 1
        sound = {
            "observation": self.observation_space.sample(),
            "reward": np.ones(3),
            "terminated": np.zeros(3, np.bool_),
            "truncated": np.zeros(3, np.bool_),
        }
        if self.steps == 2:
            sound |= self.answers
        return *sound.values(), {}


NATIVE: dict[str, tuple[spaces.Space[Any], dict[str, Any], str]] = {
    "one value for four": (
        VECTOR,
        {"observation": np.ones((3, 1), np.float32)},
        "of shape [3, 1]; expected shape [3, 4]",
    ),
    "one row for three": (
        VECTOR,
        {"observation": np.ones((1, 4), np.float32)},
        "'observation' as an array of float32 of shape [1, 4]",
    ),
    "pixels as floats": (PIXELS, {"observation": np.full((3, 20, 20, 3), 0.5)}, "expected uint8: convert it"),
    "option -1": (
        spaces.Discrete(4),
        {"observation": np.array([0, -1, 1])},
        "as -1 (int64); expected an integer from 0 to 3",
    ),
    "a bit of 2": (spaces.MultiBinary(2), {"observation": np.full((3, 2), 2)}, "as 2 (int64); expected 0 or 1"),
    "one reward for all": (
        VECTOR,
        {"reward": np.ones(1)},
        "the reward as an array of float64 of shape [1]; expected numbers of shape [3]",
    ),
    "a number as reward": (VECTOR, {"reward": 1.0}, "the reward as 1.0 (float); expected numbers of shape [3]"),
    "texts as reward": (VECTOR, {"reward": ["1", "2", "3"]}, "the reward as ['1', '2', '3'] (list); expected numbers"),
    "texts as terminated": (
        VECTOR,
        {"terminated": ["False"] * 3},
        "terminated as ['False', 'False', 'False'] (list); expected booleans",
    ),
    "numbers as truncated": (
        VECTOR,
        {"truncated": np.zeros(3)},
        "truncated as an array of float64 of shape [3]; expected booleans",
    ),
    "one flag for all": (VECTOR, {"terminated": False}, "terminated as False (bool); expected booleans of shape [3]"),
}


@pytest.mark.parametrize("mode", ADAPTERS)
@pytest.mark.parametrize("case", NATIVE)
def test_answers_of_an_environment_in_arrays_are_refused_too(case: str, mode: AutoresetMode) -> None:
    space, answers, message = NATIVE[case]
    environment = ADAPTERS[mode](LIAR, "Agent", VectorLiar(mode, space, **answers))
    with pytest.raises(EnvironmentFailed, match=re.escape(message)) as caught:
        play(environment)
    assert str(caught.value).startswith(f"{LIAR}: all 3 environments, episodes 0 to 0: step returned ")
