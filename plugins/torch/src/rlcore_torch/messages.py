"""Trees of arrays and JSON values as bytes, and back. Nothing is pickled: a message cannot run code."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from rlcore import TreePath, mapped, storable

_ARRAY = "$array"  # {"$array": [type, shape, offset]} stands where an array was


def encoded(tree: Any) -> bytes:
    """Return the bytes of ``tree``, nested mappings and lists.

    Raises TypeError for a value that is neither an array nor JSON.
    """
    arrays: list[np.ndarray[Any, Any]] = []
    size = 0

    def split(value: Any, path: TreePath) -> Any:
        nonlocal size
        leaf = storable(value, path)
        if not isinstance(leaf, np.ndarray):
            return leaf
        mark = {_ARRAY: [leaf.dtype.str, list(leaf.shape), size]}
        arrays.append(leaf)
        size += leaf.nbytes
        return mark

    head = json.dumps(mapped(tree, split)).encode()
    parts = [len(head).to_bytes(8, "little"), head]
    parts += [array.tobytes() for array in arrays]
    return b"".join(parts)


def decoded(message: bytes | memoryview) -> Any:
    """Return the tree that :func:`encoded` made ``message`` of; arrays can be written to.

    Raises ValueError, TypeError or KeyError for other bytes.
    """
    view = memoryview(message)
    begin = 8 + int.from_bytes(view[:8], "little")  # of the arrays
    head = json.loads(bytes(view[8:begin]))

    def is_array(value: dict[str, Any], path: TreePath) -> bool:
        return value.keys() == {_ARRAY}

    def join(value: Any, path: TreePath) -> Any:
        if not isinstance(value, dict):
            return value
        dtype, shape, offset = value[_ARRAY]
        array = np.frombuffer(view, dtype, math.prod(shape), begin + offset)
        return array.reshape(shape).copy()

    return mapped(head, join, is_array)
