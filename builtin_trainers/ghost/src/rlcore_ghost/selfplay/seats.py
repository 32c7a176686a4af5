"""The rows of the inner trainer: which agent sits in each of them.

The inner trainer has R rows, enough for one team of every environment: a *seat* for each agent of the largest team.
Whoever learns sits in a seat, and the seat's row goes from one episode to the next as the rows of any trainer do, also
if another agent has taken the seat in between. A seat that is empty waits: its row needs no action.

Shapes: S slots of the behavior, R seats, N environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, BehaviorSpec, SavedValueError, saved_array

__all__ = ["Seats", "copy_actions"]

Slots = NDArray[np.int64]


class Seats:
    """R seats, and the slots that sit in them.

    Attributes:
        row_of: [S] the seat that each slot may take.
        slot: [R] the slot in each seat; in an empty one, a slot whose observations fill the row.
        taken: [R] whether a slot sits there.
    """

    def __init__(self, behavior: BehaviorSpec, for_all: bool) -> None:
        """A seat for every slot if ``for_all``, else as many in each environment as its largest team has agents."""
        order: Slots = np.arange(behavior.slots)
        if for_all:
            self.row_of: Slots = order
        else:
            assert behavior.team is not None
            self.row_of, size = _rows_by_team(behavior)
            order = np.lexsort((behavior.team, -size))  # the largest team has all rows of its environment
        seats = int(self.row_of.max()) + 1
        _, first = np.unique(self.row_of[order], return_index=True)
        self._default: Slots = order[first]  # [R]
        self.slot = self._default.copy()
        self.taken = np.zeros(seats, np.bool_)

    def behavior(self, behavior: BehaviorSpec) -> BehaviorSpec:
        """The behavior of the inner trainer, with R slots: those of the largest team of each environment."""
        return behavior.take(self._default)

    def leave(self, slots: Slots) -> None:
        """Empty the seats of those of these ``slots`` [K] that sit."""
        rows = self.row_of[slots]
        left = rows[self.taken[rows] & (self.slot[rows] == slots)]
        self.taken[left] = False
        self.slot[left] = self._default[left]

    def sit(self, slots: Slots) -> NDArray[np.bool_]:
        """Seat these ``slots`` [K], which want no seat twice, where the seat is free. Returns who sits now, [K]."""
        rows = self.row_of[slots]
        free = ~self.taken[rows]
        self.slot[rows[free]] = slots[free]
        self.taken[rows[free]] = True
        return free

    def copy(self) -> tuple[Slots, NDArray[np.bool_]]:
        """``slot`` and ``taken`` as they are."""
        return self.slot.copy(), self.taken.copy()

    # ------------------------------------------------------------ what the inner trainer sees

    def batch(self, batch: AgentBatch, before: tuple[Slots, NDArray[np.bool_]] | None = None) -> AgentBatch:
        """The batch of the R rows.

        ``before`` are ``slot`` and ``taken`` as they were during the step, if they have changed since: rewards and ends
        are those of the slots that sat there, observations those of the slots that sit there now.
        """
        if before is None and batch.aborted is None and self.taken.all():
            return batch.take(self.slot)
        sat, was_taken = (self.slot, self.taken) if before is None else before
        seated = np.zeros(len(batch.reward), np.bool_)  # [S]
        seated[sat[was_taken]] = True
        shared = batch.group_reward
        aborted = batch.aborted
        received = attrs.evolve(
            batch,
            reward=np.where(seated, batch.reward, np.float32(0)),
            terminated=batch.terminated & seated,
            truncated=batch.truncated & seated,
            group_reward=None if shared is None else np.where(seated, shared, np.float32(0)),
            aborted=None if aborted is None else aborted & seated,
        ).take(sat)
        seen = batch.take(self.slot)
        needs_action = None
        if seen.needs_action is not None:
            needs_action = self.taken & seen.needs_action
        elif not (self.taken.all() and was_taken.all()):
            needs_action = self.taken.copy()
        return attrs.evolve(
            received, observations=seen.observations, action_mask=seen.action_mask, needs_action=needs_action
        )

    def place(self, actions: Actions, into: Actions) -> None:
        """Copy the ``actions`` of the R rows to the slots that sit there, in ``into`` [S]."""
        taken = slice(None) if self.taken.all() else self.taken
        copy_actions(actions, self.slot[taken], into, taken)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The slots in the seats; -1 in an empty one."""
        return {"seats": np.where(self.taken, self.slot, -1)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises SavedValueError, changing nothing, if it does not fit."""
        seats = saved_array(state, "seats", np.int64, (None,))
        if seats.shape != self.slot.shape:
            raise SavedValueError(
                f"the run learned from {len(seats)} agents at a time, this configuration from {len(self.slot)}; resume "
                "with the learn_from that it had"
            )
        taken = seats >= 0
        if (seats >= len(self.row_of)).any() or (self.row_of[seats[taken]] != np.flatnonzero(taken)).any():
            raise SavedValueError("the entry 'seats' has agents in seats that are not theirs")
        self.taken[:] = taken
        self.slot[:] = np.where(taken, seats, self._default)


def copy_actions(actions: Actions, slots: Slots, into: Actions, rows: Any = slice(None)) -> None:
    """Copy these ``rows`` of ``actions`` to the ``slots`` of ``into``."""
    for part, whole in ((actions.continuous, into.continuous), (actions.discrete, into.discrete)):
        if part is not None and whole is not None:
            whole[slots] = part[rows]


def _rows_by_team(behavior: BehaviorSpec) -> tuple[Slots, Slots]:
    """Row [S] of each slot, and the size [S] of its team in its environment.

    The agents of one environment and team have different rows, those of two teams may have the same.
    """
    assert behavior.team is not None
    pairs = np.stack([behavior.env_index, behavior.team], axis=1)
    _, pair = np.unique(pairs, axis=0, return_inverse=True)
    pair = pair.reshape(-1)
    order = np.argsort(pair, kind="stable")
    starts = np.searchsorted(pair[order], np.arange(pair.max() + 1))
    rank = np.empty(len(pair), np.int64)  # among the agents of the same environment and team, in the order of slots
    rank[order] = np.arange(len(pair)) - starts[pair[order]]
    envs, env = np.unique(behavior.env_index, return_inverse=True)
    sizes = np.zeros(len(envs), np.int64)  # agents of the largest team of each environment
    np.maximum.at(sizes, env.reshape(-1), rank + 1)
    rows: Slots = (np.cumsum(sizes) - sizes)[env.reshape(-1)] + rank
    return rows, np.bincount(pair)[pair]
