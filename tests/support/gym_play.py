"""Environments of Gymnasium for tests."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Scripted(gymnasium.Env[Any, Any]):
    """Counts its steps; a subclass says what is observed and rewarded, and when an episode ends.

    Attributes:
        _length: Steps of an episode.
        _ends: The flag of its end.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}
    observation_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)
    _length = 10**9
    _ends = "terminated"
    _steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        self.begin(seed, options or {})
        return self.observe(), self.info()

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self._steps += 1
        reward = self.act(action)
        terminated, truncated = self.flags()
        return self.observe(), reward, terminated, truncated, self.info()

    def begin(self, seed: int | None, options: Any) -> None:
        """Called by a reset before something is observed."""

    def observe(self) -> Any:
        raise NotImplementedError

    def act(self, action: Any) -> Any:
        """Return the reward."""
        return float(action)

    def flags(self) -> tuple[Any, Any]:
        over = self._steps >= self._length
        return over and self._ends == "terminated", over and self._ends == "truncated"

    def info(self) -> dict[str, Any]:
        return {}


def register(env_id: str, *entry: Any, **how: Any) -> str:
    """Register an environment, also in place of another one, and return its id."""
    gymnasium.registry.pop(env_id, None)
    gymnasium.register(env_id, *entry, **how)
    return env_id
