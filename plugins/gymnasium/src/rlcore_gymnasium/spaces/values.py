"""Checks of values before they enter arrays: numpy would broadcast, wrap, truncate and parse them silently.

Observations come first, then what ``step`` returns besides them: a text ``terminated="False"`` would be true, and a
reward could be parsed from a text.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

__all__ = ["action_mask", "final_mask", "flag", "refuse_wrong_reward"]


NUMBERS = frozenset({float, int, np.float64, np.float32})
"""Types of rewards that need no further check."""
REAL_KINDS = "fiub"
"""Kinds of NumPy types that are real numbers; truth counts as 0 or 1."""


Array = NDArray[Any]
Shape = tuple[int, ...]


class MismatchedValue(ValueError):
    """A value outside its space. The message names the observation, the value and the expected values."""


def array_of(value: Any, shape: Shape, dtype: np.dtype[Any], name: str) -> Array:
    """Return ``value`` as an array with this ``shape`` that ``dtype`` can hold. Raises MismatchedValue otherwise.

    Real numbers may have any precision, and integers any width, if their values are within the range of ``dtype``.
    """
    array = _array(value, name)
    if array.shape != shape:
        refuse(name, value, f"expected shape {list(shape)}")
    if dtype.kind == "f":
        if array.dtype.kind not in REAL_KINDS:
            refuse(name, value, "expected real numbers")
        return array
    if np.can_cast(array.dtype, dtype, "safe"):
        return array
    if array.dtype.kind not in "iub":
        refuse(name, value, f"expected {dtype}: convert it, for example with .astype(np.{dtype})")
    # A wider integer type is not a mistake: NumPy makes int64 of a Python list. Its values decide.
    if dtype.kind == "b":
        _refuse_outside(name, array, 0, 1)
    else:
        limits = np.iinfo(dtype)
        _refuse_outside(name, array, limits.min, limits.max)
    return array


def bits_of(value: Any, shape: Shape, name: str) -> Array:
    """Return ``value`` as an array of zeros and ones with this ``shape``. Raises MismatchedValue otherwise."""
    array = _array(value, name)
    if array.shape != shape or array.dtype.kind not in REAL_KINDS:
        refuse(name, value, f"expected zeros and ones of shape {list(shape)}")
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        first = array[wrong][0]
        refuse(name, first, "expected 0 or 1")
    return array


def choice_of(value: Any, start: int, options: int, name: str) -> int:
    """Return the option of a Discrete space for ``value``, counted from 0. Raises MismatchedValue if there is none."""
    try:
        choice = operator.index(value) - start  # int(2.7) would be 2
    except TypeError:
        _refuse_choice(name, value, start, options)
    if not 0 <= choice < options:
        _refuse_choice(name, value, start, options)
    return choice


def choices_of(value: Any, start: Array, options: Array, rows: int, name: str) -> Array:
    """Return the options for ``rows`` values of a Discrete or MultiDiscrete space, counted from 0, [rows, *shape]."""
    array = _array(value, name)
    shape = (rows, *options.shape)
    if array.shape != shape or array.dtype.kind not in "iu":
        refuse(name, value, f"expected integers of shape {list(shape)}")
    choices: Array = array.astype(np.int64) - start
    wrong = (choices < 0) | (choices >= options)
    if wrong.any():
        first_wrong = np.argwhere(wrong)[0].tolist()
        _, *index = first_wrong  # without the row
        place = tuple(index)
        at = f" at {index}" if index else ""
        _refuse_choice(name, array[wrong][0], int(start[place]), int(options[place]), at)
    return choices


def _refuse_choice(name: str, value: Any, start: int, options: int, at: str = "") -> NoReturn:
    last = start + options - 1
    refuse(name, value, f"expected an integer from {start} to {last}{at}")


def refuse(name: str, value: Any, expected: str) -> NoReturn:
    raise MismatchedValue(f"observation {name!r} as {text_of(value)}; {expected}")


def text_of(value: Any) -> str:
    """Format a value for messages: a number itself, an array by dtype and shape."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of {value.dtype} of shape {list(value.shape)}"
    if isinstance(value, int | float | np.generic | np.ndarray):
        return f"{value} ({type(value).__name__})"
    if value is None:
        return "None"
    text = repr(value)
    if len(text) > 40:
        text = f"{text[:37]}..."
    return f"{text} ({type(value).__name__})"


def _array(value: Any, name: str) -> Array:
    try:
        return np.asarray(value)
    except (TypeError, ValueError):  # lists of unequal lengths
        refuse(name, value, "expected an array")


def _refuse_outside(name: str, array: Array, low: int, high: int) -> None:
    wrong = (array < low) | (array > high)
    if wrong.any():
        first = array[wrong][0]
        refuse(name, first, f"expected an integer from {low} to {high}")


# ---------------------------------------------------------------- rewards, flags and masks


def flag(value: Any, what: str) -> bool:
    """Return ``value`` as a bool. Raises MismatchedValue unless it is a boolean of Python or numpy."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    array = np.asarray(value)
    if array.dtype != np.bool_ or array.shape != ():
        raise MismatchedValue(f"{what} as {text_of(value)}; expected a boolean")
    return bool(array)


def refuse_wrong_info(info: Any) -> None:
    """Raise MismatchedValue unless ``info`` is a mapping."""
    if not isinstance(info, Mapping):
        raise MismatchedValue(f"the info as {text_of(info)}; expected a dict, which may be empty")


def refuse_wrong_reward(reward: Any) -> None:
    """Raise MismatchedValue unless ``reward`` is one real number."""
    if type(reward) in NUMBERS:
        return
    array = np.asarray(reward)
    if array.dtype.kind not in REAL_KINDS or array.shape != ():
        raise MismatchedValue(f"the reward as {text_of(reward)}; expected a number")


def numbers(values: Any, count: int, what: str, kinds: str) -> Array:
    """Return the ``values`` of ``count`` environments, [N].

    Raises MismatchedValue unless they are numbers of ``kinds``.
    """
    array = np.asarray(values)
    if array.shape != (count,) or array.dtype.kind not in kinds:
        expected = "booleans" if kinds == "b" else "numbers"
        raise MismatchedValue(f"{what} as {text_of(values)}; expected {expected} of shape [{count}]")
    return array


def action_mask(value: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return a copy of a mask of zeros and ones with this ``shape``, as booleans. Raises MismatchedValue for others."""
    array = np.asarray(value)
    if array.shape != shape or array.dtype.kind not in "iub":
        raise MismatchedValue(f"action_mask as {text_of(value)}; expected zeros and ones of shape {list(shape)}")
    return array.astype(np.bool_)


def final_mask(value: Any, shape: tuple[int, ...], branches: Sequence[int]) -> NDArray[np.bool_]:
    """Return a mask of this ``shape`` [..., options] at final observations, from the ``value`` of an environment.

    Everything is allowed if ``value`` is None, and in a branch in which nothing is: nothing is chosen where an episode
    ended. ``branches`` are the numbers of options. Raises MismatchedValue as :func:`action_mask` does.
    """
    if value is None:
        return np.ones(shape, np.bool_)
    mask = action_mask(value, shape)
    return allowed_at_end(mask, branches)


def allowed_at_end(mask: Array, branches: Sequence[int]) -> NDArray[np.bool_]:
    """Return a copy of ``mask`` [..., options] in which branches without an allowed option allow everything."""
    copied = mask.astype(np.bool_)
    ends = np.cumsum(branches)
    for branch in np.split(copied, ends[:-1], axis=-1):  # views: what is written there is written into `copied`
        allows_some = branch.any(axis=-1)
        branch[~allows_some] = True
    return copied
