"""Meters measure one criterion from the start of a lesson, and compare it with its threshold.

:mod:`rlcore_curriculum.tracks` decides from the meters of all criteria whether the lesson changes.
``min_lesson_length`` has two meanings, as in ML-Agents: the episodes that must end before a change
(:attr:`Meter.episodes_left`), and the episodes that a mean return covers (:class:`ReturnMeter`).

Only episodes that started in the lesson count. Returns are plain Python numbers: few episodes end in one step, and
array operations would cost more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from typing import Any

import numpy as np

from rlcore import StatSummary, saved_array, saved_bool, saved_count, saved_entry, saved_float
from rlcore_curriculum.criterion_settings import PROGRESS, CriterionSettings

NEW = 0.75  # the weight of a new value in a smoothed measure: ML-Agents' number


class Meter:
    """One criterion of the current lesson: counts episodes, and compares the measure of a subclass."""

    def __init__(self, criterion: CriterionSettings) -> None:
        self.criterion = criterion
        self.episodes = 0  # ended episodes of this lesson
        self._value: float | None = None

    def ended(self, returns: Sequence[float]) -> None:
        """Add ended episodes of this lesson with the returns that the criterion measures."""
        self.episodes += len(returns)

    def summarised(self, stats: Mapping[str, StatSummary]) -> None:
        """Add the statistics of a summary of the behavior."""

    def start_mid_summary(self) -> None:
        """Tell the meter that the next summary also covers time before the lesson."""

    def value(self, steps: Mapping[str, int]) -> float | None:
        """Return the measure, or None if there is none yet. ``steps`` are agent steps by behavior."""
        return self._value

    @property
    def episodes_left(self) -> int:
        """Return how many episodes must end before a change is possible."""
        return max(0, self.criterion.min_lesson_length - self.episodes)

    def exceeds(self, steps: Mapping[str, int]) -> bool:
        """Return whether enough episodes ended and the measure is above the threshold."""
        value = self._final(steps)
        return value is not None and value > self.criterion.threshold

    def falls_below(self, steps: Mapping[str, int]) -> bool:
        """Return whether enough episodes ended and the measure is below the threshold."""
        value = self._final(steps)
        return value is not None and value < self.criterion.threshold

    def _final(self, steps: Mapping[str, int]) -> float | None:
        if self.episodes_left:
            return None
        return self.value(steps)

    @property
    def identity(self) -> str:
        """Return what the state depends on. A meter with another identity cannot load it. The threshold may differ."""
        settings = self.criterion
        smoothing = "smoothed" if settings.signal_smoothing else "not smoothed"
        return f"{settings.measure} of {settings.behavior} over {settings.min_lesson_length} episodes, {smoothing}"

    def state_dict(self) -> dict[str, Any]:
        return {"identity": self.identity, "episodes": self.episodes, "value": self._value}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.episodes = saved_count(state, "episodes")
        has_value = saved_entry(state, "value") is not None
        self._value = saved_float(state, "value") if has_value else None

    def _add_value(self, value: float) -> None:
        """Add a value of the measure.

        With ``signal_smoothing``, s = v for the first value v of the lesson, and s + 0.75 (v - s) for each later value.
        This is ML-Agents' formula, 0.25 s + 0.75 v, applied at each new value instead of each environment step, and
        without its start at zero.
        """
        before = self._value
        if self.criterion.signal_smoothing and before is not None:
            value = before + NEW * (value - before)
        self._value = value


class ReturnMeter(Meter):
    """The moving average of the latest ``min_lesson_length`` returns; None until so many episodes have ended.

    The meter stores the sum of the differences from one return in the window. A new episode adds its difference from
    the return that it replaces, and the sum is computed again when the whole window was replaced. The cost of an
    episode therefore does not depend on the length, and rounding errors do not accumulate. Equal returns have exactly
    their own value as mean, and never exceed it.
    """

    def __init__(self, criterion: CriterionSettings) -> None:
        super().__init__(criterion)
        self._averaged = max(1, criterion.min_lesson_length)  # episodes that the mean covers
        self._window: deque[float] = deque()  # the latest returns, at most so many
        self._base = 0.0
        self._beyond = 0.0  # sum of the differences from the base

    def ended(self, returns: Sequence[float]) -> None:
        window = self._window
        length = self._averaged
        base = self._base
        beyond = self._beyond
        for episodes, latest in enumerate(returns, self.episodes + 1):
            window.append(latest)
            if episodes > length:
                beyond += latest - window.popleft()
            if episodes % length == 0:
                base = window[0]
                differences = [value - base for value in window]
                beyond = fsum(differences)
            if episodes >= length:
                self._add_value(base + beyond / length)
        self.episodes += len(returns)
        self._base = base
        self._beyond = beyond

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "window": np.array(self._window, np.float64),
            "base": self._base,
            "beyond": self._beyond,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        window = saved_array(state, "window", np.float64, (None,))
        self._window = deque(window.tolist())
        self._base = saved_float(state, "base")
        self._beyond = saved_float(state, "beyond")


class ProgressMeter(Meter):
    """The share of ``max_steps`` that the behavior has learned from."""

    def __init__(self, criterion: CriterionSettings, max_steps: int) -> None:
        super().__init__(criterion)
        self._max_steps = max_steps

    def value(self, steps: Mapping[str, int]) -> float | None:
        behavior = self.criterion.behavior
        if behavior not in steps:
            return None
        return steps[behavior] / self._max_steps


class StatisticMeter(Meter):
    """The mean of a tag in the summaries since the start of the lesson."""

    def __init__(self, criterion: CriterionSettings) -> None:
        super().__init__(criterion)
        self._mixed = False  # whether the next summary also covers an earlier lesson

    def start_mid_summary(self) -> None:
        self._mixed = True

    def summarised(self, stats: Mapping[str, StatSummary]) -> None:
        summary = stats.get(self.criterion.tag or "")
        if summary is not None and isfinite(summary.mean) and not self._mixed:
            self._add_value(summary.mean)
        self._mixed = False

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "mixed": self._mixed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._mixed = saved_bool(state, "mixed")


def make_meter(criterion: CriterionSettings, max_steps: Mapping[str, int]) -> Meter:
    """Return the meter of a criterion. ``max_steps`` are given for behaviors that are measured by progress."""
    if criterion.tag is not None:
        return StatisticMeter(criterion)
    if criterion.measure == PROGRESS:
        return ProgressMeter(criterion, max_steps[criterion.behavior])
    return ReturnMeter(criterion)
