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
    kind = form if isinstance(form, Kind) else LIST if isinstance(form, list) else MAPPING
    if not kind.fits(value):
        raise SavedValueError(f"the entry {name!r} is {_described(value)}, not {kind.wanted}")
    if isinstance(form, list):
        for each in value:
            require_form(each, form[0], name)
    elif isinstance(form, Mapping):
        for key, inner in form.items():
            if key == EACH:
                for entry, each in value.items():
                    require_form(each, inner, f"{name}/{entry[:60]}" if name else entry[:60])
            elif not key.endswith("?"):
                require_form(saved_entry(value, key), inner, key)
            elif value.get(key[:-1]) is not None:
                require_form(value[key[:-1]], inner, key[:-1])


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
    found: Mapping[str, Any] = _checked(state, name, MAPPING)
    return found


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
    if value is None or isinstance(value, bool | int | float | str):
        text = repr(value) if not isinstance(value, int) or abs(value) < 10**20 else "a huge number"
        return text if len(text) <= 60 else f"{text[:57]}..."
    return f"a {type(value).__name__}"


def _shape(shape: Sequence[int | None]) -> str:
    sizes = ", ".join("any" if size is None else str(size) for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"


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
