"""Statistics of scores over seeds: interquartile means, bootstrap intervals, the probability of improvement.

These are the numbers that Agarwal et al. recommend in "Deep reinforcement learning at the edge of the statistical
precipice" (2021) for a few runs of each of several tasks, computed by SciPy. The bootstrap is stratified: each task is
resampled apart. Its generator has a fixed seed, so equal scores always give equal intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap, mannwhitneyu, trim_mean

CONFIDENCE = 0.95
"""Probability that an interval is made to cover."""
FEW_SEEDS = 5
"""With fewer scores, the intervals are too narrow to be trusted."""
RESAMPLES = 9_999  # as many as SciPy takes by default
CURVE_RESAMPLES = 1_999  # for each step of a curve, which is read with the eye
BATCH = 200  # resamples at a time, which bounds memory
CUT = 0.25  # of the scores, at each end

Array = NDArray[np.float64]


@attrs.frozen
class Interval:
    """A statistic of scores with its interval of 95%.

    Attributes:
        value: The statistic.
        low: The lower end of the percentile bootstrap interval; None if a task has only one score.
        high: The upper end; None if a task has only one score.
    """

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def reversed(self) -> Interval:
        """The probability of the opposite, for a probability of improvement."""
        if self.low is None or self.high is None:
            return Interval(1 - self.value)
        return Interval(1 - self.value, 1 - self.high, 1 - self.low)


def iqm(tasks: Sequence[Sequence[float]]) -> Interval:
    """The interquartile mean of the scores of all tasks together: the mean without the lowest and the highest quarter.

    ``tasks`` has the scores of the seeds of each task, normalized if there are several tasks. Of N scores in all,
    N // 4 are left out at each end, so the mean of up to three is the plain one. Raises ValueError for a task without
    a score, and for a score that is not finite.
    """
    samples = _checked(tasks)
    value = trim_mean(np.concatenate(samples), CUT)
    low, high = _interval(samples, _iqm, RESAMPLES)
    return Interval(float(value), low, high)


def _iqm(*samples: Array, axis: int = -1) -> Any:
    scores = np.concatenate(samples, axis=axis)
    return trim_mean(scores, CUT, axis=axis)


def probability_of_improvement(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> Interval:
    """The probability that a seed of ``ours`` has a larger score than a seed of ``theirs``, the mean over tasks.

    It is the statistic of Mann and Whitney divided by its largest value: a tie counts one half. Both have the scores of
    the seeds of the same tasks in the same order. Raises ValueError for other numbers of tasks, for a task without a
    score, and for a score that is not finite.
    """
    first = _checked(ours)
    second = _checked(theirs)
    if len(first) != len(second):
        raise ValueError(f"scores of {len(first)} tasks cannot be compared with those of {len(second)}")
    pairs = len(first)

    def mean_over_tasks(*samples: Array, axis: int = -1) -> Any:
        total = _wins(samples[0], samples[pairs], axis)
        for task in range(1, pairs):
            total = total + _wins(samples[task], samples[pairs + task], axis)
        return total / pairs

    samples = [*first, *second]
    value = mean_over_tasks(*samples)
    low, high = _interval(samples, mean_over_tasks, RESAMPLES)
    return Interval(float(value), low, high)


def separated_bound(ours: int, theirs: int) -> float:
    """The lower end of the interval of 95% for the probability, where all scores of ``ours`` seeds are larger.

    Resamples of such scores are separated too, so the bootstrap gives an interval without width. This end takes each
    seed into one pair: of min(ours, theirs) independent pairs, all are won, and it is the exact one of Clopper and
    Pearson for that. It holds for every distribution of scores.
    """
    pairs = min(ours, theirs)
    return float(((1 - CONFIDENCE) / 2) ** (1 / pairs))


def smallest_p(ours: int, theirs: int) -> float:
    """The smallest two-sided p of the test of Mann and Whitney that so many seeds can give, without ties.

    It is the share of orders of all scores in which one side is above the other.
    """
    return 2 / comb(ours + theirs, ours)


def _wins(ours: Array, theirs: Array, axis: int) -> Any:
    with np.errstate(all="ignore"):  # of the p-value, which is not used: all scores of a resample may be equal
        wins = mannwhitneyu(ours, theirs, axis=axis, method="asymptotic").statistic
    pairs = ours.shape[axis] * theirs.shape[axis]
    return wins / pairs


def iqm_curve(values: Array) -> tuple[Array, Array, Array]:
    """The interquartile mean [G] of R runs at each of G steps, and the ends [G] of its intervals.

    ``values`` [R, G] is NaN where a run has none; only the runs with a value count. The interquartile mean is NaN where
    no run has one, and the ends are NaN where fewer than two have.
    """
    middle, low, high = (np.full(values.shape[1], np.nan) for _ in range(3))
    known = np.isfinite(values)
    # Steps at which the same runs have a value are resampled together: one bootstrap of [R', G'] instead of G'.
    for present in np.unique(known, axis=1).T:
        same_runs = (known == present[:, None]).all(axis=0)
        columns = np.flatnonzero(same_runs)
        scores = values[np.ix_(present, columns)]
        if len(scores):
            middle[columns] = trim_mean(scores, CUT, axis=0)
        if len(scores) > 1:
            low[columns], high[columns] = _ends([scores], _iqm, CURVE_RESAMPLES, axis=0)
    return middle, low, high


def _checked(tasks: Sequence[Sequence[float]]) -> list[Array]:
    samples = [np.asarray(scores, np.float64) for scores in tasks]
    if not samples:
        raise ValueError("each task needs at least one score")
    for scores in samples:
        if scores.ndim != 1 or not len(scores):
            raise ValueError("each task needs at least one score")
    for scores in samples:
        if not np.isfinite(scores).all():
            raise ValueError("a score is not finite; leave such a run out, and say so")
    return samples


def _interval(samples: Sequence[Array], statistic: Callable[..., Any], resamples: int) -> tuple[Any, Any]:
    if any(len(scores) < 2 for scores in samples):
        return None, None
    low, high = _ends(samples, statistic, resamples)
    return float(low), float(high)


def _ends(samples: Sequence[Array], statistic: Callable[..., Any], resamples: int, axis: int = -1) -> tuple[Any, Any]:
    """The ends of the percentile interval. BCa, the default of SciPy, has none for equal scores."""
    interval = bootstrap(
        samples,
        statistic,
        n_resamples=resamples,
        batch=BATCH,
        vectorized=True,
        paired=False,
        axis=axis,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return interval.low, interval.high
