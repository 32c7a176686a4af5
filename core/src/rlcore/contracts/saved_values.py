"""Checked access to the values of a saved state, without silent conversion.

Use the functions in every ``load_state_dict``. A value that does not match raises :class:`SavedValueError`, which names
the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any

import attrs
import numpy as np
from numpy.typing import DTypeLike, NDArray

from rlcore.errors import RlcoreError, RunStateError, one_line, repeating
from rlcore.files.reading import is_number, is_whole

# The errors of code that reads a missing or wrong entry without checking it.
BAD_STATE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


class SavedValueError(RunStateError):
    """An entry of a saved state is missing or has the wrong type or shape."""


def bad_state(error: Exception) -> str:
    """The message for one of the ``BAD_STATE`` errors that a ``load_state_dict`` raised."""
    if not isinstance(error, KeyError):
        return one_line(error)
    entry = error.args[0] if error.args else "?"
    return f"the entry {entry!r} is missing"


def saved_entry(state: Mapping[str, Any], name: str) -> Any:
    """Return ``state[name]``. Raises SavedValueError if it is missing, or if ``state`` is not a mapping."""
    if not isinstance(state, Mapping):
        raise SavedValueError(f"the entry {name!r} is looked for in {_described(state)}, not in a mapping")
    if name not in state:
        raise SavedValueError(f"the entry {name!r} is missing")
    return state[name]


@attrs.frozen
class Kind:
    """A kind of JSON value: whether a value is of it, and its name in messages."""

    wanted: str
    fits: Callable[[Any], bool]


MAPPING = Kind("a mapping", lambda value: isinstance(value, Mapping))
LIST = Kind("a list", lambda value: isinstance(value, list))
TEXT = Kind("a text", lambda value: isinstance(value, str))
# A text of a file that commands print within a line. With a line break, it could print a line of its own: an error.
LINE = Kind("a text of one line", lambda value: isinstance(value, str) and len(value.splitlines()) <= 1)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
COUNT = Kind("a whole number from 0 up", is_whole)
NUMBER = Kind("a number", is_number)
FINITE = Kind("a finite number", lambda value: is_number(value) and isfinite(value))
EACH = "*"  # in a form: every key of a mapping


def require_form(value: Any, form: Any, name: str = "") -> None:
    """Raises SavedValueError, which names the entry, unless a tree of JSON values has this ``form``.

    A form is a :class:`Kind`; ``[form]`` for a list; ``{EACH: form}`` for a mapping of any keys; or a mapping from keys
    to forms, in which a key that ends with ``?`` may be absent or null. A mapping may have other keys too.
    """
    if isinstance(form, Kind):
        if not form.fits(value):
            raise SavedValueError(f"the entry {name!r} is {_described(value)}, not {form.wanted}")
        return
    if isinstance(form, list):
        require_form(value, LIST, name)
        for item in value:
            require_form(item, form[0], name)
        return
    require_form(value, MAPPING, name)
    for key, inner in form.items():
        if key == EACH:
            for entry, item in value.items():
                place = entry[:60]  # of a file that may be damaged: a key may be megabytes
                require_form(item, inner, f"{name}/{place}" if name else place)
            continue
        entry = key.removesuffix("?")
        if entry == key or value.get(entry) is not None:
            require_form(saved_entry(value, entry), inner, entry)


def has_form(value: Any, form: Any) -> bool:
    """Whether a tree of JSON values has this form; see :func:`require_form`."""
    try:
        require_form(value, form)
    except SavedValueError:
        return False
    return True


def _checked(state: Mapping[str, Any], name: str, kind: Kind) -> Any:
    value = saved_entry(state, name)
    require_form(value, kind, name)
    return value


def saved_mapping(state: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the mapping ``state[name]``. Raises SavedValueError if it is something else."""
    mapping: Mapping[str, Any] = _checked(state, name, MAPPING)
    return mapping


def saved_array(
    state: Mapping[str, Any], name: str, dtype: DTypeLike, shape: Sequence[int | None] | None = None
) -> NDArray[Any]:
    """Return the array ``state[name]``. Raises SavedValueError unless it has exactly this type and ``shape``.

    None in ``shape`` is any length.
    """
    value = saved_entry(state, name)
    wanted = np.dtype(dtype)
    fits = isinstance(value, np.ndarray) and value.dtype == wanted
    sizes = ""
    if shape is not None:
        sizes = f" of shape {_shape(shape)}"
        fits = fits and _has_shape(value, shape)
    if not fits:
        raise SavedValueError(f"the entry {name!r} is {_described(value)}, not an array of {wanted}{sizes}")
    array: NDArray[Any] = value
    return array


def _has_shape(array: NDArray[Any], shape: Sequence[int | None]) -> bool:
    if array.ndim != len(shape):
        return False
    pairs = zip(array.shape, shape, strict=True)
    return all(wanted in (None, length) for length, wanted in pairs)


def fill(target: NDArray[Any], state: Mapping[str, Any], name: str) -> None:
    """Copy ``state[name]`` into ``target``. Raises SavedValueError unless it has the type and shape of ``target``."""
    target[...] = saved_array(state, name, target.dtype, target.shape)


def saved_count(state: Mapping[str, Any], name: str) -> int:
    """Return the whole number ``state[name]``, at least 0. Raises SavedValueError if it is something else."""
    return int(_checked(state, name, COUNT))


def saved_float(state: Mapping[str, Any], name: str) -> float:
    """Return the finite number ``state[name]``. Raises SavedValueError if it is something else."""
    return float(_checked(state, name, FINITE))


def saved_bool(state: Mapping[str, Any], name: str) -> bool:
    """Return ``state[name]``, true or false. Raises SavedValueError if it is something else."""
    return bool(_checked(state, name, FLAG))


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {_shape(value.shape)}"
    if isinstance(value, int) and abs(value) >= 10**20:  # Python refuses to print one of thousands of digits
        return "a huge number"
    if value is None or isinstance(value, bool | int | float | str):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    return f"a {type(value).__name__}"


def _shape(shape: Sequence[int | None]) -> str:
    sizes = ", ".join("any" if size is None else str(size) for size in shape)
    if len(shape) == 1:
        sizes += ","
    return f"({sizes})"


@contextmanager
def loading_state(where: str, owner: str) -> Iterator[None]:
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
