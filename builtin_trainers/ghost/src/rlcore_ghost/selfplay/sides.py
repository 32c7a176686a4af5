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
from numpy.typing import NDArray

from rlcore import BehaviorSpec, fill, saved_bool

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

    slot: NDArray[np.intp]
    value: NDArray[np.float64]
    void: NDArray[np.bool_]
    opponents: NDArray[np.int64]


def sides_of(behavior: BehaviorSpec) -> NDArray[np.int64]:
    """Return the number of the side [S] of each slot, from 0; agents without a team are in team 0."""
    slots = behavior.slots
    alone = -1 - np.arange(slots)
    group = alone if behavior.group is None else np.asarray(behavior.group, np.int64)
    team = np.zeros(slots, np.int64) if behavior.team is None else behavior.team
    keys = np.stack([behavior.env_index, team, np.where(group < 0, alone, group)], axis=1)
    sides: NDArray[np.int64] = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    return sides


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

    def act(self, slots: NDArray[np.bool_] | slice, opponents: Callable[[], NDArray[np.int64]]) -> None:
        """The agents of these slots act; ``opponents`` returns [S, T] who plays in games that begin now."""
        if self._all_begin:
            self._all_begin = False
            self.opponents[:] = opponents()
        self.there[slots] = True

    def begin(self, slots: NDArray[np.intp], rated: NDArray[np.bool_], opponents: NDArray[np.int64]) -> None:
        """Episodes begin in these ``slots`` [K]."""
        self.rated[slots] = rated
        self.opponents[slots] = opponents

    def end(self, slots: NDArray[np.intp], value: NDArray[np.float64], void: NDArray[np.bool_]) -> FinishedSides:
        """The episodes of these ``slots`` [K] ended, with these results, NaN for none; return the sides that are over.

        ``void`` are episodes that are not to be rated.
        """
        self.there[slots] = False
        left = np.bincount(self._side, self.there, self._sides)
        last = self.rated[slots] & (left[self._side[slots]] == 0)
        slots = slots[last]
        value = value[last]
        void = void[last]
        _, first, side = np.unique(self._side[slots], return_index=True, return_inverse=True)
        side = side.reshape(-1)
        count = len(first)
        number = ~np.isnan(value)
        numbers = np.bincount(side[number], minlength=count)
        total = np.bincount(side[number], value[number], count)
        mean = np.divide(total, numbers, out=np.zeros(count), where=numbers > 0)
        unknown = (np.bincount(side, void, count) > 0) | (numbers == 0)
        return FinishedSides(slots[first], mean, unknown, self.opponents[slots[first]])

    def state_dict(self) -> dict[str, Any]:
        """Who is there, and against whom."""
        return {**{name: getattr(self, name).copy() for name in ARRAYS}, "all_begin": self._all_begin}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises SavedValueError if it does not fit."""
        for name in ARRAYS:
            fill(getattr(self, name), state, name)
        self._all_begin = saved_bool(state, "all_begin")
