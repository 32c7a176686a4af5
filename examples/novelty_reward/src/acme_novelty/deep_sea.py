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


class DeepSea(gymnasium.Env[NDArray[np.float32], np.int64]):
    """The observation marks the agent's cell with a 1; the observation after the last step is all zeros."""

    def __init__(self, size: int = 12) -> None:
        self.size = size
        self.right = np.random.default_rng(0).integers(2, size=(size, size))  # the action that goes right
        self.observation_space = spaces.Box(0.0, 1.0, (size * size,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.row = self.column = 0
        return self.observe(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        right = bool(action == self.right[self.row, self.column])
        found = right and self.row == self.column == self.size - 1
        self.row += 1
        self.column = min(max(self.column + (1 if right else -1), 0), self.size - 1)
        return self.observe(), found - right * 0.01 / self.size, self.row == self.size, False, {}

    def observe(self) -> NDArray[np.float32]:
        cells = np.zeros((self.size, self.size), np.float32)
        if self.row < self.size:
            cells[self.row, self.column] = 1
        return cells.ravel()


gymnasium.register("DeepSea-v0", DeepSea)
