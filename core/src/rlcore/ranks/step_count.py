"""Counts the agent steps of all ranks, and finds agents that take none, with few exchanges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.saved_values import saved_array, saved_count
from rlcore.ranks.ranks import Ranks

__all__ = ["IdleGroups", "StepCount"]


class StepCount:
    """The agent steps of a trainer, in all ranks.

    In several ranks, ``steps`` may lag behind what was counted: ranks exchange their counts where the sum may have
    reached a step from which it is needed. A slot closes at most one transition in a step of the environments, so
    that every rank knows, without an exchange, how many steps there may be at most. If all slots act in every step,
    there is one exchange for each such step; otherwise the distance to it shrinks with each exchange.

    Attributes:
        steps: Agent steps of all ranks that the ranks know of.
        exact_from: ``steps`` are exact whenever they have reached this many. The run sets it to its next boundary; 0,
            until it does, makes them exact in every step.
        uncounted: Agent steps of this rank that are not in ``steps`` yet.
    """

    def __init__(self, ranks: Ranks, slots: int) -> None:
        """``slots`` are those of all ranks."""
        self.steps = 0
        self.exact_from = 0
        self.uncounted = 0
        self._ranks = ranks
        self._slots = slots
        self._possible = 0  # agent steps of all ranks that may not be in `steps` yet, at most

    def add(self, closed: int, needed_from: int) -> None:
        """Count the transitions that ``closed`` in a step of this rank's environments. All ranks call it in each step.

        ``steps`` are exact afterwards if they have reached ``needed_from``, which is equal in all ranks.
        """
        if self._ranks.size == 1:
            self.steps += closed
            return
        self.uncounted += closed
        self._possible += self._slots
        if self.steps + self._possible >= min(needed_from, self.exact_from):
            self.counted(int(self._ranks.sum(np.array([self.uncounted]))[0]))

    def counted(self, total: int) -> None:
        """Make ``steps`` exact: ``total`` is the sum of ``uncounted`` over all ranks."""
        self.steps += total
        self.uncounted = self._possible = 0


class IdleGroups:
    """Finds out which of G groups of agents do not act.

    After every ``window`` steps of the environments, a group is idle if none of its agents, in any rank, acted in
    these steps. It is idle until it was found to act.

    Attributes:
        window: Steps of the environments between two looks.
        idle: [G] whether each group is idle; equal in all ranks.
        acted: [G] whether an agent of each group acted, in this rank, since the last look. The user sets it.
    """

    window = 10_000

    def __init__(self, ranks: Ranks, groups: int) -> None:
        self.idle: NDArray[np.bool_] = np.zeros(groups, np.bool_)
        self.acted: NDArray[np.bool_] = np.zeros(groups, np.bool_)
        self._ranks = ranks
        self._steps = 0  # since the groups were looked at

    def after_step(self) -> bool:
        """Count a step of the environments; all ranks call it in each. Returns whether the groups were looked at."""
        self._steps += 1
        if self._steps < self.window:
            return False
        self._steps = 0
        self.idle = self._ranks.sum(self.acted.astype(np.int64)) == 0
        self.acted[:] = False
        return True

    def state_dict(self) -> dict[str, Any]:
        """The groups that are idle, and what was seen since they were looked at."""
        return {"idle": self.idle.copy(), "acted": self.acted.copy(), "steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state of an object with as many groups. Raises SavedValueError if it does not fit."""
        idle, acted = (saved_array(state, name, np.bool_, self.idle.shape).copy() for name in ("idle", "acted"))
        self._steps = saved_count(state, "steps")
        self.idle, self.acted = idle, acted
