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
RESAMPLES = 9_999
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
    low, high = _interval(samples, _iqm, RESAMPLES)
    return Interval(float(trim_mean(np.concatenate(samples), CUT)), low, high)


def _iqm(*samples: Array, axis: int = -1) -> Any:
    return trim_mean(np.concatenate(samples, axis=axis), CUT, axis=axis)


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
        each = [_wins(a, b, axis) for a, b in zip(samples[:pairs], samples[pairs:], strict=True)]
        return sum(each[1:], each[0]) / pairs

    low, high = _interval([*first, *second], mean_over_tasks, RESAMPLES)
    return Interval(float(mean_over_tasks(*first, *second)), low, high)


def separated_bound(ours: int, theirs: int) -> float:
    """The lower end of the interval of 95% for the probability, where all scores of ``ours`` seeds are larger.

    Resamples of such scores are separated too, so the bootstrap gives an interval without width. This end takes each
    seed into one pair: of min(ours, theirs) independent pairs, all are won, and it is the exact one of Clopper and
    Pearson for that. It holds for every distribution of scores.
    """
    return float(((1 - CONFIDENCE) / 2) ** (1 / min(ours, theirs)))


def smallest_p(ours: int, theirs: int) -> float:
    """The smallest two-sided p of the test of Mann and Whitney that so many seeds can give, without ties.

    It is the share of orders of all scores in which one side is above the other.
    """
    return 2 / comb(ours + theirs, ours)


def _wins(ours: Array, theirs: Array, axis: int) -> Any:
    with np.errstate(all="ignore"):  # of the p-value, which is not used: all scores of a resample may be equal
        found = mannwhitneyu(ours, theirs, axis=axis, method="asymptotic").statistic
    return found / (ours.shape[axis] * theirs.shape[axis])


def iqm_curve(values: Array) -> tuple[Array, Array, Array]:
    """The interquartile mean [G] of R runs at each of G steps, and the ends [G] of its intervals.

    ``values`` [R, G] is NaN where a run has none; only the runs with a value count. The interquartile mean is NaN where
    no run has one, and the ends are NaN where fewer than two have.
    """
    middle, low, high = (np.full(values.shape[1], np.nan) for _ in range(3))
    known = np.isfinite(values)
    for present in np.unique(known, axis=1).T:
        columns = np.flatnonzero((known == present[:, None]).all(axis=0))
        found = values[np.ix_(present, columns)]
        if len(found):
            middle[columns] = trim_mean(found, CUT, axis=0)
        if len(found) > 1:
            low[columns], high[columns] = _ends([found], _iqm, CURVE_RESAMPLES, axis=0)
    return middle, low, high


def _checked(tasks: Sequence[Sequence[float]]) -> list[Array]:
    samples = [np.asarray(scores, np.float64) for scores in tasks]
    if not samples or not all(scores.ndim == 1 and len(scores) for scores in samples):
        raise ValueError("each task needs at least one score")
    if not all(np.isfinite(scores).all() for scores in samples):
        raise ValueError("a score is not finite; leave such a run out, and say so")
    return samples


def _interval(samples: Sequence[Array], statistic: Callable[..., Any], resamples: int) -> tuple[Any, Any]:
    if any(len(scores) < 2 for scores in samples):
        return None, None
    low, high = _ends(samples, statistic, resamples)
    return float(low), float(high)


def _ends(samples: Sequence[Array], statistic: Callable[..., Any], resamples: int, axis: int = -1) -> tuple[Any, Any]:
    """The ends of the percentile interval. BCa, the default of SciPy, has none for equal scores."""
    found = bootstrap(
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
    return found.low, found.high
