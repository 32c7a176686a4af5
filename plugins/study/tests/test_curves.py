"""Smoothing, interpolation and bands, compared with calculations by hand."""

from __future__ import annotations

import math
from statistics import stdev

import numpy as np
import pytest

from rlcore import SavedSummary
from rlcore_study.curves import Series, at, band, read_series, shortened, smoothed

NAN = math.nan


def series(*points: tuple[int, float]) -> Series:
    steps, values = zip(*points, strict=True)
    return Series(np.array(steps, np.int64), np.array(values, np.float64))


def test_summaries_become_series_by_behavior_and_tag() -> None:
    summaries = [
        SavedSummary("A", 20, 0.0, {"x": 2.0, "y": None}),
        SavedSummary("B", 5, 0.0, {"x": 7.0}),
        SavedSummary("A", 10, 0.0, {"x": 1.0}),
        SavedSummary("A", 20, 0.0, {"x": 3.0}),
    ]
    found = read_series(summaries)
    assert list(found) == ["A", "B"] and list(found["A"]) == ["x", "y"]
    assert found["A"]["x"].steps.tolist() == [10, 20]
    assert found["A"]["x"].values.tolist() == [1.0, 3.0]  # of two summaries of one step, the later one
    assert np.isnan(found["A"]["y"].values).tolist() == [True]
    assert read_series([]) == {}


def test_smoothing_is_the_average_with_geometric_weights() -> None:
    values = [4.0, 1.0, 3.0, 8.0]
    found = smoothed(series(*enumerate(values)), 0.6).values
    for last in range(4):
        weights = [0.6 ** (last - index) for index in range(last + 1)]
        expected = sum(w * v for w, v in zip(weights, values, strict=False)) / sum(weights)
        assert found[last] == pytest.approx(expected)


def test_smoothing_skips_values_that_are_not_finite_and_none_changes_nothing() -> None:
    found = smoothed(series((0, 4.0), (1, NAN), (2, 1.0)), 0.5).values
    np.testing.assert_allclose(found, [4.0, NAN, (0.5 * 4.0 + 1.0) / 1.5])
    one = series((0, 4.0), (1, 2.0))
    assert smoothed(one, 0.0) is one


@pytest.mark.parametrize(
    ("points", "held", "expected"),
    [
        ([(10, 1.0), (20, 3.0), (40, 5.0)], False, {5: NAN, 10: 1.0, 15: 2.0, 20: 3.0, 30: 4.0, 40: 5.0, 41: NAN}),
        ([(10, 0.0), (20, 1.0)], True, {9: NAN, 10: 0.0, 19: 0.0, 20: 1.0, 21: NAN}),  # the number of a lesson
        ([(10, 1.0), (20, NAN), (30, 3.0)], False, {10: 1.0, 15: NAN, 20: NAN, 25: NAN, 30: 3.0}),
        ([(10, 7.0)], False, {9: NAN, 10: 7.0, 11: NAN}),
    ],
)
def test_values_between_points_are_interpolated_and_none_is_extrapolated(
    points: list[tuple[int, float]], held: bool, expected: dict[int, float]
) -> None:
    found = at(series(*points), np.array(list(expected), np.int64), held)
    np.testing.assert_allclose(found, list(expected.values()))


def test_the_band_of_runs_of_unequal_lengths_counts_the_runs_that_were_there() -> None:
    found = band([series((10, 1.0), (20, 2.0)), series((10, 3.0), (20, 6.0), (30, 9.0))])
    assert found.steps.tolist() == [10, 20, 30] and found.count.tolist() == [2, 2, 1]
    assert found.mean.tolist() == [2.0, 4.0, 9.0]
    assert (found.low.tolist(), found.high.tolist()) == ([1.0, 2.0, 9.0], [3.0, 6.0, 9.0])
    assert found.std.tolist() == pytest.approx([stdev([1, 3]), stdev([2, 6]), 0.0])


def test_where_no_run_is_finite_the_band_has_no_value() -> None:
    found = band([series((0, 1.0), (10, NAN), (20, 1.0))])
    assert found.count.tolist() == [1, 0, 1]
    assert all(np.isnan(column[1]) for column in (found.mean, found.std, found.low, found.high))


def test_a_grid_that_is_too_fine_keeps_its_ends() -> None:
    found = band([series(*((step, float(step)) for step in range(1000)))], most=50)
    assert len(found.steps) == 50 and found.steps[0] == 0 and found.steps[-1] == 999
    assert found.mean.tolist() == [float(step) for step in found.steps]


def test_a_long_series_shows_means_of_equally_many_points() -> None:
    found = shortened(series(*((step, float(step)) for step in range(10))), most=4)
    assert found.averaged == 3
    assert found.steps.tolist() == [2, 5, 8, 9] and found.values.tolist() == [1.0, 4.0, 7.0, 9.0]
