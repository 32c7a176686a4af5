"""A small image task: name the quadrant of the image with the bright spot."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Quadrant(gymnasium.Env[Any, Any]):
    """Eight images in an episode; the right quadrant of four earns 1."""

    observation_space = spaces.Box(0, 255, (16, 16, 1), np.uint8)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.images = 0
        return self.draw(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == self.quadrant)
        self.images += 1
        terminated = self.images == 8
        return self.draw(), reward, terminated, False, {}

    def draw(self) -> Any:
        image = self.np_random.integers(0, 100, (16, 16, 1), np.uint8)
        row, column = self.np_random.integers(0, 14, 2)
        image[row : row + 3, column : column + 3] = 255
        # The middle of the spot, at row + 1 and column + 1, is in the lower or right half from 8 on.
        lower = row > 6
        right = column > 6
        self.quadrant = 2 * lower + right
        return image


gymnasium.register("AcmeQuadrant-v0", Quadrant)
