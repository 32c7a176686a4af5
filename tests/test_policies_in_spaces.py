"""Saved and exported policies act in the values of an environment's spaces: one that starts elsewhere than at 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from small_runs import small_run

from rlcore import Run, load_policies
from rlcore_gymnasium.spaces import MismatchedValue, PolicyInSpaces
from rlcore_onnx.runtime import load

STARTS = np.array([-1, 7])


class Begin(gymnasium.Env[Any, Any]):
    """The right actions depend on a Discrete that starts at 5; those before ``place`` are -1 to 1, and 7 to 8."""

    observation_space = spaces.Dict(
        place=spaces.Discrete(3, start=5), clock=spaces.Box(0, 255, (2, 24, 20), np.uint8), words=spaces.Text(4)
    )
    action_space = spaces.Dict(go=spaces.Discrete(3, start=-1), turn=spaces.MultiDiscrete([2], start=[7]))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._see(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.steps += 1
        reward = float(action["go"] == self.place - 6)
        return self._see(), reward, False, self.steps == 8, {}

    def _see(self) -> Any:
        self.place = 5 + int(self.np_random.integers(3))
        return {"place": self.place, "clock": np.full((2, 24, 20), self.steps, np.uint8), "words": "abc"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("begin")
    changes = {
        "environment.type": None,
        "environment.id": None,
        "behaviors.Agent.max_steps": 1024,
        "behaviors.Agent.hyperparameters": {"batch_size": 64, "buffer_size": 256, "learning_rate": 5e-3},
        "export": ["onnx"],
    }
    config = small_run(place, changes)
    Run(config, environment=lambda: gymnasium.wrappers.FilterObservation(Begin(), ["place", "clock"])).train()
    return place / "run"


@pytest.mark.parametrize("kind", ["saved", "exported"])
def test_a_policy_acts_in_the_values_of_its_environment(run: Path, kind: str) -> None:
    policy: Any = load_policies(run)["Agent"] if kind == "saved" else load(run / "Agent.onnx")
    assert policy.behavior.start == (-1, 7)
    environment = Begin()  # the observation that the policy does not read needs no entry
    acting = PolicyInSpaces(policy, environment)
    observation, _ = environment.reset(seed=3)
    earned = 0.0
    ended = False
    while not ended:
        rows = {
            "place": np.eye(3, dtype=np.float32)[[observation["place"] - 5]],
            "clock": np.moveaxis(observation["clock"], 0, -1)[None],
        }
        action = acting.act(observation)
        assert [action["go"], *action["turn"]] == (policy.act(rows).discrete[0] + STARTS).tolist()
        observation, reward, _, ended, _ = environment.step(action)
        earned += reward
    assert earned > 5  # chance earns 8 / 3
    masked = acting.act(observation, {"go": np.array([0, 0, 1], np.int8), "turn": None})
    assert masked["go"] == 1


def test_values_and_spaces_of_another_environment_are_refused(run: Path) -> None:
    policy = load(run / "Agent.onnx")
    with pytest.raises(ValueError, match=r"spaces are not those that the policy learned in: observation 'clock' is"):
        PolicyInSpaces(policy, gymnasium.make("CartPole-v1"))
    observation = {"place": 4, "clock": np.zeros((2, 24, 20), np.uint8)}
    with pytest.raises(MismatchedValue, match="expected an integer from 5 to 7"):
        PolicyInSpaces(policy, Begin()).act(observation)
    with pytest.raises(ValueError, match=r"observation 'place' has shape \[1\] .*it has indicators: 1 in"):
        policy.act({"place": np.array([6]), "clock": np.zeros((1, 24, 20, 2), np.uint8)})
