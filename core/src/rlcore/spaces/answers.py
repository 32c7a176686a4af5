"""Checks for what ``step`` of an environment returns besides observations.

numpy would accept ``terminated="False"`` and ``reward="1"``: a text is true, and a number can be parsed from a text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.spaces.values import MismatchedValue, shown

__all__ = ["NUMBERS", "action_mask", "flag", "numbers", "refuse_wrong_reward"]

NUMBERS = frozenset({float, int, np.float64, np.float32})
"""Types of rewards that need no further check."""


def flag(value: Any, what: str) -> bool:
    """Return ``value`` as a bool. Raises MismatchedValue unless it is a boolean of Python or numpy."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    array = np.asarray(value)
    if array.dtype != np.bool_ or array.shape != ():
        raise MismatchedValue(f"{what} as {shown(value)}; expected a boolean")
    return bool(array)


def refuse_wrong_reward(reward: Any) -> None:
    """Raise MismatchedValue unless ``reward`` is one real number."""
    if type(reward) in NUMBERS:
        return
    array = np.asarray(reward)
    if array.dtype.kind not in "fiub" or array.shape != ():
        raise MismatchedValue(f"the reward as {shown(reward)}; expected a number")


def numbers(values: Any, count: int, what: str, kinds: str) -> NDArray[Any]:
    """Return the ``values`` of ``count`` environments, [N].

    Raises MismatchedValue unless they are numbers of ``kinds``.
    """
    array = np.asarray(values)
    if array.shape != (count,) or array.dtype.kind not in kinds:
        expected = "booleans" if kinds == "b" else "numbers"
        raise MismatchedValue(f"{what} as {shown(values)}; expected {expected} of shape [{count}]")
    return array


def action_mask(value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a mask of zeros and ones, or booleans, with this ``shape``. Raises MismatchedValue for other values."""
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.shape != shape or array.dtype.kind not in "iub":
        raise MismatchedValue(f"action_mask as {shown(value)}; expected zeros and ones of shape {list(shape)}")
    return array
