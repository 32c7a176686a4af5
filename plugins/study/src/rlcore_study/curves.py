"""Curves of statistics over agent steps: smoothed, and for groups of runs on a common grid of steps.

Nothing is extrapolated: at each step of a grid, only runs that were measured before and after it count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import SavedSummary

MAX_POINTS = 400
"""Points of a curve at most; a longer curve shows means of consecutive summaries."""

Array = NDArray[np.float64]


@attrs.frozen(eq=False)
class Series:
    """One statistic of one behavior of one run.

    Attributes:
        steps: [P] agent steps, ascending.
        values: [P] the statistic; NaN where a run wrote that it was not finite.
        averaged: Number of consecutive summaries that each point is the mean of.
    """

    steps: NDArray[np.int64]
    values: Array
    averaged: int = 1


@attrs.frozen(eq=False)
class Band:
    """One statistic of a group of R runs, at the G steps of a grid.

    Attributes:
        steps: [G] agent steps, ascending.
        count: [G] number of runs that have a value at the step.
        mean: [G] mean over these runs; NaN where no run has a value.
        low: [G] smallest value.
        high: [G] largest value.
        std: [G] sample standard deviation (divided by count - 1); 0 where one run has a value.
    """

    steps: NDArray[np.int64]
    count: NDArray[np.int64]
    mean: Array
    low: Array
    high: Array
    std: Array


def read_series(summaries: Iterable[SavedSummary]) -> dict[str, dict[str, Series]]:
    """The series of a run by behavior and tag.

    Summaries are sorted by step. Of two with one step, the later one counts.
    """
    points: dict[tuple[str, str], dict[int, float]] = {}
    for summary in summaries:
        for tag, value in summary.stats.items():
            by_step = points.setdefault((summary.behavior, tag), {})
            by_step[summary.step] = np.nan if value is None else float(value)
    series: dict[str, dict[str, Series]] = {}
    for (behavior, tag), by_step in points.items():
        of_behavior = series.setdefault(behavior, {})
        of_behavior[tag] = _series(by_step)
    return series


def _series(values: dict[int, float]) -> Series:
    steps = sorted(values)
    numbers = np.array([values[step] for step in steps], np.float64)
    numbers[~np.isfinite(numbers)] = np.nan
    return Series(np.array(steps, np.int64), numbers)


def smoothed(series: Series, weight: float) -> Series:
    """The exponential moving average without bias, as TensorBoard shows it (Kingma and Ba 2015, section 3).

    ``weight`` is that of earlier points, from 0 (no change) to 1. A NaN stays and does not count.
    """
    if weight == 0:
        return series
    values = np.full(len(series.values), np.nan)
    average = 0.0
    count = 0
    for index, value in enumerate(series.values):
        if np.isfinite(value):
            average = weight * average + (1 - weight) * value
            count += 1
            values[index] = average / (1 - weight**count)  # the first averages are pulled toward the 0 at the start
    return attrs.evolve(series, values=values)


def shortened(series: Series, most: int = MAX_POINTS) -> Series:
    """A series of at most ``most`` points, each the mean of equally many consecutive ones at the step of the last."""
    count = len(series.steps)
    averaged = ceil(count / most)
    if averaged <= 1:
        return series
    last = np.arange(averaged, count + averaged, averaged) - 1
    ends = np.minimum(last, count - 1)  # the last mean may be of fewer points
    padded = np.full((len(ends), averaged), np.nan)
    padded.flat[:count] = series.values
    known = np.ma.masked_invalid(padded)
    means = known.mean(axis=1).filled(np.nan)
    return Series(series.steps[ends], means, averaged)


def at(series: Series, grid: NDArray[np.int64], held: bool = False) -> Array:
    """The values [G] of a series at the steps of ``grid``, NaN outside of the series.

    Between two points the value is interpolated linearly, or is NaN if one of them is. ``held`` takes the earlier
    point instead, for numbers such as that of a lesson.
    """
    if not held:
        return np.interp(grid, series.steps, series.values, left=np.nan, right=np.nan)
    earlier = np.searchsorted(series.steps, grid, side="right") - 1
    inside = (earlier >= 0) & (grid <= series.steps[-1])
    return np.where(inside, series.values[earlier], np.nan)


def band(runs: Sequence[Series], held: bool = False, most: int = MAX_POINTS) -> Band:
    """Mean, spread and number of R runs at every step at which one of them was measured (at most ``most``)."""
    steps = np.concatenate([series.steps for series in runs])
    grid = np.unique(steps)
    if len(grid) > most:
        indices = np.linspace(0, len(grid) - 1, most).round()
        grid = grid[np.unique(indices.astype(np.int64))]
    with np.errstate(over="ignore", invalid="ignore"):  # of differences and squares of very large values
        values = np.stack([at(series, grid, held) for series in runs])
        return _spread(grid, values)


def efficiency(runs: Sequence[Series], most: int = MAX_POINTS) -> Band:
    """Interquartile mean of R runs at the steps of :func:`band`, with its 95% interval as ``low`` and ``high``."""
    from rlcore_study.statistics import iqm_curve

    mean_band = band(runs, most=most)
    values = np.stack([at(series, mean_band.steps) for series in runs])
    middle, low, high = iqm_curve(values)
    return attrs.evolve(mean_band, mean=middle, low=low, high=high)


def _spread(grid: NDArray[np.int64], values: Array) -> Band:
    """The band of ``values`` [R, G], which are NaN where a run has none."""
    known = np.ma.masked_invalid(values)
    count = known.count(axis=0)
    std = known.std(axis=0, ddof=1).filled(np.nan)
    std[count == 1] = 0.0
    mean = known.mean(axis=0).filled(np.nan)
    low = known.min(axis=0).filled(np.nan)
    high = known.max(axis=0).filled(np.nan)
    return Band(grid, count, mean, low, high, std)
