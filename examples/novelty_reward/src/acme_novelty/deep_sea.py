"""Deep sea (Osband et al. 2020, bsuite, arXiv:1908.03568, section A.1): a reward that random actions do not find.

An agent sinks through a square of ``size`` rows, one row in each step, to the left or to the right. Only the
bottom-right corner has a reward, 1. Each step to the right costs 0.01 / ``size``, so what is learned first leads away.
Which of the two actions goes right differs from cell to cell.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Observation = NDArray[np.float32]


class DeepSea(gymnasium.Env[Observation, np.int64]):
    """The observation marks the agent's cell with a 1; the observation after the last step is all zeros."""

    def __init__(self, size: int = 12) -> None:
        self.size = size
        # The action that goes right in each cell, the same ones in every environment: the task does not change.
        self.right = np.random.default_rng(0).integers(2, size=(size, size))
        self.observation_space = spaces.Box(0.0, 1.0, (size * size,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self.row = 0
        self.column = 0
        return self.observe(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        right = bool(action == self.right[self.row, self.column])
        last = self.size - 1
        reward = 0.0
        if right:
            found = self.row == self.column == last
            reward = found - 0.01 / self.size
            self.column = min(self.column + 1, last)
        else:
            self.column = max(self.column - 1, 0)
        self.row += 1
        terminated = self.row == self.size
        return self.observe(), reward, terminated, False, {}

    def observe(self) -> Observation:
        cells = np.zeros((self.size, self.size), np.float32)
        if self.row < self.size:
            cells[self.row, self.column] = 1
        return cells.ravel()


gymnasium.register("DeepSea-v0", DeepSea)
