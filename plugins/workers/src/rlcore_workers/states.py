"""States of environments that save themselves, for any number of workers: joined to one, and split.

This needs a state of rows: see :class:`rlcore.SavesRows`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from rlcore.contracts.saved_values import SavedValueError

FIRST = "first_env"


def join_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The state of all environments, from those of consecutive blocks."""
    joined: dict[str, Any] = {}
    first = states[0]
    for name, value in first.items():
        values = [state[name] for state in states]
        if isinstance(value, Mapping):
            joined[name] = join_states(values)
        elif isinstance(value, np.ndarray):
            joined[name] = np.concatenate(values)
        elif isinstance(value, list):
            joined[name] = [row for rows in values for row in rows]
        else:
            joined[name] = value
    return joined


def split_state(state: Mapping[str, Any], counts: Sequence[int]) -> list[dict[str, Any]]:
    """The states of blocks with ``counts`` environments each. Raises SavedValueError for another number in all."""
    bounds = [0, *accumulate(counts)]
    parts: list[dict[str, Any]] = [{} for _ in counts]
    for name, value in state.items():
        if isinstance(value, Mapping):
            for part, inner in zip(parts, split_state(value, counts), strict=True):
                part[name] = inner
            continue
        rows = isinstance(value, np.ndarray | list)
        if rows and len(value) != bounds[-1]:
            raise SavedValueError(f"the entry {name!r} has {len(value)} rows, not one for each of {bounds[-1]}")
        for part, (start, end) in zip(parts, pairwise(bounds), strict=True):
            part[name] = value[start:end] if rows else value + start if name == FIRST else value
    return parts
