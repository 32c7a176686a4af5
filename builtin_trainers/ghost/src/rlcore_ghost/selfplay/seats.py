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

from rlcore import Actions, AgentBatch, BehaviorSpec, SavedValueError, saved_array
from rlcore_ghost.arrays import Bools, Ints

__all__ = ["Seats", "copy_actions"]


WRONG_SEATS = "the entry 'seats' has agents in seats that are not theirs"


class Seats:
    """R seats, and the slots that sit in them.

    Attributes:
        row_of: [S] the seat that each slot may take.
        slot: [R] the slot in each seat; in an empty one, a slot whose observations fill the row.
        occupied: [R] whether a slot sits there.
    """

    def __init__(self, behavior: BehaviorSpec, for_all: bool) -> None:
        """A seat for every slot if ``for_all``, else as many in each environment as its largest team has agents."""
        order: Ints = np.arange(behavior.slots)
        if for_all:
            self.row_of: Ints = order
        else:
            assert behavior.team is not None
            self.row_of, team_size = _rows_by_team(behavior)
            # The largest team first: it has all rows of its environment, and fills those that are empty.
            order = np.lexsort((behavior.team, -team_size))
        seats = int(self.row_of.max()) + 1
        _, first = np.unique(self.row_of[order], return_index=True)
        self._default: Ints = order[first]  # [R]
        self.slot = self._default.copy()
        self.occupied = np.zeros(seats, np.bool_)

    def behavior(self, behavior: BehaviorSpec) -> BehaviorSpec:
        """The behavior of the inner trainer, with R slots: those of the largest team of each environment."""
        return behavior.take(self._default)

    def leave(self, slots: Ints) -> None:
        """Empty the seats of those of these ``slots`` [K] that sit."""
        rows = self.row_of[slots]
        sits = self.occupied[rows] & (self.slot[rows] == slots)
        emptied = rows[sits]
        self.occupied[emptied] = False
        self.slot[emptied] = self._default[emptied]

    def sit(self, slots: Ints) -> Bools:
        """Seat these ``slots`` [K], which want no seat twice, where the seat is free. Returns who sits now, [K]."""
        rows = self.row_of[slots]
        free = ~self.occupied[rows]
        seats = rows[free]
        self.slot[seats] = slots[free]
        self.occupied[seats] = True
        return free

    def copy(self) -> tuple[Ints, Bools]:
        """``slot`` and ``occupied`` as they are."""
        return self.slot.copy(), self.occupied.copy()

    # ------------------------------------------------------------ what the inner trainer sees

    def batch(self, batch: AgentBatch, before: tuple[Ints, Bools] | None = None) -> AgentBatch:
        """The batch of the R rows.

        ``before`` are ``slot`` and ``occupied`` as they were during the step, if they have changed since: rewards and
        ends are those of the slots that sat there, observations those of the slots that sit there now.
        """
        # Nearly all steps, so nothing is masked in them.
        if before is None and batch.aborted is None and self.occupied.all():
            return batch.take(self.slot)
        sat, was_occupied = before or (self.slot, self.occupied)
        slots = len(batch.reward)
        seated = np.zeros(slots, np.bool_)  # [S] who sat during the step
        seated[sat[was_occupied]] = True
        # A seat that was empty has received nothing, though a slot fills its row.
        nothing = np.float32(0)
        group_reward = batch.group_reward
        if group_reward is not None:
            group_reward = np.where(seated, group_reward, nothing)
        aborted = batch.aborted
        if aborted is not None:
            aborted = aborted & seated
        received = attrs.evolve(
            batch,
            reward=np.where(seated, batch.reward, nothing),
            group_reward=group_reward,
            terminated=batch.terminated & seated,
            truncated=batch.truncated & seated,
            aborted=aborted,
        ).take(sat)
        seen = batch.take(self.slot)
        needs_action = None
        if seen.needs_action is not None:
            needs_action = self.occupied & seen.needs_action
        elif not (self.occupied.all() and was_occupied.all()):
            needs_action = self.occupied.copy()
        return attrs.evolve(
            received, observations=seen.observations, action_mask=seen.action_mask, needs_action=needs_action
        )

    def place(self, actions: Actions, into: Actions) -> None:
        """Copy the ``actions`` of the R rows to the slots that sit there, in ``into`` [S]."""
        rows = slice(None) if self.occupied.all() else self.occupied
        copy_actions(actions, self.slot[rows], into, rows)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The slots in the seats; -1 in an empty one."""
        seats = np.where(self.occupied, self.slot, -1)
        return {"seats": seats}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises SavedValueError, changing nothing, if it does not fit."""
        seats = saved_array(state, "seats", np.int64, (None,))
        if seats.shape != self.slot.shape:
            raise SavedValueError(
                f"the run learned from {len(seats)} agents at a time, this configuration from {len(self.slot)}; resume "
                "with the learn_from that it had"
            )
        occupied = seats >= 0
        if (seats >= len(self.row_of)).any():
            raise SavedValueError(WRONG_SEATS)
        rows = self.row_of[seats[occupied]]
        if (rows != np.flatnonzero(occupied)).any():
            raise SavedValueError(WRONG_SEATS)
        self.occupied[:] = occupied
        self.slot[:] = np.where(occupied, seats, self._default)


def copy_actions(actions: Actions, slots: Ints, into: Actions, rows: Any = slice(None)) -> None:
    """Copy these ``rows`` of ``actions`` to the ``slots`` of ``into``."""
    if actions.continuous is not None and into.continuous is not None:
        into.continuous[slots] = actions.continuous[rows]
    if actions.discrete is not None and into.discrete is not None:
        into.discrete[slots] = actions.discrete[rows]


def _rows_by_team(behavior: BehaviorSpec) -> tuple[Ints, Ints]:
    """Row [S] of each slot, and the size [S] of its team in its environment.

    The agents of one environment and team have different rows, those of two teams may have the same.
    """
    assert behavior.team is not None
    pairs = np.stack([behavior.env_index, behavior.team], axis=1)
    _, pair = np.unique(pairs, axis=0, return_inverse=True)
    pair = pair.reshape(-1)  # one dimension in every version of numpy
    team_size = np.bincount(pair)
    first = np.cumsum(team_size) - team_size
    order = np.argsort(pair, kind="stable")
    rank = np.empty(len(pair), np.int64)  # among the agents of the same environment and team, in the order of slots
    place = np.arange(len(pair))  # in that order
    rank[order] = place - first[pair[order]]
    envs, env = np.unique(behavior.env_index, return_inverse=True)
    seats = np.zeros(len(envs), np.int64)  # agents of the largest team of each environment
    np.maximum.at(seats, env, rank + 1)
    first_row = np.cumsum(seats) - seats
    return first_row[env] + rank, team_size[pair]
