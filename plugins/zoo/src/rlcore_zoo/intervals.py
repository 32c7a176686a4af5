"""Where the score of a new seed is expected, from the scores of the seeds that were measured."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

CONFIDENCE = 0.95
LEAST = 0.02  # of the mean, on either side


def prediction_interval(scores: Sequence[float]) -> tuple[float, float]:
    """Return the bounds between which the score of one more seed lies with a probability of 95%.

    The mean of the n scores, plus and minus t s sqrt(1 + 1/n): t is the quantile of Student's distribution with n - 1
    degrees of freedom, s the standard deviation of the scores (Geisser 1993, Predictive Inference, section 2.2). That
    supposes scores of a normal distribution. Few seeds make t large: 4.3 for three, 2.8 for five.

    A few equal scores, such as 500 of 500 on each seed, do not prove that all seeds reach the same: the interval has at
    least 2% of the mean on either side. Raises ValueError for less than two scores.
    """
    from scipy.special import stdtrit

    if len(scores) < 2:
        raise ValueError("an interval needs the scores of at least two seeds")
    mean = fmean(scores)
    count = len(scores)
    quantile = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    half = quantile * stdev(scores) * sqrt(1 + 1 / count)
    half = max(half, LEAST * abs(mean))
    return mean - half, mean + half
