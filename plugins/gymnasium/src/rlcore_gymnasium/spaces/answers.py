"""Checks for what ``step`` of an environment returns besides observations.

numpy would accept ``terminated="False"`` and ``reward="1"``: a text is true, and a number can be parsed from a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore_gymnasium.spaces.values import MismatchedValue, shown

__all__ = ["NUMBERS", "action_mask", "final_mask", "flag", "numbers", "refuse_wrong_reward"]

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


def final_mask(value: Any, shape: tuple[int, ...], branches: Sequence[int]) -> NDArray[np.bool_]:
    """Return a mask of this ``shape`` [..., options] at final observations, from the ``value`` of an environment.

    Everything is allowed if ``value`` is None, and in a branch in which nothing is: nothing is chosen where an episode
    ended. ``branches`` are the numbers of options. Raises MismatchedValue as :func:`action_mask` does.
    """
    if value is None:
        return np.ones(shape, np.bool_)
    mask = action_mask(value, shape).astype(np.bool_)
    for part in np.split(mask, np.cumsum(branches)[:-1], axis=-1):
        part[~part.any(axis=-1)] = True
    return mask
