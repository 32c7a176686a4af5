"""Segments of a replay buffer: blocks of rows, of which a checkpoint writes those that changed since the last one.

A segment has all slots at a stretch of their rings. A step writes where the slots are, so that most segments of a large
buffer stay as they are between two checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import FrozenState, SavedValueError, SharedPart, saved_entry, saved_mapping

Rows = NDArray[np.int64]

SEGMENT_BYTES = 2 << 20  # of a segment, at least; a slot's current segment is written at every checkpoint
MOST_SEGMENTS = 256  # of a buffer: each is a file of a checkpoint


class ReplaySegments:
    """Tracks the segments that changed since a checkpoint stored them.

    Attributes:
        rows: Rows of a segment, a multiple of the number of slots; the last one may have fewer.
    """

    def __init__(self, capacity: int, slots: int, bytes_of_row: int) -> None:
        rows_of_bytes = SEGMENT_BYTES // max(bytes_of_row, 1)
        least = max(rows_of_bytes, math.ceil(capacity / MOST_SEGMENTS))
        self.rows = min(math.ceil(least / slots) * slots, capacity)
        count = math.ceil(capacity / self.rows)
        self._changed = np.ones(count, np.bool_)
        self._parts: list[SharedPart | None] = [None] * count  # as a checkpoint stored them

    def change(self, rows: Rows | slice) -> None:
        """Note that ``rows`` have changed, all of them for ``slice(None)``."""
        if isinstance(rows, slice):
            self._changed[rows] = True
        else:
            self._changed[rows // self.rows] = True

    def parts(self, arrays: Mapping[str, Any], filled: int, current: Rows) -> list[SharedPart]:
        """Return the segments with the first ``filled`` rows of ``arrays``, nested mappings of arrays [capacity, ...].

        Segments that did not change are the objects of the last call. The rows ``current`` may change from now on
        without a call of :meth:`change`.
        """
        parts = []
        for index, start in enumerate(range(0, filled, self.rows)):
            part = self._parts[index]
            if part is None or self._changed[index]:
                stop = min(start + self.rows, filled)
                part = SharedPart(rows_of(arrays, start, stop))
                self._parts[index] = part
            parts.append(part)
        self._changed[:] = False
        self.change(current)
        return parts

    def loaded(self, saved: Sequence[Any], arrays: Mapping[str, Any], filled: int, current: Rows) -> None:
        """Note that ``arrays`` were just filled with the segments ``saved``, each of which has :attr:`rows` rows."""
        self.change(slice(None))
        parts = self.parts(arrays, filled, current)
        for part, state in zip(parts, saved, strict=True):
            if isinstance(state, FrozenState):  # its values cannot have changed since its checksum was computed
                part.checksum = state.checksum


def rows_of(arrays: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    """Return views of the rows from ``start`` to ``stop`` of nested mappings of arrays."""
    views: dict[str, Any] = {}
    for name, array in arrays.items():
        if isinstance(array, Mapping):
            views[name] = rows_of(array, start, stop)
        else:
            views[name] = array[start:stop]
    return views


def saved_segments(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the segments that ``state`` has in its entry ``segments``. Raises SavedValueError."""
    saved = saved_entry(state, "segments")
    if not isinstance(saved, list | tuple):
        raise SavedValueError("the entry 'segments' is not a list")
    return [saved_mapping({"segments": segment}, "segments") for segment in saved]
