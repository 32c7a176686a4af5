"""Small environments for tools/equal_runs.py: masks, hybrid actions, images, and sets of entities beside a goal."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class Masked(gymnasium.Env[Any, Any]):
    """Rewards the allowed option with the largest observed value; episodes end by chance, or at a time limit."""

    metadata: ClassVar[dict[str, Any]] = {}
    observation_space = spaces.Box(-1, 1, (4,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(4)

    def _look(self) -> tuple[np.ndarray, dict[str, Any]]:
        self.values = self.np_random.uniform(-1, 1, 4).astype(np.float32)
        allowed = (self.np_random.random(4) < 0.6).astype(np.int8)
        allowed[self.np_random.integers(4)] = 1
        return self.values, {"action_mask": allowed}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 20
        return self._look()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = self._reward(action)
        self.left -= 1
        observation, info = self._look()
        return observation, reward, bool(self.np_random.random() < 0.02), self.left == 0, info

    def _reward(self, action: Any) -> float:
        return float(self.values[action])


class Hybrid(Masked):
    """Rewards an option with a large observed value, and a number close to that value; nothing is masked."""

    action_space = spaces.Tuple((spaces.Discrete(4), spaces.Box(-1, 1, (1,), np.float32)))

    def _look(self) -> tuple[np.ndarray, dict[str, Any]]:
        return super()._look()[0], {}

    def _reward(self, action: Any) -> float:
        option, number = action
        return float(self.values[option]) - abs(float(number[0]) - float(self.values[option]))


class Spot(gymnasium.Env[Any, Any]):
    """Shows a bright spot in a quadrant of an image, and rewards the name of the quadrant."""

    metadata: ClassVar[dict[str, Any]] = {}
    observation_space = spaces.Box(0, 255, (20, 20, 3), np.uint8)
    action_space = spaces.Discrete(4)

    def _look(self) -> np.ndarray:
        self.quadrant = int(self.np_random.integers(4))
        image = np.zeros((20, 20, 3), np.uint8)
        row, column = self.np_random.integers(0, 8, 2) + 10 * np.array(divmod(self.quadrant, 2))
        image[row : row + 2, column : column + 2] = 255
        return image

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 10
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(int(action) == self.quadrant)
        self.left -= 1
        return self._look(), reward, self.left == 0, False, {}


class Votes(gymnasium.Env[Any, Any]):
    """Shows up to seven votes for or against, and rewards the side of the majority, or of the minority if asked."""

    metadata: ClassVar[dict[str, Any]] = {}
    observation_space = spaces.Dict(
        votes=spaces.Sequence(spaces.Box(-1, 1, (1,), np.float32)), asked=spaces.Discrete(2)
    )
    action_space = spaces.Discrete(2)

    def _look(self) -> dict[str, Any]:
        votes = self.np_random.choice([-1.0, 1.0], 2 * self.np_random.integers(4) + 1).astype(np.float32)
        asked = int(self.np_random.integers(2))
        self.side = int(votes.sum() > 0) ^ asked
        return {"votes": tuple(votes[:, None]), "asked": asked}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 10
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(int(action) == self.side)
        self.left -= 1
        return self._look(), reward, self.left == 0, False, {}


gymnasium.register("Masked-v0", lambda **options: Masked())
gymnasium.register("Hybrid-v0", lambda **options: Hybrid())
gymnasium.register("Spot-v0", lambda **options: Spot())
gymnasium.register("Votes-v0", lambda **options: Votes())
