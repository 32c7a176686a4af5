"""Intervals equal those of all resamples written out, and probabilities equal counted pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from rlcore_study.statistics import Interval, iqm, iqm_curve, probability_of_improvement

Tasks = Sequence[Sequence[float]]


def middle(scores: Sequence[float]) -> float:
    """The mean of the middle half, from its definition."""
    left_out = len(scores) // 4
    return fmean(sorted(scores)[left_out : len(scores) - left_out])


def quantiles(tasks: Tasks, statistic: Callable[[Sequence[Sequence[float]]], float]) -> tuple[float, float]:
    """The 2.5% and 97.5% quantiles of a statistic over all resamples, each task resampled apart.

    The values must hold for a wide range of probabilities, so that random resamples give the same ones.
    """
    resamples = product(*[list(product(scores, repeat=len(scores))) for scores in tasks])
    values = sorted(statistic(resample) for resample in resamples)

    def at(probability: float) -> float:
        return values[int(probability * len(values))]

    for around in (0.025, 0.975):
        assert at(around - 0.008) == at(around + 0.008), "choose other scores"
    return at(0.025), at(0.975)


def pairs_won(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return fmean(1.0 if a > b else 0.5 if a == b else 0.0 for a in ours for b in theirs)


@pytest.mark.parametrize(
    "tasks",
    [
        [[0.0, 1.0, 10.0, 100.0]],
        [[3.0, -1.0, 7.0]],
        [[0.0, 1.0], [10.0, 11.0]],  # without strata, a resample could have scores of one task alone
        [[0.0, 1.0, 9.0], [20.0, 21.0, 10.0]],
    ],
    ids=str,
)
def test_the_interval_of_the_iqm_is_that_of_all_resamples(tasks: Tasks) -> None:
    low, high = quantiles(tasks, lambda found: middle([score for scores in found for score in scores]))
    found = iqm(tasks)
    assert found == Interval(
        pytest.approx(middle([score for scores in tasks for score in scores])), pytest.approx(low), pytest.approx(high)
    )


@pytest.mark.parametrize("count", range(1, 10))
def test_the_iqm_leaves_out_a_quarter_at_each_end(count: int) -> None:
    scores = [float(number**2) for number in range(count)]
    assert iqm([scores[::-1]]).value == pytest.approx(middle(scores))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([[1.0, 4.0, 6.0]], [[2.0, 5.0]]),
        ([[1.0, 2.0, 2.0]], [[2.0, 0.0]]),  # a tie is one half
        ([[1.0, 3.0], [5.0, 0.0]], [[2.0, 2.0], [1.0, 1.0]]),
    ],
    ids=str,
)
def test_the_probability_of_improvement_counts_pairs(ours: Tasks, theirs: Tasks) -> None:
    tasks = len(ours)

    def mean(found: Sequence[Sequence[float]]) -> float:
        return fmean(pairs_won(a, b) for a, b in zip(found[:tasks], found[tasks:], strict=True))

    low, high = quantiles([*ours, *theirs], mean)
    found = probability_of_improvement(ours, theirs)
    assert found == Interval(pytest.approx(mean([*ours, *theirs])), pytest.approx(low), pytest.approx(high))
    low, high = quantiles([*theirs, *ours], mean)
    assert found.reversed == Interval(pytest.approx(1 - found.value), pytest.approx(low), pytest.approx(high))


def test_equal_scores_have_an_interval_without_width() -> None:
    assert iqm([[2.5] * 5]) == Interval(2.5, 2.5, 2.5)
    assert probability_of_improvement([[1.0, 1.0]], [[1.0, 1.0, 1.0]]) == Interval(0.5, 0.5, 0.5)


def test_one_seed_has_no_interval() -> None:
    assert iqm([[7.0]]) == Interval(7.0)
    assert iqm([[1.0, 2.0], [3.0]]) == Interval(2.0)
    assert probability_of_improvement([[7.0]], [[1.0, 8.0]]) == Interval(0.5)


@pytest.mark.parametrize("tasks", [[], [[]], [[1.0], []], [[1.0, np.nan]], [[np.inf]]], ids=str)
def test_what_is_not_a_score_is_refused(tasks: Any) -> None:
    with pytest.raises(ValueError, match="score"):
        iqm(tasks)
    with pytest.raises(ValueError, match="score"):
        probability_of_improvement(tasks, tasks)


def test_only_equal_tasks_are_compared() -> None:
    with pytest.raises(ValueError, match="scores of 2 tasks cannot be compared with those of 1"):
        probability_of_improvement([[1.0], [2.0]], [[1.0]])


def test_equal_scores_give_equal_intervals_each_time() -> None:
    scores = np.random.default_rng(5).normal(size=7).tolist()
    assert iqm([scores]) == iqm([scores])


def test_a_curve_has_the_interval_of_the_runs_that_are_there_at_each_step() -> None:
    nan = np.nan
    values = np.array([[0.0, 3.0, 1.0, nan, nan], [1.0, -1.0, nan, nan, 4.0], [10.0, 7.0, nan, nan, 6.0]])
    found, low, high = iqm_curve(values)
    for step in range(5):
        scores = [score for score in values[:, step] if np.isfinite(score)]
        if not scores:
            assert np.isnan(found[step])
        else:
            assert found[step] == pytest.approx(middle(scores))
        if len(scores) < 2:
            assert np.isnan(low[step]) and np.isnan(high[step])
        else:
            ends = quantiles([scores], lambda each: middle(each[0]))
            assert (low[step], high[step]) == (pytest.approx(ends[0]), pytest.approx(ends[1]))
