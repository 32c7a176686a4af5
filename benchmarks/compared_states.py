"""Compares the states at the ends of two trainings by kind, and what TensorBoard shows of them, for resume_contest.py.

A state maps ``KIND/NAME`` to an array. Equal means equal bits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

KINDS = {
    "weights": "weights",
    "optimizer": "optimizer moments and steps",
    "steps": "step counter",
    "updates": "update counter",
    "normalizer": "normalizer statistics",
    "replay": "replay rows",
    "random": "random states",
    "observation": "last observation",
    "rate": "learning rate",
}
COUNTERS = ("steps", "updates", "rate")  # shown as values instead of a difference


def same(one: Any, other: Any) -> bool:
    """Whether two arrays have one type, one shape and equal bits."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def of_kind(state: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the arrays of one kind."""
    return {name: array for name, array in state.items() if name.split("/")[0] == kind}


def compare(kind: str, whole: dict[str, Any], other: dict[str, Any]) -> str:
    """Compare two states in one kind: ``equal``, ``none`` if both have nothing, or how much differs."""
    ours, theirs = of_kind(whole, kind), of_kind(other, kind)
    if not ours and not theirs:
        return "none"
    differ = [name for name in sorted(ours.keys() | theirs.keys()) if not held_alike(name, ours, theirs)]
    if not differ:
        return "equal"
    if kind in COUNTERS:
        return f"{values(theirs)} instead of {values(ours)}"
    if kind == "random":
        return f"differs: {', '.join(short(name) for name in differ)}"
    if kind == "replay":
        return rows_that_differ(ours, theirs)
    gaps = [gap(ours[name], theirs[name]) for name in differ if name in ours and name in theirs]
    known = [each for each in gaps if each is not None]
    by = f", at most {max(known):.3g}" if known else ""
    return f"differs{by} ({len(differ)} of {len(ours)} arrays)"


def held_alike(name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Return whether both states have the array ``name``, with equal bits."""
    return name in ours and name in theirs and same(ours[name], theirs[name])


def short(name: str) -> str:
    return name.partition("/")[2].split("/")[-1]


def values(arrays: dict[str, Any]) -> str:
    """Numbers as one reads them, each once."""
    numbers = [float(array) for array in arrays.values() if np.ndim(array) == 0]
    shown = [f"{number:,.0f}" if number == int(number) and number > 1 else f"{number:.4g}" for number in numbers]
    return ", ".join(dict.fromkeys(shown)) or "none"


def gap(one: Any, other: Any) -> float | None:
    """The largest absolute difference of two arrays of one shape."""
    if one.shape != other.shape or not one.size:
        return None
    return float(np.max(np.abs(one.astype(np.float64) - other.astype(np.float64))))


def rows_that_differ(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """Compare the rows of two replay buffers by what all columns have in them."""
    one, two = list(rows(ours)), list(rows(theirs))
    equal = sum(a == b for a, b in zip(one, two, strict=False))
    return f"differs: {len(one) - equal:,} of {len(one):,} rows, {len(two):,} held"


def rows(columns: dict[str, Any]) -> Iterator[tuple[bytes, ...]]:
    """Yield the bits of all columns, row by row."""
    names = sorted(columns)
    held = len(columns[names[0]]) if names else 0
    wide = [columns[name] for name in names if np.ndim(columns[name]) and len(columns[name]) == held]
    for row in range(held):
        yield tuple(column[row].tobytes() for column in wide)


def tensorboard_points(place: Path) -> list[tuple[str, int]]:
    """Every scalar as TensorBoard shows it, by tag and step, in the order of its event files."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it reports each point that it drops

    points = []
    files = place.rglob("events.out.tfevents.*")
    folders = sorted({file.parent for file in files}, key=lambda path: path.stat().st_mtime)
    for folder in folders:
        accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
        accumulator.Reload()
        for tag in sorted(accumulator.Tags()["scalars"]):
            points += [(tag, event.step) for event in accumulator.Scalars(tag)]
    return points


def compare_tensorboard(whole: Path, other: Path) -> str:
    """Compare what TensorBoard shows of B and A: points that are missing, repeated or new, and steps that go back."""
    expected, found = tensorboard_points(whole), tensorboard_points(other)
    if not expected and not found:
        return "none"
    missing = len(set(expected) - set(found))
    others = len(set(found) - set(expected))
    repeated = len(found) - len(set(found))
    back = sum(one[0] == two[0] and two[1] < one[1] for one, two in pairwise(found))
    if not (missing or others or repeated or back):
        return "equal"
    parts = {"missing": missing, "repeated": repeated, "at other steps": others, "times a step back": back}
    told = ", ".join(f"{number:,} {what}" for what, number in parts.items() if number)
    return f"{told} (of {len(expected):,})"
