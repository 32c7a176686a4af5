"""Segments of a replay buffer: blocks of rows, of which a checkpoint writes those that changed since the last one.

A segment has all slots at a stretch of their rings. A step writes where the slots are, so that most segments of a large
buffer stay as they are between two checkpoints.
"""

from __future__ import annotations

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
        at_least = max(SEGMENT_BYTES // max(bytes_of_row, 1), -(-capacity // MOST_SEGMENTS))
        self.rows = min(-(-at_least // slots) * slots, capacity)
        count = -(-capacity // self.rows)
        self._changed = np.ones(count, np.bool_)
        self._parts: list[SharedPart | None] = [None] * count  # as a checkpoint stored them

    def change(self, rows: Rows | slice) -> None:
        """The ``rows`` have changed, all of them for ``slice(None)``."""
        self._changed[rows if isinstance(rows, slice) else rows // self.rows] = True

    def parts(self, arrays: Mapping[str, Any], filled: int, current: Rows) -> list[SharedPart]:
        """The segments with the first ``filled`` rows of ``arrays``, nested mappings of arrays [capacity, ...].

        Segments that did not change are the objects of the last call. The rows ``current`` may change from now on
        without a call of :meth:`change`.
        """
        parts = []
        for index in range(-(-filled // self.rows)):
            known = None if self._changed[index] else self._parts[index]
            if known is None:
                known = SharedPart(rows_of(arrays, index * self.rows, min((index + 1) * self.rows, filled)))
                self._parts[index] = known
            parts.append(known)
        self._changed[:] = False
        self.change(current)
        return parts

    def loaded(self, saved: Sequence[Any], arrays: Mapping[str, Any], filled: int, current: Rows) -> None:
        """``arrays`` were just filled with the segments ``saved``, each of which has :attr:`rows` rows."""
        self.change(slice(None))
        for part, each in zip(self.parts(arrays, filled, current), saved, strict=True):
            if isinstance(each, FrozenState):  # its values cannot have changed since its checksum was computed
                part.checksum = each.checksum


def rows_of(arrays: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    """Views of the rows from ``start`` to ``stop`` of nested mappings of arrays."""
    return {
        name: rows_of(array, start, stop) if isinstance(array, Mapping) else array[start:stop]
        for name, array in arrays.items()
    }


def saved_segments(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the segments that ``state`` has in its entry ``segments``. Raises SavedValueError."""
    saved = saved_entry(state, "segments")
    if not isinstance(saved, list | tuple):
        raise SavedValueError("the entry 'segments' is not a list")
    return [saved_mapping({"segments": each}, "segments") for each in saved]
