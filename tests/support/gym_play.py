"""Environments of Gymnasium for tests, and steps of environments with one behavior."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rlcore import Actions, AgentBatch, Environment, EpisodeSeeds


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


def begin(environment: Environment, seeds: EpisodeSeeds | int = 3, episodes: Any = 0) -> AgentBatch:
    """Reset the environments, all to one episode or each to its own."""
    first = np.broadcast_to(np.asarray(episodes, np.int64), environment.num_envs).copy()
    (batch,) = environment.reset(EpisodeSeeds(seeds) if isinstance(seeds, int) else seeds, first).values()
    return batch


def act(environment: Environment, choices: Any = 0, steps: int = 1) -> AgentBatch:
    """Step with these discrete choices: one for all, one for each environment, or [S, branches]."""
    ((name, spec),) = environment.behaviors.items()
    chosen = np.asarray(choices, np.int64)
    rows = np.broadcast_to(chosen if chosen.ndim == 2 else chosen.reshape(-1, 1), (spec.slots, len(spec.discrete)))
    for _ in range(steps):
        batch = environment.step({name: Actions(discrete=rows.copy())})[name]
    return batch
