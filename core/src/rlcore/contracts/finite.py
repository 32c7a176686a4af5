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
    if not isinstance(value, np.ndarray):
        return () if isinstance(value, float | np.floating) and not isfinite(value) else None
    if value.dtype.kind not in "fc":
        return None
    finite = np.isfinite(value)
    if finite.all():
        return None
    return tuple(int(index) for index in np.unravel_index(int(finite.argmin()), value.shape))


def not_finite_as_float32(values: NDArray[Any]) -> tuple[int, str, str] | None:
    """The first row of ``values`` [K, ...] that is not finite as float32: its number, its text, and what to do.

    None if there is none.
    """
    place = first_non_finite(values if values.dtype.itemsize <= 4 else _as_float32(values))
    if place is None:
        return None
    fix = "fix the environment, or wrap it to keep its values finite"
    if isfinite(values[place]):
        fix = f"values beyond {LARGEST:.2g} are infinite as float32, which trainers store; scale them down"
    elif values.dtype.itemsize <= 4 and not isnan(values[place]):
        fix += f" and below {LARGEST:.2g}, the largest float32"
    value = values[place[0]]
    text = f"{float(value):g}" if np.ndim(value) == 0 else np.array2string(np.asarray(value), threshold=8)
    return int(place[0]), text, fix


def _as_float32(values: NDArray[Any]) -> NDArray[Any]:
    return np.where(np.abs(values) <= LARGEST, values, np.nan)


def hide_overflow_warnings() -> None:
    """Leave it to rlcore's own checks to report that arithmetic of rlcore overflowed.

    numpy would print a warning with a line of rlcore for it. Warnings of environments and other code stay, and so do
    all if Python was started with ``-W`` or ``PYTHONWARNINGS``.
    """
    if not sys.warnoptions:
        about = "(overflow|invalid value) encountered"
        warnings.filterwarnings("ignore", about, RuntimeWarning, module=r"rlcore[._]")
