"""Games in environments that hold several of them, where nothing tells one game from another.

Such an environment has :attr:`BehaviorSpec.many_games`: a Unity player with eight fields, whose agents end and begin
episodes field by field. Its games are known by their *sides*. A side is the agents of one group, or one agent in no
group. Its game is over when none of its agents is left, and agents that ended before are not asked for the result.
What ML-Agents rates is the same: each trajectory of the learning team that ends together with its group.

The other sides of a game began in the same step of the environment. They act with the policies that were drawn for that
step, which is how the opponents of a side are known.

Shapes: S slots of the behavior, T teams, K slots whose episodes ended, M sides whose games ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from rlcore import BehaviorSpec, fill, saved_bool
from rlcore_ghost.arrays import Bools, Floats, Ints

__all__ = ["FinishedSides", "Sides", "sides_of"]

ARRAYS = ("there", "rated", "opponents")  # attributes of the state


@attrs.frozen(eq=False)
class FinishedSides:
    """The sides of learning policies whose games ended in a step.

    Attributes:
        slot: [M] a slot of each.
        value: [M] its result: the mean over those of its agents that ended last and have a number.
        void: [M] whether the game is not to be rated.
        opponents: [M, T] players of the teams, indices in the match log; that of the own team is not meant.
    """

    slot: Ints
    value: Floats
    void: Bools
    opponents: Ints


def sides_of(behavior: BehaviorSpec) -> Ints:
    """Return the number of the side [S] of each slot, from 0; agents without a team are in team 0."""
    slots = behavior.slots
    alone = -1 - np.arange(slots)  # a number of its own for each agent in no group
    group = alone
    if behavior.group is not None:
        group = np.asarray(behavior.group, np.int64)
        group = np.where(group < 0, alone, group)
    team = behavior.team
    if team is None:
        team = np.zeros(slots, np.int64)
    keys = np.stack([behavior.env_index, team, group], axis=1)
    _, sides = np.unique(keys, axis=0, return_inverse=True)
    numbers: Ints = sides.reshape(-1)  # one dimension in every version of numpy
    return numbers


class Sides:
    """The sides of one behavior.

    Attributes:
        there: [S] whether the slot has an agent that has acted in its episode.
        rated: [S] whether the open episode counts: its agent was of the learning team when it began, and learns.
        opponents: [S, T] the player of each team in games that began with the episode.
    """

    def __init__(self, behavior: BehaviorSpec, teams: int) -> None:
        slots = behavior.slots
        self._side = sides_of(behavior)  # [S]
        self._sides = int(self._side.max()) + 1
        self.there = np.zeros(slots, np.bool_)
        self.rated = np.zeros(slots, np.bool_)
        self.opponents = np.zeros((slots, teams), np.int64)
        self._all_begin = False  # since no agent has acted

    def reset(self) -> None:
        """All episodes begin. The opponents are known when all behaviors have begun theirs, at the first action."""
        self.there[:] = False
        self._all_begin = True

    def act(self, slots: Bools | slice, opponents: Callable[[], Ints]) -> None:
        """The agents of these slots act; ``opponents`` returns [S, T] who plays in games that begin now."""
        if self._all_begin:
            self._all_begin = False
            self.opponents[:] = opponents()
        self.there[slots] = True

    def begin(self, slots: Ints, rated: Bools, opponents: Ints) -> None:
        """Episodes begin in these ``slots`` [K]."""
        self.rated[slots] = rated
        self.opponents[slots] = opponents

    def end(self, slots: Ints, value: Floats, void: Bools) -> FinishedSides:
        """The episodes of these ``slots`` [K] ended, with these results, NaN for none; return the sides that are over.

        ``void`` are episodes that are not to be rated.
        """
        self.there[slots] = False
        agents = np.bincount(self._side, self.there, self._sides)  # that are left, of each side
        # As ML-Agents: a trajectory counts when all of its group are done.
        side_is_over = agents[self._side[slots]] == 0
        last = self.rated[slots] & side_is_over
        slots = slots[last]
        _, first, side = np.unique(self._side[slots], return_index=True, return_inverse=True)
        side = side.reshape(-1)
        count = len(first)
        value = value[last]
        known = ~np.isnan(value)
        values = np.bincount(side[known], minlength=count)
        total = np.bincount(side[known], value[known], count)
        mean = total / np.maximum(values, 1)
        any_void = np.bincount(side, void[last], count) > 0
        unknown = values == 0
        a_slot = slots[first]
        return FinishedSides(a_slot, mean, any_void | unknown, self.opponents[a_slot])

    def state_dict(self) -> dict[str, Any]:
        """Who is there, and against whom."""
        arrays = {name: getattr(self, name).copy() for name in ARRAYS}
        return {**arrays, "all_begin": self._all_begin}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises SavedValueError if it does not fit."""
        for name in ARRAYS:
            fill(getattr(self, name), state, name)
        self._all_begin = saved_bool(state, "all_begin")
