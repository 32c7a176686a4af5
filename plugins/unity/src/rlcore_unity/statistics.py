"""Statistics that players send with ML-Agents' ``StatsRecorder``, for the summaries of the run."""

from __future__ import annotations

import logging
from math import isfinite

import attrs
import numpy as np

from rlcore import StatSummary

log = logging.getLogger("rlcore.plugin.unity")

AVERAGE, MOST_RECENT, SUM, HISTOGRAM = range(4)
MAX_NAMES = 1_000
MAX_NAME = 200  # characters
MAX_VALUES = 100_000  # of one statistic in one summary


@attrs.define
class _Values:
    aggregation: int
    values: list[float] = attrs.field(factory=list)

    def summary(self) -> StatSummary:
        if self.aggregation == MOST_RECENT:
            return StatSummary.of(self.values[-1:])
        if self.aggregation == SUM:
            return StatSummary.of([float(np.sum(self.values))])
        return StatSummary.of(self.values, keep_values=self.aggregation == HISTOGRAM)


class Statistics:
    """The statistics of all players. Each behavior has a window of its own, from one of its summaries to the next."""

    def __init__(self) -> None:
        self._windows: dict[str, dict[str, _Values]] = {}
        self._names: set[str] = set()
        self._warned = False

    def begin(self, behaviors: list[str]) -> None:
        """Collect for the summaries of these behaviors."""
        self._windows = {name: {} for name in behaviors}

    def add(self, name: str, value: float, aggregation: int) -> None:
        """Add a value that a player sent. One that is not a number is left out."""
        if name not in self._names:
            usable_name = name.isprintable() and 0 < len(name) <= MAX_NAME
            known_aggregation = AVERAGE <= aggregation <= HISTOGRAM
            # A game that makes a name of a changing number must not fill the memory of a long run.
            if not usable_name or not known_aggregation or len(self._names) >= MAX_NAMES:
                self._warn(f"a statistic without a usable name or aggregation, or more than {MAX_NAMES} of them")
                return
            self._names.add(name)
        if not isfinite(value):
            self._warn(f"{value} as statistic {name!r}")
            return
        for window in self._windows.values():
            statistic = window.get(name)
            if statistic is None or statistic.aggregation != aggregation:
                statistic = _Values(aggregation)
                window[name] = statistic
            if aggregation == SUM and statistic.values:
                statistic.values[0] += value
            elif aggregation == MOST_RECENT:
                statistic.values = [value]
            elif len(statistic.values) < MAX_VALUES:
                statistic.values.append(value)

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning("a player sent %s; it is left out (reported once)", what)

    def summaries(self, behavior: str) -> dict[str, StatSummary]:
        """Return what was collected since the last summary of a behavior, by name."""
        window = self._windows.get(behavior)
        if window is None:
            return {}
        self._windows[behavior] = {}
        return {name: values.summary() for name, values in window.items()}
