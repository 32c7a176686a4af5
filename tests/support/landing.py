"""A Gymnasium environment with a hybrid action: walk to a mark, then say so."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STRIDE = 0.3  # the longest step
COST = 0.05  # of each step


class Landing(gymnasium.Env[Any, Any]):
    """Position and mark lie in [-1, 1]. ``announce`` 0 walks ``walk`` strides, 1 ends the episode.

    Walking costs 0.05. The end brings 1 on the mark and loses 5 for each unit of distance, down to -1. After 20 steps
    the episode is truncated.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-2.0, 2.0, (2,), np.float32)
        self.action_space = spaces.Dict(
            {"announce": spaces.Discrete(2), "walk": spaces.Box(-1.0, 1.0, (1,), np.float32)}
        )
        self.position = self.mark = 0.0
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position, self.mark = self.np_random.uniform(-1.0, 1.0, 2)
        self.steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if action["announce"] == 1:
            reward = max(-1.0, 1.0 - 5.0 * abs(self.position - self.mark))
            return self._observation(), reward, True, False, {}
        self.position = float(np.clip(self.position + STRIDE * float(action["walk"][0]), -1.0, 1.0))
        return self._observation(), -COST, False, self.steps == 20, {}

    def _observation(self) -> Any:
        return np.array([self.position, self.mark], np.float32)


def best_return(position: float, mark: float) -> float:
    """The best return of an episode that starts there, over the number of full strides before the announcement."""
    distance = abs(position - mark)
    most = math.ceil(distance / STRIDE)
    return max(-COST * n + max(-1.0, 1.0 - 5.0 * max(0.0, distance - n * STRIDE)) for n in range(most + 1))
