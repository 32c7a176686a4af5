"""Reward providers: what an agent is rewarded for. The environment's own reward is one of them (``extrinsic``)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.batches import Actions
from rlcore.errors import PluginError


@attrs.define(eq=False)
class Transitions:
    """Transitions to be rewarded.

    Leading shape ``*L`` is [T, S] for a rollout of T steps in S slots, [N] for one whose agents do not act together,
    and [B] for a minibatch. Valid only during the call of ``evaluate`` or ``update``: copy the arrays that the provider
    keeps.

    Attributes:
        observations: The observations before the actions by name, each [*L, *shape].
        actions: The actions in the environment's units, each array [*L, columns].
        reward: [*L] the environment's reward of each agent.
        terminated: [*L] the episode ended with this transition, by the task's own rule.
        truncated: [*L] the episode was cut off after this transition.
        group_reward: [*L] the environment's reward of each agent's group; None: no rewards are shared.
        following: Makes ``next_observations``, each [*L, *shape], when asked; None if the trainer provides none.
        slot: [N] the slot of each transition, if the transitions of a slot are in the order of time. None for [T, S],
            whose columns are the slots, and for a minibatch, which has no order.
        collecting: Makes ``collected`` for a minibatch when asked; None if the trainer provides none.
    """

    observations: Mapping[str, NDArray[Any]]
    actions: Actions
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    group_reward: NDArray[np.float32] | None = None
    following: Callable[[], Mapping[str, NDArray[Any]]] | None = None
    slot: NDArray[np.int64] | None = None
    collecting: Callable[[], Transitions | None] | None = None

    @property
    def next_observations(self) -> Mapping[str, NDArray[Any]]:
        """The next observations, each [*L, *shape]: the final observation if the episode ended.

        Put together at each call: only providers that need it pay for it. Raises ValueError if the trainer has none.
        """
        if self.following is None:
            raise ValueError("this trainer does not provide next observations to reward providers")
        return self.following()

    @property
    def collected(self) -> Transitions | None:
        """The transitions that were collected since the last update, each once, in the order of time.

        A rollout is what was collected. A minibatch of stored transitions is not: what was collected is beside it, and
        is None if there is nothing new. Statistics of the agents' experience, such as its discounted sums, belong to
        these transitions. Put together at each call. Raises ValueError if the trainer does not provide them.
        """
        if self.collecting is not None:
            return self.collecting()
        if not self._has_order:
            raise ValueError("this trainer does not tell reward providers in which order transitions were collected")
        return self

    def by_time(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield ``(positions, slots)`` of the first transition of each slot, then of the second ones, and so on.

        Both are [K] for the K slots that have as many transitions; positions are among all N transitions, whose leading
        axes are joined. Raises ValueError for transitions without an order.
        """
        if not self._has_order:
            raise ValueError("the transitions of a minibatch have no order; ask for `collected`")
        if self.slot is None:
            steps, width = self.reward.shape
            slots = np.arange(width)
            for step in range(steps):
                yield step * width + slots, slots
            return
        # Stable sorts keep the order of time: first by slot, then by the number of a transition within its slot.
        by_slot = np.argsort(self.slot, kind="stable")
        sorted_slots = self.slot[by_slot]
        first = np.searchsorted(sorted_slots, sorted_slots)  # [N] where the slot of each begins
        number = np.arange(len(by_slot)) - first
        by_number = by_slot[np.argsort(number, kind="stable")]
        ends = np.cumsum(np.bincount(number))
        for positions in np.split(by_number, ends[:-1]):
            yield positions, self.slot[positions]

    @property
    def _has_order(self) -> bool:
        return self.slot is not None or self.reward.ndim == 2


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
        minibatch for each of its updates. ``transitions.collected`` has what is new in the order of time, for each of
        them.
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
