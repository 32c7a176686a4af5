"""Values in documents that another program may have written: a tree of mappings, in which anything may be missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

LARGEST = 1e300  # sums of larger numbers may be infinite


def at_path(document: Any, *path: str) -> Any:
    """The value at ``path`` in a tree of mappings; None if there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def items_at(document: Any, *path: str) -> Iterable[tuple[str, Any]]:
    """The items of the mapping at ``path``; none if there is no mapping."""
    mapping = at_path(document, *path)
    return mapping.items() if isinstance(mapping, Mapping) else ()


def list_at(document: Any, *path: str) -> list[Any]:
    """The list at ``path``; an empty one if there is none."""
    values = at_path(document, *path)
    return values if isinstance(values, list) else []


def finite(value: Any) -> float | None:
    """A number of which means can be computed, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LARGEST else None


def by_path(document: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """The values of a tree of mappings by path. An empty mapping in it is a value."""
    values: dict[tuple[str, ...], Any] = {}
    for key, value in document.items():
        below = (*path, str(key))
        if isinstance(value, Mapping) and value:
            values |= by_path(value, below)
        else:
            values[below] = value
    return values
