"""Trees of arrays and JSON values as bytes, and back. Nothing is pickled: a message cannot run code."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rlcore import TreePath, mapped, storable

_ARRAY = "$array"  # {"$array": [type, shape, offset]} stands where an array was


def encoded(tree: Any) -> bytes:
    """The bytes of ``tree``. Raises TypeError for a value that is neither an array nor JSON."""
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
    parts = [len(head).to_bytes(8, "little"), head, *(array.tobytes() for array in arrays)]
    return b"".join(parts)


def decoded(message: bytes | memoryview) -> Any:
    """The tree that :func:`encoded` made ``message`` of; arrays can be written to."""
    view = memoryview(message)
    begin = 8 + int.from_bytes(view[:8], "little")

    def join(value: Any, path: TreePath) -> Any:
        if not isinstance(value, dict):
            return value
        kind, shape, offset = value[_ARRAY]
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(view, np.dtype(kind), count, begin + offset).reshape(shape).copy()

    return mapped(json.loads(bytes(view[8:begin])), join, lambda each, path: each.keys() == {_ARRAY})
