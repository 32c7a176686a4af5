"""The rules of schedules, see :class:`rlcore_torch.ScheduleSpec`, as tests for authors of schedules to inherit.

::

    class TestMySchedule(ScheduleConformance):
        schedule = "acme-adamw/warm-up-cosine"
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import ClassVar

import numpy as np

from rlcore_devkit.conformance.rules import RecordRules
from rlcore_devkit.conformance.states import global_generators
from rlcore_torch import ScheduleSpec

# With the numbers next to both ends, at which logarithms and powers of progress may not be finite.
PROGRESS = [0.0, 5e-324, *(step / 997 for step in range(1, 997)), 1.0 - 2.0**-53, 1.0]


class ScheduleConformance(RecordRules):
    """Tests of schedules: set ``schedule``.

    Attributes:
        schedule: The schedule, NAME or DIST/NAME, as installed.
        skip: Names of tests that cannot hold, with the reason.
    """

    record_class = ScheduleSpec
    named = "schedule"
    schedule: ClassVar[str] = ""

    def make(self) -> Callable[[float], float]:
        """Return the function from progress to the share of the way to the final value."""
        target: Callable[[float], float] = self.record().resolve()
        return target

    def test_shares_are_numbers_from_0_to_1(self) -> None:
        """At the first step, at the last one, and next to them too."""
        share = self.make()
        for progress in PROGRESS:
            value = share(progress)
            assert isinstance(value, int | float | np.floating), f"{value!r} at progress {progress:g}"
            assert isfinite(value) and -1e-9 <= value <= 1.0 + 1e-9, f"{value:g} at progress {progress:g}"

    def test_a_share_depends_on_the_progress_alone(self) -> None:
        """A resumed run calls the schedule at later progress first, and evaluations call it in between."""
        share = self.make()
        forward = [share(progress) for progress in PROGRESS]
        state = global_generators()
        backward = [share(progress) for progress in reversed(PROGRESS)]
        assert forward == backward[::-1], "equal progress gave different shares"
        after = global_generators()
        assert state == after, "a schedule must not draw random numbers"
