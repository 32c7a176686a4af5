"""Proportional prioritized replay (Schaul et al. 2016, arXiv:1511.05952): priorities of rows, and a sum tree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import SavedValueError, saved_array, saved_float
from rlcore_torch.settings import PrioritizedSamplerSettings

Rows = NDArray[np.int64]
DoubleArray = NDArray[np.float64]

FANOUT = 16  # children of a node in the sum tree: a million leaves in five levels
EPSILON = 1e-6  # what the paper adds to |error|, so that a transition without error can still be drawn
PENDING_ROWS = 1 << 13  # changes kept at most between two samples


def importance_exponent(settings: PrioritizedSamplerSettings, progress: float) -> float:
    """Return the exponent of importance weights: from ``beta`` to ``final_beta`` as ``progress`` goes from 0 to 1."""
    change = settings.final_beta - settings.beta
    return settings.beta + change * min(1.0, progress)


class SumTree:
    """Non-negative weights of ``size`` leaves. Every inner node is the sum of its children, added from left to right,
    so that equal leaves give equal trees, however they came about.
    """

    def __init__(self, size: int) -> None:
        # Each level has whole families, so that a sum is one row of [families, FANOUT].
        families = math.ceil(size / FANOUT)
        lengths = [families * FANOUT]
        while families > 1:
            families = math.ceil(families / FANOUT)
            lengths.append(families * FANOUT)
        self._levels = [np.zeros(length) for length in (*lengths, 1)]  # leaves first, the root last
        self.leaves: DoubleArray = self._levels[0][:size]  # [size]; changed through `set` and `fill` only

    @property
    def total(self) -> float:
        return float(self._levels[-1][0])

    def set(self, rows: Rows, values: DoubleArray | float) -> None:
        """Set the weights of ``rows`` [B]; of a row given twice the last one counts."""
        self.leaves[rows] = values
        for lower, upper in pairwise(self._levels):
            rows = np.unique(rows // FANOUT)
            families = lower.reshape(-1, FANOUT)[rows]
            upper[rows] = families.cumsum(1)[:, -1]  # not `sum`, which adds in another order

    def fill(self, values: DoubleArray) -> None:
        """Set the weights of the first rows; all others get zero."""
        count = len(values)
        self.leaves[:count] = values
        self.leaves[count:] = 0.0
        for lower, upper in pairwise(self._levels):
            families = lower.reshape(-1, FANOUT)
            upper[: len(families)] = families.cumsum(1)[:, -1]

    def find(self, targets: DoubleArray) -> Rows:
        """Return the leaf [B] in whose stretch of the running sum each of ``targets`` [B], in [0, total), lies.

        Never one of weight zero, whatever was lost to rounding on the way down.
        """
        count = len(targets)
        index: Rows = np.zeros(count, np.int64)
        row = np.arange(count)
        for level in reversed(self._levels[:-1]):
            families = level.reshape(-1, FANOUT)[index]
            sums = np.zeros((count, FANOUT + 1))  # from zero, which the first child begins at
            np.cumsum(families, 1, out=sums[:, 1:])
            most = np.nextafter(sums[:, -1], 0.0)
            targets = np.minimum(targets, most)
            child = np.count_nonzero(sums[:, 1:] <= targets[:, None], 1)
            targets = targets - sums[row, child]
            index = index * FANOUT + child
        return index


class Priorities:
    """Priorities of the rows of a replay buffer. Rows that hold no transition have none and are never drawn."""

    def __init__(self, rows: int, alpha: float) -> None:
        self.alpha = alpha
        self.tree = SumTree(rows)  # leaves: priority ** alpha
        # Of all leaves so far, or since a reset; what a new transition gets, so that it is drawn soon.
        self.largest = 1.0
        self._pending: list[Rows] = []  # rows that changed since the tree was brought up to date
        self._pending_count = 0

    def change(self, rows: Rows, flags: NDArray[np.uint8]) -> None:
        """Note that ``rows`` gained or lost a transition; ``flags`` say which, now or when the tree is needed."""
        self._pending.append(rows.copy())
        self._pending_count += len(rows)
        if self._pending_count > PENDING_ROWS:
            self.refresh(flags)

    def refresh(self, flags: NDArray[np.uint8]) -> None:
        """Bring the tree up to date; rows without ``flags`` hold no transition."""
        if not self._pending:
            return
        rows = np.concatenate(self._pending)
        leaves = np.where(flags[rows] != 0, self.largest, 0.0)
        self.tree.set(rows, leaves)
        self._forget_pending()

    def _forget_pending(self) -> None:
        self._pending.clear()
        self._pending_count = 0

    def set(self, rows: Rows, errors: NDArray[np.floating[Any]], flags: NDArray[np.uint8]) -> None:
        """Set priorities by the errors [B] of ``rows`` [B]; see :meth:`SumTree.set` for repeats."""
        self.refresh(flags)
        magnitude = np.abs(errors.astype(np.float64))
        if not np.isfinite(magnitude).all():
            raise ValueError("priorities must be finite numbers")
        weights = (magnitude + EPSILON) ** self.alpha
        leaves = np.where(flags[rows] != 0, weights, 0.0)  # a row may be gone by now
        self.tree.set(rows, leaves)
        self.largest = max(self.largest, float(leaves.max(initial=0.0)))

    def reset_largest(self) -> None:
        """Forget leaves that were larger than those of now; the tree is up to date."""
        largest = float(self.tree.leaves.max(initial=0.0))
        if largest > 0.0:
            self.largest = largest

    def sample(
        self, batch_size: int, generator: np.random.Generator, beta: float, count: int
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Return rows drawn in proportion to priority ** alpha, and their importance weights.

        One row is of each of ``batch_size`` equal parts of the sum (appendix B.2.1). A weight is (count * probability)
        ** -beta, divided by the largest of the sample (section 3.4).
        """
        total = self.tree.total
        part = total / batch_size
        places = np.arange(batch_size) + generator.random(batch_size)
        rows = self.tree.find(places * part)
        weights = (count * self.tree.leaves[rows] / total) ** -beta
        return rows, (weights / weights.max()).astype(np.float32)

    def state_dict(self, used: int) -> dict[str, Any]:
        """Return the state of an up-to-date tree. ``leaves`` is a view, not a copy."""
        return {"leaves": self.tree.leaves[:used], "largest": self.largest}

    def require_fit(self, state: Mapping[str, Any], used: int) -> None:
        """Raise RunStateError unless the state is of ``used`` rows."""
        leaves = saved_array(state, "leaves", np.float64, (used,))
        is_weight = np.isfinite(leaves) & (leaves >= 0.0)
        if not is_weight.all():
            raise SavedValueError("the entry 'leaves' of the priorities has numbers that are no priorities")
        saved_float(state, "largest")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._forget_pending()
        self.tree.fill(state["leaves"])
        self.largest = saved_float(state, "largest")
