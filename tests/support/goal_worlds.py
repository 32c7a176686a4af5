"""Environments with goals: ``goal_worlds:BitFlip-v0``, ``goal_worlds:OneByOne-v0`` and ``goal_worlds:Reach-v0``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Observation = dict[str, NDArray[Any]]


class BitFlip(gymnasium.Env[Observation, Any]):
    """Flip bits until they are those of the goal: 0 there, and the end; -1 elsewhere (arXiv:1707.01495, section 3.1).

    Few of 2^bits states are ever seen, so that almost no episode reaches its own goal at first.
    """

    def __init__(self, bits: int = 10) -> None:
        self.observation_space = spaces.Dict(
            {name: spaces.MultiBinary(bits) for name in ("observation", "achieved_goal", "desired_goal")}
        )
        self.action_space = spaces.Discrete(bits)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self.bits, self.goal = self.np_random.integers(0, 2, (2, int(self.action_space.n)), np.int8)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self.bits[action] ^= 1
        there = bool((self.bits == self.goal).all())
        return self._seen(), float(there) - 1.0, there, False, {}

    def _seen(self) -> Observation:
        return {"observation": self.bits.copy(), "achieved_goal": self.bits.copy(), "desired_goal": self.goal.copy()}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return (achieved_goal == desired_goal).all(-1) - 1.0

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return (achieved_goal == desired_goal).all(-1)


class OneByOne(BitFlip):
    """BitFlip whose methods take one goal at a time, and of which the second disturbs the episode that is played."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return 0.0 if np.array_equal(achieved_goal, desired_goal) else -1.0

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        self.goal = self.np_random.integers(0, 2, len(self.goal), np.int8)
        return bool(all(achieved_goal == desired_goal))


class Reach(gymnasium.Env[Observation, Any]):
    """Move a hand in a cube of side 2 to a goal. The reward is 0 within 0.1 of the goal, and -1 elsewhere.

    A hand that moves at random is near its goal in one of 2000 steps. There is no ``compute_reward``.
    """

    def __init__(self) -> None:
        box = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.observation_space = spaces.Dict({"achieved_goal": box, "desired_goal": box})
        self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1.0, 1.0, (2, 3))
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self.place = np.clip(self.place + 0.2 * action, -1.0, 1.0)
        reward = 0.0 if np.linalg.norm(self.place - self.goal) <= 0.1 else -1.0
        return self._seen(), reward, False, False, {}

    def _seen(self) -> Observation:
        return {"achieved_goal": self.place.astype(np.float32), "desired_goal": self.goal.astype(np.float32)}


gymnasium.register("BitFlip-v0", BitFlip, max_episode_steps=10)
gymnasium.register("OneByOne-v0", OneByOne, max_episode_steps=10)
gymnasium.register("Reach-v0", Reach, max_episode_steps=20)
