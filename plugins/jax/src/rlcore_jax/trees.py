"""Trees of JAX's arrays as mappings of numpy arrays, by the path of each leaf: what a checkpoint stores.

No object is pickled: a tree is restored into one of the same structure, which a reset makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from rlcore import SavedValueError, saved_array


def saved_tree(tree: Any) -> dict[str, NDArray[Any]]:
    """Return copies of the leaves of ``tree`` by their paths, such as ``state/_x/board``; of keys, their numbers."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    arrays = {}
    for path, leaf in leaves:
        numbers = _numbers(leaf)
        arrays[_name(path)] = np.array(numbers)  # a copy
    return arrays


def restored_tree(saved: Mapping[str, Any], like: Any) -> Any:
    """Return a tree with the structure of ``like`` and the leaves ``saved``.

    Raises SavedValueError for a leaf that is missing, unknown or of another type or shape.
    """
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    leaves = {_name(path): leaf for path, leaf in paths}
    known = ", ".join(leaves)
    for name in saved.keys() - leaves.keys():
        raise SavedValueError(f"the entry {name!r} is unknown here; the simulator has {known}")
    restored = [_restored(saved, name, leaf) for name, leaf in leaves.items()]
    return jax.tree.unflatten(structure, restored)


def _restored(saved: Mapping[str, Any], name: str, like: Any) -> Any:
    numbers = _numbers(like)
    array = saved_array(saved, name, numbers.dtype, numbers.shape)
    # A copy: JAX may share the memory of an array that it gets, and write there.
    copy = jax.numpy.array(array, copy=True)
    # Where `like` is: a program would be compiled once more for arrays that are not bound to its device.
    copy = jax.device_put(copy, numbers.sharding)
    if _is_key(like):
        algorithm = jax.random.key_impl(like)
        return jax.random.wrap_key_data(copy, impl=algorithm)
    return copy


def _numbers(leaf: Any) -> Any:
    """Return the numbers of a leaf: NumPy has no array of JAX's keys."""
    if _is_key(leaf):
        return jax.random.key_data(leaf)
    return leaf


def _is_key(leaf: Any) -> bool:
    is_key = jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return bool(is_key)


def _name(path: Any) -> str:
    name: str = jax.tree_util.keystr(path, simple=True, separator="/")
    return name
