"""The place of the first number that is not finite."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from rlcore.contracts.finite import first_non_finite, hide_overflow_warnings


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_first_in_the_order_of_indices_is_found(bad: float, dtype: Any) -> None:
    values = np.zeros((3, 4, 2), dtype)
    values[2, 0, 1] = values[1, 3, 0] = bad
    assert first_non_finite(values) == (1, 3, 0)
    assert first_non_finite(values.transpose(2, 1, 0)) == (0, 3, 1)  # in the order of the view, not of the memory
    assert first_non_finite(np.array(bad, dtype)) == first_non_finite(float(bad)) == first_non_finite(dtype(bad)) == ()


@pytest.mark.parametrize(
    "value", [np.zeros((0, 3)), np.full(3, 3e38, np.float32), np.arange(3), np.ones(2, bool), 1.5, 3, "nan", None]
)
def test_numbers_that_are_finite_and_what_is_no_number_have_no_place(value: Any) -> None:
    assert first_non_finite(value) is None


@pytest.mark.parametrize(("module", "shown"), [("rlcore.run.x", 0), ("rlcore_gymnasium.x", 0), ("walker", 1)])
@pytest.mark.parametrize("options", [[], ["error"]])
def test_overflows_of_rlcores_own_arithmetic_give_no_warning(
    module: str, shown: int, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.warnoptions", options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hide_overflow_warnings()
        exec("x * x", {"__name__": module, "x": np.array([3e38], np.float32)})
    assert len(caught) == (1 if options else shown)
