"""The state of a part of a run: a tree of mappings and lists with arrays, and parts of it that checkpoints share.

:class:`FrozenState` is for the parts of a ``state_dict`` that never change, such as earlier policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

import numpy as np

from rlcore.contracts.finite import first_non_finite
from rlcore.files.reading import MAX_DEPTH

LEARNED = ("model", "optimizer", "optimizers")
"""Entries of a trainer's state that hold learned numbers. If one of them is not finite, the training has diverged."""

# The types that safetensors can store; numpy has more (texts, dates, objects).
_DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
STORED_DTYPES = frozenset(map(np.dtype, _DTYPES.split()))

TreePath = tuple[str | int, ...]
"""A place in a tree of mappings and lists: the keys of mappings, as texts, and the indices of lists."""


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
        copy = {}
        for key, item in tree.items():
            name = str(key)
            copy[name] = mapped(item, leaf, whole, (*path, name))
        return copy
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
        return
    if len(path) >= MAX_DEPTH:
        return
    if isinstance(tree, Mapping):
        for key, item in tree.items():
            yield from leaves(item, whole, (*path, str(key)))
    else:
        for index, item in enumerate(tree):
            yield from leaves(item, whole, (*path, index))


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
        if not isinstance(other, Mapping):
            return NotImplemented
        return _same(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: object) -> FrozenState:
        return self

    def __reduce__(self) -> tuple[type[FrozenState], tuple[dict[str, Any]]]:
        return FrozenState, (dict(self._entries),)

    def is_finite(self) -> bool:
        """Return whether no number is a NaN or an infinity. The values are read at the first call only."""
        if self._finite is None:
            values = (value for _, value in leaves(self._entries))
            self._finite = all(first_non_finite(value) is None for value in values)
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
        entries = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{_place(path)}: the key {key!r} is not a string")
            entries[key] = _frozen(item, (*path, key))
        return FrozenState._of(entries)
    if isinstance(value, list | tuple):
        return tuple(_frozen(item, (*path, index)) for index, item in enumerate(value))
    leaf = storable(value, path)
    if not isinstance(leaf, np.ndarray):
        return leaf
    if isinstance(leaf.base, bytes):  # frozen before
        return leaf
    # A view of bytes: unlike the flag `writeable` of other arrays, nothing makes it writable again.
    return np.ndarray(leaf.shape, leaf.dtype, leaf.tobytes())


def _same(ours: Any, theirs: Any) -> bool:
    """Whether two parts of states are equal bit for bit; lists equal tuples."""
    if isinstance(ours, Mapping):
        if not isinstance(theirs, Mapping) or ours.keys() != theirs.keys():
            return False
        return all(_same(value, theirs[key]) for key, value in ours.items())
    if isinstance(ours, list | tuple):
        if not isinstance(theirs, list | tuple) or len(ours) != len(theirs):
            return False
        return all(map(_same, ours, theirs))
    if isinstance(ours, np.ndarray):
        if not isinstance(theirs, np.ndarray):
            return False
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return False
        return ours is theirs or ours.tobytes() == theirs.tobytes()  # bytes: a NaN equals itself, and -0.0 is not 0.0
    if type(ours) is not type(theirs):
        return False
    both_nan = ours != ours and theirs != theirs
    return bool(ours == theirs or both_nan)


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
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float):
            return value if isfinite(value) else None
        if value is None or isinstance(value, bool | int | str):
            return value
        raise TypeError(f"{place(path)}{type(value).__name__} is not a JSON value")

    return mapped(value, leaf, texts_only)


def non_finite(state: Mapping[str, Any]) -> str | None:
    """The path of a NaN or an infinity among the learned numbers of a trainer's state; None if all are finite.

    Values that are nested too deep to be saved are skipped. A FrozenState that was found finite is not read again.
    """

    def found_finite(value: Any, path: TreePath) -> bool:
        return isinstance(value, FrozenState) and value.is_finite()

    last = None
    for path, value in leaves(state, found_finite):
        if isinstance(value, FrozenState) or not any(part in LEARNED for part in path):
            continue
        if first_non_finite(value) is not None:
            last = path
    return None if last is None else "/".join(map(str, last))
