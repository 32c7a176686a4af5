"""States, batches and actions of two runs: copy, compare, and check that a checkpoint can hold them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from rlcore import FrozenState, load_checkpoint, save_checkpoint

NOT_RESTORED = "load_state_dict does not restore what state_dict gave"


def copied(state: Any) -> Any:
    """Return a copy of nested mappings, lists and objects of arrays that shares no memory, except in frozen parts."""
    if isinstance(state, FrozenState):  # its content cannot be changed
        return state
    if isinstance(state, Mapping):
        return {key: copied(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [copied(value) for value in state]
    if isinstance(state, np.ndarray):
        return state.copy()
    if attrs.has(type(state)):
        fields = copied(_fields(state))
        return type(state)(**fields)
    return state


def check_storable(state: Any, where: str = "state_dict()") -> None:
    """Check that the state consists of nested mappings of numpy arrays and JSON values."""
    if isinstance(state, Mapping):
        for key, value in state.items():
            assert isinstance(key, str), f"{where}: the key {key!r} is not a string"
            check_storable(value, f"{where}[{key!r}]")
    elif isinstance(state, list | tuple):
        for value in state:
            check_storable(value, f"{where}[...]")
    else:
        kind = type(state).__name__
        plain = state is None or isinstance(state, bool | int | float | str | np.ndarray)
        assert plain, f"{where} is a {kind}, neither a numpy array nor JSON"


def equal(ours: Any, theirs: Any) -> bool:
    """Return whether two states are equal bit for bit."""
    try:
        assert_equal(ours, theirs)
    except AssertionError:
        return False
    return True


def assert_equal(ours: Any, theirs: Any, message: str = "", where: str = "") -> None:
    """Assert that two states, batches or actions are equal bit for bit."""
    ours = _fields(ours)
    theirs = _fields(theirs)
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        differing = [str(key) for key in ours.keys() ^ theirs.keys()]
        names = ", ".join(sorted(differing))
        assert not differing, f"{message} {where}: only one has {names}"
        for key, value in ours.items():
            assert_equal(value, theirs[key], message, f"{where}[{key!r}]")
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs), f"{message} {where}: {len(ours)} and {len(theirs)} entries"
        pairs = zip(ours, theirs, strict=True)
        for index, (mine, other) in enumerate(pairs):
            assert_equal(mine, other, message, f"{where}[{index}]")
    else:
        np.testing.assert_array_equal(ours, theirs, err_msg=f"{message} {where}")


def assert_resumes(
    original: Any, resumed: Any, directory: Path, go_on: Callable[[Any], Any], message: str = ""
) -> None:
    """Assert that ``resumed`` continues from the state of ``original`` exactly; a checkpoint holds the state.

    ``go_on`` uses one of them, and returns what must be equal.
    """
    state = copied(original.state_dict())
    loaded = through_a_file(state, directory)
    resumed.load_state_dict(loaded)
    assert_equal(state, resumed.state_dict(), NOT_RESTORED)
    ours = go_on(original)
    theirs = go_on(resumed)
    assert_equal(ours, theirs, message)
    assert_equal(original.state_dict(), resumed.state_dict(), message)


def check_statistics(stats: Mapping[str, Any]) -> None:
    """Check that an update returned finite numbers by tag."""
    for tag, value in stats.items():
        mean = np.mean(value)
        assert isinstance(tag, str) and np.isfinite(mean), f"{tag!r} is {value}"


def global_generators() -> tuple[Any, ...]:
    """Return the states of the generators of ``random`` and ``numpy.random``, which any draw changes."""
    kind, numbers, *used = np.random.get_state()  # noqa: NPY002
    content = np.asarray(numbers).tobytes()  # which == compares as one value
    return random.getstate(), (kind, content, *used)


def through_a_file(state: Any, directory: Path) -> Any:
    """Return the state as a checkpoint in ``directory`` gives it back; check that the checkpoint can hold it."""
    check_storable(state)
    path = save_checkpoint(directory, 1, {"state": state})
    return load_checkpoint(path)["state"]


def _fields(value: Any) -> Any:
    """The fields of an attrs object by name, such as those of a batch; any other value as it is."""
    if not attrs.has(type(value)):
        return value
    return attrs.asdict(value, recurse=False)
