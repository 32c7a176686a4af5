"""Reward providers: what an agent is rewarded for. The environment's own reward is one of them (``extrinsic``)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import Actions
from rlcore.errors import PluginError


@attrs.define(eq=False)
class Transitions:
    """Transitions to be rewarded. Leading shape ``*L`` is [T, S] for a rollout and [B] for a minibatch.

    Valid only during the call of ``evaluate`` or ``update``: copy the arrays that the provider keeps.

    Attributes:
        observations: The observations before the actions by name, each [*L, *shape].
        actions: The actions in the environment's units, each array [*L, columns].
        reward: [*L] the environment's reward of each agent.
        terminated: [*L] the episode ended with this transition, by the task's own rule.
        truncated: [*L] the episode was cut off after this transition.
        group_reward: [*L] the environment's reward of each agent's group; None: no rewards are shared.
        following: Makes ``next_observations``, each [*L, *shape], when asked; None if the trainer provides none.
    """

    observations: Mapping[str, NDArray[Any]]
    actions: Actions
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    group_reward: NDArray[np.float32] | None = None
    following: Callable[[], Mapping[str, NDArray[Any]]] | None = None

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
    """Gives transitions a reward. A trainer keeps one value head for each provider.

    PyTorch records no gradients during ``evaluate`` (``torch.no_grad``) and records them during ``update``
    (``torch.enable_grad``), so a provider written in PyTorch needs neither. The templates of ``rlcore_torch`` set this
    mode; another trainer sets it with :func:`recording_gradients`.

    Attributes:
        name: The key under ``reward_signals``.
        gamma: Discount factor of this reward, in [0, 1].
        strength: Factor on this reward.
        ignore_done: Whether the value of this reward continues past the end of an episode, with the first observation
            of the next one, as for curiosity and RND.
    """

    name: str
    gamma: float
    strength: float
    ignore_done: bool

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        """Return the reward of each transition, [*L], before ``strength`` is applied. Must be finite."""

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        """Learn from what was collected; return scalars by tag, such as ``Losses/Curiosity Loss``, for the summary.

        An on-policy trainer calls it once for each of its updates, with the whole rollout. An off-policy trainer calls
        it with one minibatch for every ``reward_signal_steps_per_update`` agent steps, an offline trainer with one
        minibatch for each of its updates.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return all that the provider has learned: nested mappings of numpy arrays and JSON values."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, if the state does not fit."""


def recording_gradients(enabled: bool) -> AbstractContextManager[Any]:
    """Set whether PyTorch records gradients within a ``with`` block. Does nothing if PyTorch is not imported.

    A trainer calls ``evaluate`` of a provider in ``recording_gradients(False)`` and ``update`` in
    ``recording_gradients(True)``.
    """
    torch = sys.modules.get("torch")  # a provider that needs it has imported it
    if torch is None:
        return nullcontext()
    mode: AbstractContextManager[Any] = torch.set_grad_enabled(enabled)
    return mode


class AbsentReward:
    """Stands for a reward whose plugin is absent while policies are measured: a trainer has a value head for it.

    Attributes:
        name: The key under ``reward_signals``.
        gamma: Discount factor of the reward.
        strength: Factor on the reward.
        ignore_done: False: the value ends with the episode.
    """

    ignore_done = False

    def __init__(self, name: str, gamma: float, strength: float) -> None:
        self.name = name
        self.gamma = gamma
        self.strength = strength

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        """Raise PluginError: the rewards [*L] cannot be computed."""
        raise self._absent()

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        """Raise PluginError: the reward cannot learn."""
        raise self._absent()

    def state_dict(self) -> dict[str, Any]:
        """Raise PluginError: the state of the reward is unknown."""
        raise self._absent()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raise PluginError: the state of the reward cannot be used."""
        raise self._absent()

    def _absent(self) -> PluginError:
        return PluginError(f"reward {self.name!r}: its plugin is absent; install it or turn it on")
