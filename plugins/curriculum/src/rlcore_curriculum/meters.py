"""What lessons are judged by: a meter follows one measure from the moment its lesson began.

Only episodes that began in the lesson are counted. They come as plain numbers: a few end in a step, and for so few the
overhead of array operations would be most of the cost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from typing import Any

import numpy as np

from rlcore.saved_values import saved_array, saved_bool, saved_count, saved_entry, saved_float
from rlcore.stats import StatSummary
from rlcore_curriculum.criterion_settings import PROGRESS, CriterionSettings

NEW = 0.75  # the weight of what is new in a smoothed measure: ML-Agents' number


class Meter:
    """One criterion of the lesson that is on: counts episodes, and compares what a subclass measures."""

    def __init__(self, criterion: CriterionSettings) -> None:
        self.criterion = criterion
        self.episodes = 0  # of this lesson, ended
        self._value: float | None = None

    def ended(self, returns: Sequence[float]) -> None:
        """Episodes of this lesson ended, with these returns of what is measured."""
        self.episodes += len(returns)

    def summarised(self, stats: Mapping[str, StatSummary]) -> None:
        """There are new statistics of the behavior."""

    def begin_midway(self) -> None:
        """The lesson began after something that the next summary of the behavior still tells of."""

    def value(self, steps: Mapping[str, int]) -> float | None:
        """The measure; None before there is one. ``steps`` are agent steps by behavior."""
        return self._value

    @property
    def episodes_left(self) -> int:
        """How many must end before a change is possible."""
        return max(0, self.criterion.min_lesson_length - self.episodes)

    def exceeds(self, steps: Mapping[str, int]) -> bool:
        """Whether enough episodes ended and the measure is above the threshold."""
        if self.episodes < self.criterion.min_lesson_length:
            return False
        value = self.value(steps)
        return value is not None and value > self.criterion.threshold

    def falls_below(self, steps: Mapping[str, int]) -> bool:
        """The same below it."""
        if self.episodes < self.criterion.min_lesson_length:
            return False
        value = self.value(steps)
        return value is not None and value < self.criterion.threshold

    @property
    def identity(self) -> str:
        """What its state is of: a meter with another one cannot take it over. The threshold may have changed."""
        settings = self.criterion
        smoothing = "smoothed" if settings.signal_smoothing else "not smoothed"
        return f"{settings.measure} of {settings.behavior} over {settings.min_lesson_length} episodes, {smoothing}"

    def state_dict(self) -> dict[str, Any]:
        return {"identity": self.identity, "episodes": self.episodes, "value": self._value}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.episodes = saved_count(state, "episodes")
        self._value = None if saved_entry(state, "value") is None else saved_float(state, "value")

    def _take(self, value: float) -> None:
        """A new value of the measure.

        With ``signal_smoothing``, s = v for the first value v of the lesson and s + 0.75 (v - s) for those that follow.
        That is ML-Agents' formula, 0.25 s + 0.75 v, at each new value instead of each environment step, and without its
        start at zero.
        """
        before = self._value
        if self.criterion.signal_smoothing and before is not None:
            value = before + NEW * (value - before)
        self._value = value


class ReturnMeter(Meter):
    """The moving average of returns, over ``min_lesson_length`` episodes; there is none before so many ended.

    Kept is the sum of what they have beyond one of them. An episode changes it by what it has beyond one that leaves,
    and when all have left it is summed up anew: so its cost does not grow with the length, and rounding does not add
    up. Returns that are equal from the first on have exactly their own mean, and never exceed it.
    """

    def __init__(self, criterion: CriterionSettings) -> None:
        super().__init__(criterion)
        self._length = max(1, criterion.min_lesson_length)
        self._window: deque[float] = deque()  # at most so many
        self._base = self._beyond = 0.0

    def ended(self, returns: Sequence[float]) -> None:
        window, length, base, beyond = self._window, self._length, self._base, self._beyond
        for episodes, each in enumerate(returns, self.episodes + 1):
            window.append(each)
            if episodes > length:
                beyond += each - window.popleft()
            if episodes % length == 0:
                base = window[0]
                beyond = fsum([value - base for value in window])
            if episodes >= length:
                self._take(base + beyond / length)
        self.episodes += len(returns)
        self._base, self._beyond = base, beyond

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "window": np.array(self._window, np.float64),
            "base": self._base,
            "beyond": self._beyond,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._window = deque(saved_array(state, "window", np.float64, (None,)).tolist())
        self._base, self._beyond = saved_float(state, "base"), saved_float(state, "beyond")


class ProgressMeter(Meter):
    """The share of ``max_steps`` that the behavior has learned from."""

    def __init__(self, criterion: CriterionSettings, max_steps: int) -> None:
        super().__init__(criterion)
        self._max_steps = max_steps

    def value(self, steps: Mapping[str, int]) -> float | None:
        return steps[self.criterion.behavior] / self._max_steps if self.criterion.behavior in steps else None


class StatisticMeter(Meter):
    """The mean of a tag in the summaries of what happened since the lesson began."""

    def __init__(self, criterion: CriterionSettings) -> None:
        super().__init__(criterion)
        self._mixed = False  # whether the next summary is of an earlier lesson too

    def begin_midway(self) -> None:
        self._mixed = True

    def summarised(self, stats: Mapping[str, StatSummary]) -> None:
        summary = stats.get(self.criterion.tag or "")
        if summary is not None and isfinite(summary.mean) and not self._mixed:
            self._take(summary.mean)
        self._mixed = False

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "mixed": self._mixed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._mixed = saved_bool(state, "mixed")


def make_meter(criterion: CriterionSettings, max_steps: Mapping[str, int]) -> Meter:
    """The meter of a criterion. ``max_steps`` are those of each behavior that is measured by progress."""
    if criterion.tag is not None:
        return StatisticMeter(criterion)
    if criterion.measure == PROGRESS:
        return ProgressMeter(criterion, max_steps[criterion.behavior])
    return ReturnMeter(criterion)
