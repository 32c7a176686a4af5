from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rlcore.config import EnvironmentSettings
from rlcore.environment import Environment
from rlcore_gymnasium.environment import make_environment

RECORDER = "rlcore-tests/Recorder-v0"


class Recorder(gymnasium.Env[Any, Any]):
    """Observes samples of its space; ``ends[t]`` is "", "terminated", "truncated", "both" or "raise" at step t."""

    metadata = {"render_modes": []}

    def __init__(
        self,
        observation_space: spaces.Space[Any] | None = None,
        action_space: spaces.Space[Any] | None = None,
        ends: Sequence[str] = ("", "", "terminated"),
        fail_reset_at: int = -1,
        reuse: bool = False,
    ) -> None:
        # Each copy samples from a generator of its own.
        self.observation_space = copy.deepcopy(observation_space or spaces.Box(-1.0, 1.0, (2,), np.float64))
        self.action_space = action_space or spaces.Discrete(2)
        self.ends = ends
        self.fail_reset_at = fail_reset_at
        self.reuse = reuse
        self.seeds: list[int | None] = []
        self.actions: list[Any] = []
        self.steps = 0
        self._array: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        if len(self.seeds) == self.fail_reset_at:
            raise OSError("the port is\nin use")
        self.seeds.append(seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        end = self.ends[self.steps]
        self.steps += 1
        if end == "raise":
            raise ZeroDivisionError("division\nby zero")
        both = end == "both"
        return self._observe(), 0.5 * self.steps, end == "terminated" or both, end == "truncated" or both, {}

    def _observe(self) -> Any:
        observation = self.observation_space.sample()
        if not self.reuse:
            return observation
        if self._array is None:
            self._array = observation
        self._array[...] = observation
        return self._array


@pytest.fixture
def recorder() -> str:
    """The id of :class:`Recorder`, registered."""
    if RECORDER not in gymnasium.registry:
        gymnasium.register(RECORDER, entry_point=Recorder)
    return RECORDER


@pytest.fixture
def make() -> Callable[..., Environment]:
    """``make("CartPole-v1", 2, option=...)``: the environment of a run with the one behavior ``Agent``."""

    def make(env_id: str | None, num_envs: int = 2, names: tuple[str, ...] = ("Agent",), **options: Any) -> Environment:
        run = SimpleNamespace(behavior_names=names, num_envs=num_envs, video=None)
        return make_environment(EnvironmentSettings(id=env_id, options=options), run)

    return make
