"""Single values of a file as Python's types: numbers, also written as text, true or false, text and paths."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rlcore.config.collected import INVALID, Invalid


def to_float(value: Any) -> float | Invalid:
    """The finite number that a value of a file stands for, or INVALID."""
    if isinstance(value, str):  # YAML 1.1 reads 3e-4 as text, because it has no dot
        try:
            value = float(value)
        except ValueError:
            return INVALID
    if isinstance(value, bool) or not isinstance(value, int | float):
        return INVALID
    try:
        number = float(value)
    except OverflowError:
        return INVALID
    return number if math.isfinite(number) else INVALID


def _to_int(value: Any) -> int | Invalid:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = to_float(value)
    return int(number) if isinstance(number, float) and number.is_integer() else INVALID


# The value as the type, or INVALID.
CONVERTERS: Mapping[Any, Callable[[Any], Any]] = types.MappingProxyType(
    {
        bool: lambda value: value if isinstance(value, bool) else INVALID,
        int: _to_int,
        float: to_float,
        str: lambda value: value if isinstance(value, str) else INVALID,
        Path: lambda value: Path(value) if isinstance(value, str) else INVALID,
        type(None): lambda value: value if value is None else INVALID,
    }
)
# The type as messages call it.
NAMES: Mapping[Any, str] = types.MappingProxyType(
    {
        bool: "true or false",
        int: "a whole number",
        float: "a finite number",
        str: "text",
        Path: "text",
        type(None): "null",
    }
)
