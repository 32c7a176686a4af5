"""Agent steps of all ranks, counted with few exchanges."""

from __future__ import annotations

import attrs

from rlcore import Ranks

__all__ = ["StepCount"]


@attrs.define
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

    _ranks: Ranks
    _slots: int  # of all ranks
    steps: int = attrs.field(default=0, init=False)
    exact_from: int = attrs.field(default=0, init=False)
    uncounted: int = attrs.field(default=0, init=False)
    _possible: int = attrs.field(default=0, init=False)  # agent steps of all ranks that may not be in `steps`, at most

    def add(self, closed: int, needed_from: int) -> None:
        """Count the transitions that ``closed`` in a step of this rank's environments. All ranks call it in each step.

        ``steps`` are exact afterwards if they have reached ``needed_from``, which is equal in all ranks.
        """
        if self._ranks.size == 1:
            self.steps += closed
            return
        self.uncounted += closed
        self._possible += self._slots
        # All ranks know the same numbers here, so that all of them exchange or none does.
        if self.steps + self._possible >= min(needed_from, self.exact_from):
            total = self._ranks.total(self.uncounted)
            self.counted(total)

    def counted(self, total: int) -> None:
        """Make ``steps`` exact: ``total`` is the sum of ``uncounted`` over all ranks."""
        self.steps += total
        self.uncounted = 0
        self._possible = 0
