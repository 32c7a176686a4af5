"""The interval of a new seed's score."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore_zoo.intervals import prediction_interval


def test_the_interval_of_three_scores_is_that_of_a_table_of_student() -> None:
    # 0.975 quantile with 2 degrees of freedom: 4.3027 in every table. The deviation of these scores is 10.
    half = 4.3027 * 10 * (1 + 1 / 3) ** 0.5
    assert prediction_interval([490, 500, 510]) == pytest.approx((500 - half, 500 + half), abs=1e-2)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_the_next_score_of_a_normal_distribution_is_inside_in_95_of_100_cases(count: int) -> None:
    draws = np.random.default_rng(7).normal(-200.0, 60.0, (6_000, count + 1))
    inside = 0
    for *known, new in draws.tolist():
        low, high = prediction_interval(known)
        inside += low <= new <= high
    # Four standard errors of a share of 0.95 are 0.0113; the least width of 2% adds almost nothing here.
    assert inside / len(draws) == pytest.approx(0.95, abs=0.0115)


def test_equal_scores_leave_two_hundredths_of_the_mean() -> None:
    assert prediction_interval([500.0, 500.0, 500.0]) == pytest.approx((490.0, 510.0))
    assert prediction_interval([-10.0, -10.0]) == pytest.approx((-10.2, -9.8))


def test_one_score_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least two seeds"):
        prediction_interval([1.0])
