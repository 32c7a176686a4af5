"""Values as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np


def plain(value: Any, path: str = "") -> Any:
    """A copy of JSON values alone: numpy's numbers become Python's, and what is not finite null, as in metrics.jsonl.

    TypeError, with the ``path`` to it, for what is neither, RecursionError for what holds itself.
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
                raise TypeError(f"{path}the key {key!r} is no text")
        return {key: plain(each, f"{path}{key}: ") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, f"{path}{index}: ") for index, each in enumerate(value)]
    raise TypeError(f"{path}{type(value).__name__} is no JSON value")
