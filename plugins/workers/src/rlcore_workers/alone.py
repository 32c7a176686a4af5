"""Measures how long steps of workers take one after the other; beside each other they share caches and memory."""

from __future__ import annotations

SKIPPED = 10  # steps of a run before the first one that is measured
MEASURED = 50  # steps of either kind
LONGEST = 0.02  # seconds of all workers in a step; longer ones are not made one after the other, which would take long


class StepsAlone:
    """Chooses some of the first steps of a run, which workers make one after the other, and compares them.

    Every second step of those is measured as it is. Batches are the same either way.

    Attributes:
        due: Whether steps are still chosen.
    """

    def __init__(self) -> None:
        self.due = True
        self._step = 0
        self._busy = 0.0  # seconds of all workers before the latest step
        self._seconds = [0.0, 0.0]  # beside each other, one after the other

    def is_next(self, busy: float) -> bool:
        """Whether the next step is made by one worker after the other.

        ``busy`` are the seconds that all workers together have spent in steps so far; 0 if that is unknown.
        """
        took = busy - self._busy  # the seconds of the latest step
        self._busy = busy
        if self._is_measured():
            self._seconds[self._step % 2] += took
        self._step += 1
        self.due = self._step - SKIPPED <= 2 * MEASURED
        # Every second one, so that both kinds see the same part of the run.
        return self._is_measured() and self._step % 2 == 1 and 0.0 < took < LONGEST

    def _is_measured(self) -> bool:
        return 0 < self._step - SKIPPED <= 2 * MEASURED

    @property
    def share(self) -> float:
        """Seconds of a step one after the other, in those of a step beside each other; 1 if that is unknown."""
        together, alone = self._seconds
        return min(1.0, alone / together) if together and alone else 1.0
