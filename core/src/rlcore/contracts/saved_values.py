"""Values of a saved state: checked access without silent conversion, and parts that are saved once.

Use the functions in every ``load_state_dict``. A value that does not match raises :class:`SavedValueError`, which names
the entry. :class:`FrozenState` is for the parts of a ``state_dict`` that never change, such as earlier policies.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite, isnan
from typing import Any

import attrs
import numpy as np
from numpy.typing import DTypeLike, NDArray

from rlcore.errors import RlcoreError, RunStateError, one_line, repeating
from rlcore.files.reading import MAX_DEPTH, is_number, is_whole

LEARNED = ("model", "optimizer", "optimizers")
"""Entries of a trainer's state that hold learned numbers. If one of them is not finite, the training has diverged."""

# The errors of code that reads a missing or wrong entry without checking it.
BAD_STATE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)

# The types that safetensors can store; numpy has more (texts, dates, objects).
STORED_DTYPES = frozenset(np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)) | {
    np.dtype(name) for name in ("bool", "float16", "float32", "float64")
}


TreePath = tuple[str | int, ...]
"""A place in a tree of mappings and lists: the keys of mappings, as texts, and the indices of lists."""


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


# ---------------------------------------------------------------- numbers that are not finite

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


# ---------------------------------------------------------------- trees of mappings and lists


def _never(tree: Any, path: TreePath) -> bool:
    return False


def mapped(
    tree: Any,
    leaf: Callable[[Any, TreePath], Any],
    whole: Callable[[Any, TreePath], bool] = _never,
    path: TreePath = (),
) -> Any:
    """A copy of a tree of mappings and lists, with ``leaf(value, path)`` in the place of each other value.

    A mapping for which ``whole(mapping, path)`` is true is given to ``leaf`` too. Keys become texts, tuples lists.
    """
    if isinstance(tree, Mapping) and not whole(tree, path):
        return {str(key): mapped(item, leaf, whole, (*path, str(key))) for key, item in tree.items()}
    if isinstance(tree, list | tuple):
        return [mapped(item, leaf, whole, (*path, index)) for index, item in enumerate(tree)]
    return leaf(tree, path)


def leaves(
    tree: Any, whole: Callable[[Any, TreePath], bool] = _never, path: TreePath = ()
) -> Iterator[tuple[TreePath, Any]]:
    """The path and the value of each leaf of a tree of mappings and lists, in their order.

    An empty mapping or list, and one for which ``whole(value, path)`` is true, is a leaf. Skips what is nested too deep
    to be saved.
    """
    if not isinstance(tree, Mapping | list | tuple) or not tree or whole(tree, path):
        yield path, tree
    elif len(path) < MAX_DEPTH:
        pairs = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
        for key, item in pairs:
            yield from leaves(item, whole, (*path, key if isinstance(tree, list | tuple) else str(key)))


# ---------------------------------------------------------------- parts that never change


class StatePart(Mapping[str, Any]):
    """A part of a state whose arrays checkpoints share.

    Attributes:
        checksum: SHA-256 of the file with the arrays; an empty string before a checkpoint was written or loaded.
    """

    __slots__ = ("_entries", "checksum")

    _entries: Mapping[str, Any]
    checksum: str

    def __getitem__(self, key: str) -> Any:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class FrozenState(StatePart):
    """A part of a state that never changes, such as a policy that self-play keeps: checkpoints share its arrays.

    A trainer returns it from ``state_dict`` in the place of a mapping, and keeps the object for the next checkpoint::

        self.opponents.append(FrozenState(self.snapshot().state_dict()))
        ...
        return {"model": ..., "opponents": list(self.opponents)}

    A checkpoint stores the arrays of each FrozenState in a file named after the SHA-256 of the file's content. If an
    earlier checkpoint of the run has that file, the new checkpoint links to it instead of writing it again. Only the
    checkpoint before has a file of its own, in case one is damaged. ``load_state_dict`` gets a FrozenState again, and
    ``FrozenState(...)`` of a FrozenState copies nothing.

    The content is copied, and cannot be changed: arrays are read-only, mappings are FrozenStates, lists become tuples.
    A FrozenState inside another one is stored as a part of that one. Two are equal if their values are equal bit for
    bit. Raises TypeError for a key that is not a string, and for a value that a checkpoint cannot hold.

    Attributes:
        checksum: SHA-256 of the file with the arrays, set when a checkpoint is written or loaded; before, and without
            arrays, an empty string.
    """

    __slots__ = ("_finite",)

    def __init__(self, entries: Mapping[str, Any]) -> None:
        """``entries``: nested mappings of numpy arrays and JSON values."""
        known = entries if isinstance(entries, FrozenState) else _frozen(entries, ())
        self._entries = known._entries
        self.checksum = known.checksum
        self._finite: bool | None = known._finite

    @classmethod
    def _of(cls, entries: dict[str, Any]) -> FrozenState:
        """``entries`` themselves, which nothing else may change, and whose values are frozen."""
        frozen = cls.__new__(cls)
        frozen._entries = entries
        frozen._finite = None
        frozen.checksum = ""
        return frozen

    def __eq__(self, other: object) -> bool:
        return _same(self, other) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: object) -> FrozenState:
        return self

    def __reduce__(self) -> tuple[type[FrozenState], tuple[dict[str, Any]]]:
        return FrozenState, (dict(self._entries),)

    def is_finite(self) -> bool:
        """Return whether no number is a NaN or an infinity. The values are read at the first call only."""
        if self._finite is None:
            self._finite = all(first_non_finite(value) is None for _, value in leaves(self._entries))
        return self._finite


class SharedPart(StatePart):
    """A part of a state that seldom changes, such as a block of rows of a replay buffer: checkpoints share its arrays.

    Its arrays are stored as those of a :class:`FrozenState`, but are not copied, so that a large part is in memory
    once. They may change until the object is saved, not later: as soon as they do, return a new object from
    ``state_dict``, and until then the same one. ``load_state_dict`` gets a FrozenState.

    Attributes:
        checksum: SHA-256 of the file with the arrays, set when a checkpoint is written; before, an empty string.
    """

    __slots__ = ()

    def __init__(self, entries: Mapping[str, Any]) -> None:
        """``entries``: nested mappings of numpy arrays and JSON values."""
        self._entries = entries
        self.checksum = ""


def _frozen(value: Any, path: TreePath) -> Any:
    """A copy of ``value`` that cannot be changed; ``path`` is its place, for messages."""
    if isinstance(value, FrozenState):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{_place(path)}: the key {key!r} is not a string")
        return FrozenState._of({key: _frozen(item, (*path, key)) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(_frozen(item, (*path, index)) for index, item in enumerate(value))
    leaf = storable(value, path)
    if not isinstance(leaf, np.ndarray) or isinstance(leaf.base, bytes):
        return leaf
    return np.ndarray(leaf.shape, leaf.dtype, leaf.tobytes())  # bytes: no flag makes it writable again


def _same(ours: Any, theirs: Any) -> bool:
    """Whether two parts of states are equal bit for bit; lists equal tuples."""
    if isinstance(ours, Mapping):
        return (
            isinstance(theirs, Mapping)
            and ours.keys() == theirs.keys()
            and all(_same(value, theirs[key]) for key, value in ours.items())
        )
    if isinstance(ours, list | tuple):
        return isinstance(theirs, list | tuple) and len(ours) == len(theirs) and all(map(_same, ours, theirs))
    if isinstance(ours, np.ndarray):
        alike = isinstance(theirs, np.ndarray) and (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        return alike and (ours is theirs or ours.tobytes() == theirs.tobytes())
    return type(ours) is type(theirs) and bool(ours == theirs or (ours != ours and theirs != theirs))


def storable(value: Any, path: TreePath) -> Any:
    """Return a leaf of a state as checkpoints hold it: an array, or a JSON value. Raises TypeError for others."""
    if isinstance(value, np.ndarray):
        if value.dtype not in STORED_DTYPES:
            raise TypeError(f"{_place(path)}: an array of {value.dtype} cannot be saved")
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{_place(path)}: {type(value).__name__} is neither an array nor a JSON value")


def _place(path: TreePath) -> str:
    return f"state entry {'/'.join(map(str, path))!r}"


def json_values(value: Any) -> Any:
    """A copy of ``value`` that holds only JSON values.

    Numpy's scalars become Python's, and numbers that are not finite null.

    Raises TypeError, with the path to the value, for anything else, and RecursionError for one that contains itself.
    """

    def place(path: TreePath) -> str:
        return "".join(f"{key}: " for key in path)

    def texts_only(value: Any, path: TreePath) -> bool:
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{place(path)}the key {key!r} is not a text")
        return False

    def leaf(value: Any, path: TreePath) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, float):
            return value if isfinite(value) else None
        if value is None or isinstance(value, bool | int | str):
            return value
        raise TypeError(f"{place(path)}{type(value).__name__} is not a JSON value")

    return mapped(value, leaf, texts_only)


# ---------------------------------------------------------------- checks of whole states


def non_finite(state: Mapping[str, Any]) -> str | None:
    """The path of a NaN or an infinity among the learned numbers of a trainer's state; None if all are finite.

    Values that are nested too deep to be saved are skipped. A FrozenState that was found finite is not read again.
    """

    def found_finite(value: Any, path: TreePath) -> bool:
        return isinstance(value, FrozenState) and value.is_finite()

    for path, value in reversed(list(leaves(state, found_finite))):
        learned = any(part in LEARNED for part in path) and not isinstance(value, FrozenState)
        if learned and first_non_finite(value) is not None:
            return "/".join(map(str, path))
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
