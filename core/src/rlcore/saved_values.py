"""Checked access to the values of a saved state: exact types and shapes, without silent conversion.

Use it in every ``load_state_dict``. A value that does not match raises :class:`SavedValueError`, which names the entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rlcore.errors import RlcoreError, RunStateError, one_line, repeating
from rlcore.files.json_files import MAX_DEPTH, is_number, is_whole
from rlcore.finite import first_non_finite

__all__ = [
    "SavedValueError",
    "fill",
    "saved_array",
    "saved_bool",
    "saved_count",
    "saved_entry",
    "saved_float",
    "saved_mapping",
]

# Entries of a trainer's state that hold learned numbers. If a number in them is not finite, the training has diverged.
LEARNED = ("model", "optimizer", "optimizers")
# The errors of code that reads a missing or wrong entry without checking it.
BAD_STATE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


class SavedValueError(RunStateError):
    """An entry of a saved state is missing or has the wrong type or shape."""


def bad_state(error: Exception) -> str:
    """The message for one of the ``BAD_STATE`` errors that a ``load_state_dict`` raised."""
    if isinstance(error, KeyError):
        return f"the entry {error.args[0] if error.args else '?'!r} is missing"
    return one_line(error)


def saved_entry(state: Mapping[str, Any], name: str) -> Any:
    """Return ``state[name]``. Raises SavedValueError if it is missing, or if ``state`` is not a mapping."""
    if not isinstance(state, Mapping):
        raise SavedValueError(f"the entry {name!r} is looked for in {_described(state)}, not in a mapping")
    if name not in state:
        raise SavedValueError(f"the entry {name!r} is missing")
    return state[name]


def saved_mapping(state: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the mapping ``state[name]``. Raises SavedValueError if it is something else."""
    value = saved_entry(state, name)
    if not isinstance(value, Mapping):
        raise SavedValueError(f"the entry {name!r} is {_described(value)}, not a mapping")
    return value


def saved_array(
    state: Mapping[str, Any], name: str, dtype: DTypeLike, shape: Sequence[int | None] | None = None
) -> NDArray[Any]:
    """Return the array ``state[name]``. Raises SavedValueError unless it has exactly this type and ``shape``.

    None in ``shape`` is any length.
    """
    value = saved_entry(state, name)
    wanted = np.dtype(dtype)
    fits = isinstance(value, np.ndarray) and value.dtype == wanted
    if fits and shape is not None:
        fits = len(shape) == value.ndim and all(
            want is None or have == want for have, want in zip(value.shape, shape, strict=True)
        )
    if not fits:
        sizes = "" if shape is None else f" of shape {_shape(shape)}"
        raise SavedValueError(f"the entry {name!r} is {_described(value)}, not an array of {wanted}{sizes}")
    array: NDArray[Any] = value
    return array


def fill(target: NDArray[Any], state: Mapping[str, Any], name: str) -> None:
    """Copy ``state[name]`` into ``target``. Raises SavedValueError unless it has the type and shape of ``target``."""
    target[...] = saved_array(state, name, target.dtype, target.shape)


def saved_count(state: Mapping[str, Any], name: str) -> int:
    """Return the whole number ``state[name]``, at least 0. Raises SavedValueError if it is something else."""
    value = saved_entry(state, name)
    if not is_whole(value):
        raise SavedValueError(f"the entry {name!r} is {_described(value)}, not a whole number from 0 up")
    return int(value)


def saved_float(state: Mapping[str, Any], name: str) -> float:
    """Return the finite number ``state[name]``. Raises SavedValueError if it is something else."""
    value = saved_entry(state, name)
    if not is_number(value) or not isfinite(value):
        raise SavedValueError(f"the entry {name!r} is {_described(value)}, not a finite number")
    return float(value)


def saved_bool(state: Mapping[str, Any], name: str) -> bool:
    """Return ``state[name]``, true or false. Raises SavedValueError if it is something else."""
    value = saved_entry(state, name)
    if not isinstance(value, bool):
        raise SavedValueError(f"the entry {name!r} is {_described(value)}, not true or false")
    return value


def non_finite(state: Mapping[str, Any]) -> str | None:
    """The path of a NaN or an infinity among the learned numbers of a trainer's state; None if all are finite.

    Values that are nested too deep to be saved are skipped.
    """
    values: list[tuple[tuple[str, ...], Any]] = [((), state)]
    while values:
        path, value = values.pop()
        if isinstance(value, Mapping | list | tuple):
            pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
            values += [((*path, str(key)), each) for key, each in pairs] if len(path) < MAX_DEPTH else []
        elif any(part in LEARNED for part in path) and first_non_finite(value) is not None:
            return "/".join(path)
    return None


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {_shape(value.shape)}"
    if value is None or isinstance(value, bool | int | float | str):
        text = repr(value) if not isinstance(value, int) or abs(value) < 10**20 else "a huge number"
        return text if len(text) <= 60 else f"{text[:57]}..."
    return f"a {type(value).__name__}"


def _shape(shape: Sequence[int | None]) -> str:
    sizes = ", ".join("any" if size is None else str(size) for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"


@contextmanager
def state_taken_up(where: str, owner: str) -> Iterator[None]:
    """For a block in which ``owner`` restores its state from the checkpoint ``where``.

    An error for a missing or wrong entry becomes a RunStateError that names the checkpoint, the owner and the entry.
    """
    try:
        yield
    except SavedValueError as error:
        raise RunStateError(f"{where}: {owner}: {error}") from error
    except RlcoreError:
        raise
    except KeyError as error:
        raise RunStateError(f"{where}: {owner} cannot restore its state: {bad_state(error)}") from error
    except BAD_STATE as error:
        raise repeating(error, f"{where}: {owner} cannot restore its state", RunStateError) from error
