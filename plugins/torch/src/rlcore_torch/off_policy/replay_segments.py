"""Segments of a replay buffer: blocks of rows, of which a checkpoint writes those that changed since the last one.

A segment has all slots at a stretch of their rings. A step writes where the slots are, so that most segments of a large
buffer stay as they are between two checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import FrozenState, SharedPart

Rows = NDArray[np.int64]

SEGMENT_BYTES = 2 << 20  # of a segment, at least; a slot's current segment is written at every checkpoint
MOST_SEGMENTS = 256  # of a buffer: each is a file of a checkpoint


class ReplaySegments:
    """Tracks the segments that changed since a checkpoint stored them.

    Attributes:
        rows: Rows of a segment, a multiple of the number of slots; the last one may have fewer.
    """

    def __init__(self, capacity: int, slots: int, bytes_of_row: int) -> None:
        self._positions = capacity // slots  # of a slot's ring
        at_least = max(SEGMENT_BYTES // max(bytes_of_row, 1), -(-capacity // MOST_SEGMENTS))
        self._length = min(-(-at_least // slots), self._positions)  # positions of a segment
        self._slots = slots
        self.rows = self._length * slots
        count = -(-self._positions // self._length)
        self._changed = np.ones(count, np.bool_)
        self._parts: list[SharedPart | None] = [None] * count  # as a checkpoint stored them
        self._heads: Rows | None = None  # [S] position of each slot when the parts were made

    def change_all(self) -> None:
        """All rows may have changed."""
        self._changed[:] = True

    def change(self, rows: Rows) -> None:
        """The ``rows`` [B] have changed, away from where the slots are."""
        self._changed[np.unique(rows // self.rows)] = True

    def parts(self, arrays: Mapping[str, Any], filled: int, head: Rows, moved: int) -> list[SharedPart]:
        """The segments with the first ``filled`` rows of ``arrays``, nested mappings of arrays [capacity, ...].

        The slots are at the rows ``head`` [S], and have moved on by at most ``moved`` rows each since the last call.
        Segments that did not change are the objects of the last call.
        """
        self._pass_over(head // self._slots, moved)
        parts = []
        for index in range(-(-filled // self.rows)):
            known = None if self._changed[index] else self._parts[index]
            if known is None:
                known = SharedPart(rows_of(arrays, index * self.rows, min((index + 1) * self.rows, filled)))
                self._parts[index] = known
            parts.append(known)
        self._changed[:] = False
        return parts

    def loaded(self, saved: Sequence[Any], arrays: Mapping[str, Any], filled: int, head: Rows) -> None:
        """``arrays`` were just filled with the segments ``saved``, each of which has :attr:`rows` rows."""
        self._heads = None
        self.change_all()
        parts = self.parts(arrays, filled, head, 0)
        for part, each in zip(parts, saved, strict=True):
            if isinstance(each, FrozenState):  # its values cannot have changed since its checksum was computed
                part.checksum = each.checksum

    def _pass_over(self, positions: Rows, moved: int) -> None:
        """Mark the segments of all rows that slots at ``positions`` [S] have written since the last call."""
        before, self._heads = self._heads, positions.copy()
        if before is None or moved + 2 >= self._positions:
            self.change_all()
            return
        first = (before - 1) % self._positions  # an episode that is cut marks the transition before the current one
        last = first + (positions - first) % self._positions  # [S], not wrapped
        begins = np.zeros(len(self._changed) + 1, np.int64)
        wrapped = last >= self._positions
        np.add.at(begins, first // self._length, 1)
        np.add.at(begins, np.minimum(last, self._positions - 1) // self._length + 1, -1)
        np.add.at(begins, np.zeros(np.count_nonzero(wrapped), np.int64), 1)
        np.add.at(begins, (last[wrapped] - self._positions) // self._length + 1, -1)
        self._changed |= np.cumsum(begins)[:-1] > 0


def rows_of(arrays: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    """Views of the rows from ``start`` to ``stop`` of nested mappings of arrays."""
    return {
        name: rows_of(array, start, stop) if isinstance(array, Mapping) else array[start:stop]
        for name, array in arrays.items()
    }
