"""Rows of observations grouped by the policy that acts on them, for products of stacked matrices."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore_torch.arrays import FloatArray, Indices

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
        self.places: Indices = places[self.rows].astype(np.intp)
        self.blocks: list[Block] = []
        if not len(self.rows):
            return
        counts = np.bincount(self.places)
        order = self.places.argsort(kind="stable")  # rows with one place side by side
        starts = np.cumsum(counts) - counts
        present = np.flatnonzero(counts)
        first = int(present[0])
        spans = [slice(first, len(counts))]
        computed = (len(counts) - first) * counts.max()
        if computed > MOST_PADDING * len(self.rows):
            spans = [slice(place, place + 1) for place in present.tolist()]
        # positions in the outputs of all blocks, one after the other
        positions = []
        before = 0
        for span in spans:
            count = counts[span]  # [p]
            filled = np.arange(count.max()) < count[:, None]  # [p, L]
            start = starts[span.start]
            of_block = order[start : start + count.sum()]
            rows = np.zeros(filled.shape, np.intp)
            rows[filled] = self.rows[of_block]
            self.blocks.append(Block(span, rows))
            positions.append(before + np.flatnonzero(filled))
            before += filled.size
        self._positions = np.empty_like(order)  # [r]
        self._positions[order] = np.concatenate(positions)

    def in_order(self, outputs: list[FloatArray]) -> FloatArray:
        """Return one output of each block, [p, L, size], as [r, size] in the order of ``rows``."""
        blocks = [output.reshape(-1, output.shape[-1]) for output in outputs]
        rows = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        in_order: FloatArray = rows[self._positions]
        return in_order
