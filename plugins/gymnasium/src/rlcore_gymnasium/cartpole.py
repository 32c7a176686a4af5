"""Gymnasium's vectorised CartPole, made to reset in the step in which an episode ends.

Upstream it resets one step later and ignores an action for it. Here the rows that ended are drawn anew at once, from
the same generator and bounds, so no step is wasted and every row acts at every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.environment import AgentBatch
from rlcore.seeding import generator_state, restore_generator
from rlcore.spaces import OBSERVATION
from rlcore_gymnasium.native import NativeEnvironment


class PushLeftOrRight:
    """Stands in for the action space, whose own check takes a sixth of upstream's step."""

    def contains(self, action: NDArray[np.int64]) -> bool:
        return not (action >> 1).any()  # anything but 0 and 1, negative numbers too, leaves a bit


class CartPoleEnvironment(NativeEnvironment):
    """Same-step CartPole that can also save and restore where it is."""

    vector: Any  # a CartPoleVectorEnv, whose annotations say that its state is None

    def __init__(self, env_id: str, behavior: str, vector: Any) -> None:
        super().__init__(env_id, behavior, vector)
        vector.action_space = PushLeftOrRight()

    def _step(self, action: Any) -> AgentBatch:
        vector = self.vector
        observations, self._reward, terminated, truncated, _ = vector.step(action)
        # prev_done is what the environment would reset at its next step; cleared, it never does so itself.
        ended = vector.prev_done.nonzero()[0]
        final: dict[str, NDArray[Any]] | None = None
        if ended.size:
            truncated &= ~terminated
            final = {OBSERVATION: observations[ended]}
            state = vector.np_random.uniform(low=vector.low, high=vector.high, size=(4, len(ended)))
            vector.state[:, ended] = state
            vector.steps[ended] = 0
            vector.prev_done[ended] = False
            observations[ended] = state.T
            self.episodes[ended] += 1
        return AgentBatch({OBSERVATION: observations}, self._reward, terminated, truncated, ended, final)

    def state_dict(self) -> dict[str, Any]:
        vector = self.vector
        return {
            "episodes": self.episodes.copy(),
            "state": vector.state.copy(),  # [4, N] float64
            "steps": vector.steps.copy(),
            "generator": generator_state(vector.np_random),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        self.vector.reset(seed=0)  # makes the arrays; the seed is overwritten below
        self.episodes = np.array(state["episodes"], np.int64)
        self.vector.state = np.array(state["state"], np.float64)
        self.vector.steps = np.array(state["steps"], np.int32)
        restore_generator(self.vector.np_random, state["generator"])
        self._reward = np.zeros(self.num_envs, np.float32)
        return self._first_batch({OBSERVATION: self.vector.state.T.astype(np.float32)})
