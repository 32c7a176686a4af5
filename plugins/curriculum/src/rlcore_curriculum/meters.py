"""What lessons are judged by: a meter follows one measure from the moment its lesson began.

Only episodes that began in the lesson are counted. K of them ended in one environment step.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.curriculum import EndedEpisodes
from rlcore.stats import StatSummary
from rlcore_curriculum.criterion_settings import GROUP_REWARD, PROGRESS, CriterionSettings

Array = NDArray[np.float64]
Rows = NDArray[np.bool_] | slice

NEW = 0.75  # the weight of what is new in a smoothed measure: ML-Agents' number


class Meter:
    """One criterion of the lesson that is on: counts episodes, and compares what a subclass measures."""

    def __init__(self, criterion: CriterionSettings) -> None:
        self.criterion = criterion
        self.episodes = 0  # of this lesson, ended
        self._value: float | None = None

    def ended(self, episodes: EndedEpisodes, rows: Rows) -> None:
        """Episodes of the behavior ended, K of them, ``rows``, having begun in this lesson."""
        self.episodes += len(episodes.returns[rows])

    def summarised(self, stats: Mapping[str, StatSummary]) -> None:
        """There are new statistics of the behavior."""

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
        self.episodes = int(state["episodes"])
        self._value = None if state["value"] is None else float(state["value"])

    def _take(self, values: Array) -> None:
        """New values of the measure, oldest first; at least one.

        With ``signal_smoothing``, s = v for the first value v of the lesson and s + 0.75 (v - s) for those that follow.
        That is ML-Agents' formula, 0.25 s + 0.75 v, at each new value instead of each environment step, and without its
        start at zero.
        """
        if not self.criterion.signal_smoothing:
            self._value = float(values[-1])
            return
        smoothed = self._value
        for value in values.tolist():
            smoothed = value if smoothed is None else smoothed + NEW * (value - smoothed)
        self._value = smoothed


class ReturnMeter(Meter):
    """The moving average of returns, over ``min_lesson_length`` episodes; there is none before so many ended."""

    def __init__(self, criterion: CriterionSettings) -> None:
        super().__init__(criterion)
        self._length = max(1, criterion.min_lesson_length)
        self._latest: Array = np.empty(0)  # [<= length] returns, oldest first

    def ended(self, episodes: EndedEpisodes, rows: Rows) -> None:
        super().ended(episodes, rows)
        new = self._returns(episodes)[rows]
        known = self._latest[max(0, len(self._latest) - self._length + 1) :]
        joined = np.concatenate((known, new))
        self._latest = joined[-self._length :]
        if len(joined) >= self._length:
            self._take(moving_average(joined, self._length))

    def _returns(self, episodes: EndedEpisodes) -> Array:
        if self.criterion.measure != GROUP_REWARD:
            return episodes.returns
        return np.zeros(len(episodes.returns)) if episodes.group_returns is None else episodes.group_returns

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "latest": self._latest.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._latest = np.array(state["latest"], np.float64)


class ProgressMeter(Meter):
    """The share of ``max_steps`` that the behavior has learned from."""

    def __init__(self, criterion: CriterionSettings, max_steps: int) -> None:
        super().__init__(criterion)
        self._max_steps = max_steps

    def value(self, steps: Mapping[str, int]) -> float | None:
        return steps[self.criterion.behavior] / self._max_steps if self.criterion.behavior in steps else None


class StatisticMeter(Meter):
    """The mean of a tag in the summaries written since the lesson began."""

    def summarised(self, stats: Mapping[str, StatSummary]) -> None:
        summary = stats.get(self.criterion.tag or "")
        if summary is not None and isfinite(summary.mean):
            self._take(np.array([summary.mean]))


def make_meter(criterion: CriterionSettings, max_steps: Mapping[str, int]) -> Meter:
    """The meter of a criterion. ``max_steps`` are those of each behavior that is measured by progress."""
    if criterion.tag is not None:
        return StatisticMeter(criterion)
    if criterion.measure == PROGRESS:
        return ProgressMeter(criterion, max_steps[criterion.behavior])
    return ReturnMeter(criterion)


def moving_average(values: Array, length: int) -> Array:
    """The mean of each ``length`` values that follow one another, [n - length + 1].

    Equal values have exactly their own mean, so that what equals a threshold never exceeds it by rounding.
    """
    first = values[0]
    sums = np.cumsum(values - first)
    means = sums[length - 1 :].copy()
    means[1:] -= sums[:-length]
    result: Array = first + means / length
    return result
