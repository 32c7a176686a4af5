"""Numbers that are not finite: NaN, infinities, and what overflows as float32."""

from __future__ import annotations

import sys
import warnings
from math import isfinite, isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Trainers store rewards and observations as float32: a larger float64 would become infinite there.
LARGEST = float(np.finfo(np.float32).max)


def first_non_finite(value: Any) -> tuple[int, ...] | None:
    """The index of the first NaN or infinity in ``value``, an array or a number; None if there is none.

    The index of a number is ``()``. Values of other types count as finite.
    """
    if isinstance(value, float | np.floating):
        return None if isfinite(value) else ()
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc":
        return None
    finite = np.isfinite(value)
    if finite.all():
        return None
    first = int(finite.argmin())
    return tuple(map(int, np.unravel_index(first, value.shape)))


def not_finite_as_float32(values: NDArray[Any]) -> tuple[int, str, str] | None:
    """The first row of ``values`` [K, ...] that is not finite as float32: its number, its text, and what to do.

    None if there is none.
    """
    may_overflow = values.dtype.itemsize > 4
    stored = values
    if may_overflow:
        stored = np.where(np.abs(values) <= LARGEST, values, np.nan)
    place = first_non_finite(stored)
    if place is None:
        return None
    number = values[place]
    fix = "fix the environment, or wrap it to keep its values finite"
    if isfinite(number):
        fix = f"values beyond {LARGEST:.2g} are infinite as float32, which trainers store; scale them down"
    elif not (may_overflow or isnan(number)):
        fix += f" and below {LARGEST:.2g}, the largest float32"
    row = place[0]
    value = values[row]
    if np.ndim(value) == 0:
        return row, f"{float(value):g}", fix
    return row, np.array2string(np.asarray(value), threshold=8), fix


def hide_overflow_warnings() -> None:
    """Leave it to rlcore's own checks to report that arithmetic of rlcore overflowed.

    numpy would print a warning with a line of rlcore for it. Warnings of environments and other code stay, and so do
    all if Python was started with ``-W`` or ``PYTHONWARNINGS``.
    """
    if not sys.warnoptions:
        about = "(overflow|invalid value) encountered"
        warnings.filterwarnings("ignore", about, RuntimeWarning, module=r"rlcore[._]")
