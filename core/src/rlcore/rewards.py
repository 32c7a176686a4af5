"""Reward providers: what an agent is rewarded for. The environment's own reward is one of them (``extrinsic``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.environment import Actions
from rlcore.errors import PluginError


@attrs.define(eq=False)
class Transitions:
    """Transitions to be rewarded. Leading shape ``*L`` is [T, S] for a rollout and [B] for a minibatch."""

    observations: Mapping[str, NDArray[Any]]  # each [*L, *shape]
    actions: Actions  # each [*L, columns]
    reward: NDArray[np.float32]  # [*L] from the environment
    terminated: NDArray[np.bool_]  # [*L]
    truncated: NDArray[np.bool_]  # [*L]
    group_reward: NDArray[np.float32] | None = None  # [*L]
    following: Callable[[], Mapping[str, NDArray[Any]]] | None = None  # makes next_observations when asked

    @property
    def next_observations(self) -> Mapping[str, NDArray[Any]]:
        """The next observations, each [*L, *shape]: the final observation if the episode ended.

        Put together at each call: only providers that need it pay for it. Raises ValueError if the trainer has none.
        """
        if self.following is None:
            raise ValueError("this trainer does not provide next observations to reward providers")
        return self.following()


@runtime_checkable
class RewardProvider(Protocol):
    """Gives transitions a reward. A trainer keeps one value head for each provider."""

    name: str
    gamma: float  # discount factor of this reward, in [0, 1]
    strength: float  # factor on this reward
    ignore_done: bool  # True: its value continues past the end of an episode (curiosity, RND)

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        """Rewards of shape [*L], before ``strength`` is applied."""
        ...

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        """Learns from what was collected; returns scalars by tag. Called once per update of the trainer."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Nested mappings of numpy arrays and JSON values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class AbsentReward:
    """Stands for a reward whose plugin is absent while policies are measured: a trainer has a value head for it."""

    ignore_done = False

    def __init__(self, name: str, gamma: float, strength: float) -> None:
        self.name = name
        self.gamma = gamma
        self.strength = strength

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        """Raises PluginError: the reward cannot be computed."""
        raise self._absent()

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        """Raises PluginError: the reward cannot learn."""
        raise self._absent()

    def state_dict(self) -> dict[str, Any]:
        """Raises PluginError: the state of the reward is unknown."""
        raise self._absent()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises PluginError: the state of the reward cannot be used."""
        raise self._absent()

    def _absent(self) -> PluginError:
        return PluginError(f"reward {self.name!r}: its plugin is absent; install it or turn it on")


class ExtrinsicReward:
    """The environment's reward, plus the reward of the agent's group (ML-Agents' ``extrinsic`` signal)."""

    name = "extrinsic"
    ignore_done = False

    def __init__(self, gamma: float = 0.99, strength: float = 1.0) -> None:
        self.gamma = gamma
        self.strength = strength

    @classmethod
    def create(cls, settings: Any, behavior: Any, run: Any) -> ExtrinsicReward:
        return cls(gamma=settings.gamma, strength=settings.strength)

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        if transitions.group_reward is None:
            return transitions.reward
        return transitions.reward + transitions.group_reward

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        return None
