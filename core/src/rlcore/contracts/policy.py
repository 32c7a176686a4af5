"""Policies: what acts without learning, and what agents remember.

Trainers hand them out; evaluation, inference, self-play and exporters use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import Actions, AgentBatch
from rlcore.contracts.saved_values import fill, saved_count
from rlcore.contracts.seeding import derive_seed


@runtime_checkable
class Policy(Protocol):
    """The policy that evaluation, inference and exporters use. Calling it changes no state of the trainer."""

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> Actions:
        """Return actions for R rows of observations, each [R, *shape], in the environment's units.

        ``action_mask`` [R, mask_size] is True for allowed options; None allows all. ``deterministic`` takes the mean of
        continuous parts and the most likely option of each branch; otherwise the policy samples from a generator of its
        own, seeded by :meth:`seed`.
        """
        ...

    def seed(self, seed: int) -> None:
        """Seed the generator that stochastic actions are drawn from."""
        ...


@runtime_checkable
class MemoryPolicy(Policy, Protocol):
    """A policy with memory, such as a recurrent network: its actions depend on the earlier steps of an episode.

    The caller keeps the memory, [R, memory_size] for R rows, so that rows can be joined, split and copied. A row is
    zero where an episode begins. :class:`Player` keeps the memory of an environment's agents.

    Attributes:
        memory_size: M, the numbers that a row remembers; a policy with 0 is called without memory.
    """

    memory_size: int

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
        memory: NDArray[np.float32] | None = None,
    ) -> Actions:
        """Actions as of :meth:`Policy.act`. ``memory`` [R, M] is read, and overwritten by what the rows remember next.

        Without ``memory``, an episode begins in every row.
        """
        ...


@runtime_checkable
class Snapshot(Policy, Protocol):
    """A policy that does not change any more: training goes on without it. Several may be alive at once."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that the policy computes with: nested mappings of numpy arrays and JSON values."""
        ...


class Player:
    """Plays for the agents of a behavior with a policy that does not learn, and keeps what they remember.

    Attributes:
        policy: The policy that acts.
        memory: [S, M] what the agents remember; None for a policy without memory.
    """

    def __init__(self, policy: Policy, slots: int, seed: int | None = None) -> None:
        """Begin an episode in all ``slots``, the number of slots of the behavior.

        With ``seed``, actions that are drawn depend on it and the number of the step, so that a player that continues
        from :meth:`state_dict` draws the same ones. Without it, the caller seeds the policy.
        """
        self.policy = policy
        self.steps = 0  # calls of `act`
        self._seed = seed
        size = getattr(policy, "memory_size", 0)
        self.memory = np.zeros((slots, size), np.float32) if size else None  # [S, M]

    def act(self, batch: AgentBatch, deterministic: bool = True) -> Actions:
        """Actions of all slots. Slots that need no action remember what they did before."""
        if self._seed is not None and not deterministic:
            self.policy.seed(derive_seed(self._seed, "step", self.steps))
        self.steps += 1
        if self.memory is None:
            return self.policy.act(batch.observations, batch.action_mask, deterministic)
        idle = None if batch.needs_action is None else ~batch.needs_action
        kept = None if idle is None else self.memory[idle]
        policy = cast(MemoryPolicy, self.policy)
        actions = policy.act(batch.observations, batch.action_mask, deterministic, self.memory)
        if idle is not None:
            self.memory[idle] = kept
        return actions

    def observe(self, batch: AgentBatch) -> None:
        """Forget in the slots whose episode ended, or whose environment was lost, in the step that led to ``batch``."""
        if self.memory is not None:
            self.memory[batch.ended] = 0.0
            if batch.aborted is not None:
                self.memory[batch.aborted] = 0.0

    def begin(self) -> None:
        """Begin an episode in all slots: the environment was reset."""
        if self.memory is not None:
            self.memory[:] = 0.0

    def state_dict(self) -> dict[str, Any]:
        """The number of steps, and what the agents remember. The policy is not part of it."""
        return {"steps": self.steps, **({} if self.memory is None else {"memory": self.memory.copy()})}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, if the state does not fit."""
        steps = saved_count(state, "steps")
        if self.memory is not None:
            fill(self.memory, state, "memory")
        self.steps = steps
