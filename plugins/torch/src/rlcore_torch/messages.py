"""Trees of arrays and JSON values as bytes, and back. Nothing is pickled: a message cannot run code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rlcore import storable

_ARRAY = "$array"  # {"$array": [type, shape, offset]} stands where an array was


def encoded(tree: Any) -> bytes:
    """The bytes of ``tree``. Raises TypeError for a value that is neither an array nor JSON."""
    arrays: list[np.ndarray[Any, Any]] = []
    size = 0

    def split(value: Any, path: tuple[str, ...]) -> Any:
        nonlocal size
        if isinstance(value, Mapping):
            return {str(key): split(item, (*path, str(key))) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [split(item, (*path, str(index))) for index, item in enumerate(value)]
        leaf = storable(value, path)
        if not isinstance(leaf, np.ndarray):
            return leaf
        mark = {_ARRAY: [leaf.dtype.str, list(leaf.shape), size]}
        arrays.append(leaf)
        size += leaf.nbytes
        return mark

    head = json.dumps(split(tree, ())).encode()
    parts = [len(head).to_bytes(8, "little"), head, *(array.tobytes() for array in arrays)]
    return b"".join(parts)


def decoded(message: bytes | memoryview) -> Any:
    """The tree that :func:`encoded` made ``message`` of; arrays can be written to."""
    view = memoryview(message)
    begin = 8 + int.from_bytes(view[:8], "little")

    def join(value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() == {_ARRAY}:
                kind, shape, offset = value[_ARRAY]
                count = int(np.prod(shape, dtype=np.int64))
                return np.frombuffer(view, np.dtype(kind), count, begin + offset).reshape(shape).copy()
            return {key: join(item) for key, item in value.items()}
        if isinstance(value, list):
            return [join(item) for item in value]
        return value

    return join(json.loads(bytes(view[8:begin])))
