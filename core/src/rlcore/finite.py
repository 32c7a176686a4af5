"""Where numbers are not finite: one answer for what environments and curricula return and for what is saved."""

from __future__ import annotations

import sys
import warnings
from math import isfinite
from typing import Any

import numpy as np


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


def hide_overflow_warnings() -> None:
    """Leave it to rlcore's own checks to report that arithmetic of rlcore overflowed.

    numpy would print a warning with a line of rlcore for it. Warnings of environments and other code stay, and so do
    all if Python was started with ``-W`` or ``PYTHONWARNINGS``.
    """
    if not sys.warnoptions:
        about = "(overflow|invalid value) encountered"
        warnings.filterwarnings("ignore", about, RuntimeWarning, module=r"rlcore[._]")
