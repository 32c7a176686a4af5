"""``hidden_bits:Bits-v0`` and ``hidden_bits:mates``: agents do not see bits on which their reward depends; critics may.

With ``with_state: false`` no critic sees it, as on a robot that is not simulated.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pettingzoo
from gymnasium import spaces

LENGTH = 8


class Bits(gymnasium.Env[Any, Any]):
    """Each step is worth 3 if the hidden bit is set, and 1 more for the action that the agent sees."""

    def __init__(self, with_state: bool = True) -> None:
        box = spaces.Box(-1.0, 1.0, (2,), np.float32)
        parts = {"seen": box, "state": spaces.Box(0.0, 1.0, (1,), np.float32)}
        self.observation_space = spaces.Dict({name: parts[name] for name in parts if name == "seen" or with_state})
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.bit = float(self.np_random.integers(2))
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = 3.0 * self.bit + float(action == self.wanted)
        return self._observe(), reward, False, False, {}

    def _observe(self) -> dict[str, Any]:
        self.wanted = int(self.np_random.integers(2))
        seen = np.array([2.0 * self.wanted - 1.0, self.np_random.uniform(-1.0, 1.0)], np.float32)
        parts = {"seen": seen, "state": np.array([self.bit], np.float32)}
        return {name: parts[name] for name in self.observation_space.spaces}


gymnasium.register("Bits-v0", Bits, max_episode_steps=LENGTH)


class Mates(pettingzoo.ParallelEnv[str, Any, Any]):
    """Two agents, each with a bit of its own that the other does not see. Both get 3 in a step for two equal bits."""

    metadata = {"name": "mates_v0"}
    possible_agents = ("mate_0", "mate_1")
    box = spaces.Box(-1.0, 1.0, (1,), np.float32)
    actions = spaces.Discrete(2)

    def observation_space(self, agent: str) -> Any:
        return self.box

    def action_space(self, agent: str) -> Any:
        return self.actions

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents, self.time = list(self.possible_agents), 0
        self.bits = np.random.default_rng(seed).integers(2, size=2)
        return self._observe(), {}

    def step(self, actions: dict[str, Any]) -> tuple[Any, ...]:
        self.time += 1
        over = self.time == LENGTH
        reward = 3.0 * float(self.bits[0] == self.bits[1])
        seen = self._observe()
        agents = self.agents
        self.agents = [] if over else agents
        flags = dict.fromkeys(agents, over)
        return seen, dict.fromkeys(agents, reward), dict.fromkeys(agents, False), flags, {name: {} for name in agents}

    def _observe(self) -> dict[str, Any]:
        return {name: np.array([2.0 * bit - 1.0], np.float32) for name, bit in zip(self.agents, self.bits, strict=True)}


def mates() -> Mates:
    return Mates()
