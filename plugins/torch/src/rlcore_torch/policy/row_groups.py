"""Rows of observations grouped by the policy that acts on them, for products of stacked matrices."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]

# A block may compute this many times the rows that it is for. On 64 rows of 8 policies, two layers of 64 units, a pass
# for each policy takes four to five times as long as one pass.
MOST_PADDING = 4


@attrs.frozen(eq=False)
class Block:
    """Rows of p consecutive places that pass through p networks at once, L for each.

    Attributes:
        places: The consecutive places, a slice of p.
        rows: [p, L] row of the observations. A place with fewer rows is filled up with any row.
    """

    places: slice
    rows: Indices


class RowGroups:
    """The rows of a stack's places, in blocks.

    All places are in one block, or each in a block of its own if the numbers of their rows differ so much that more
    than :data:`MOST_PADDING` times the rows would be computed. Blocks depend on ``places`` alone.

    Attributes:
        rows: [r] rows that the stack acts for, ascending.
        places: [r] place of each of these rows.
        blocks: The blocks.
    """

    def __init__(self, places: NDArray[np.integer[Any]]) -> None:
        """``places`` [R] is the place of each row, -1 for rows of other policies."""
        self.rows: Indices = np.flatnonzero(places >= 0)
        self.places: Indices = (places if len(self.rows) == len(places) else places[self.rows]).astype(np.intp)
        self.blocks: list[Block] = []
        if not len(self.rows):
            return
        counts = np.bincount(self.places).tolist()
        first = next(place for place, count in enumerate(counts) if count)
        most = max(counts)
        order = self.places.argsort(kind="stable")  # rows with one place side by side
        if (len(counts) - first) * most > MOST_PADDING * len(self.rows):
            self._alone(counts, order)
        else:
            self._together(first, counts, most, order)

    def _together(self, first: int, counts: list[int], most: int, order: Indices) -> None:
        """Make one block of the places from ``first`` on, with ``most`` rows each."""
        starts = accumulate(counts, initial=0)  # of each place in `order`
        shifts = np.array([(place - first) * most - start for place, start in enumerate(starts)])
        found = np.arange(len(order)) + shifts[self.places[order]]  # position in [p, L]
        chosen = np.zeros((len(counts) - first) * most, np.intp)
        chosen[found] = self.rows[order]
        self.blocks.append(Block(slice(first, len(counts)), chosen.reshape(-1, most)))
        self._found = np.empty_like(order)
        self._found[order] = found

    def _alone(self, counts: list[int], order: Indices) -> None:
        """Make a block of each place that has rows."""
        rows, end = self.rows[order], 0
        for place, count in enumerate(counts):
            if count:
                start, end = end, end + count
                self.blocks.append(Block(slice(place, place + 1), rows[None, start:end]))
        self._found = np.empty_like(order)
        self._found[order] = np.arange(len(order))

    def in_order(self, outputs: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Return one output of each block, [p, L, size], as [r, size] in the order of ``rows``."""
        flat = [output.reshape(-1, output.shape[-1]) for output in outputs]
        whole = flat[0] if len(flat) == 1 else np.concatenate(flat)
        result: NDArray[np.float32] = whole[self._found]
        return result
