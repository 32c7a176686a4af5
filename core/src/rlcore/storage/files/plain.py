"""Conversion of values to plain JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np


def plain(value: Any, path: str = "") -> Any:
    """A copy of ``value`` that holds only JSON values.

    Numpy's scalars become Python's, and numbers that are not finite null.

    Raises TypeError, with the ``path`` to the value, for anything else, and RecursionError for a value that contains
    itself.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{path}the key {key!r} is not a text")
        return {key: plain(each, f"{path}{key}: ") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, f"{path}{index}: ") for index, each in enumerate(value)]
    raise TypeError(f"{path}{type(value).__name__} is not a JSON value")
