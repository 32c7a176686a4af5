"""Proportional prioritized replay (Schaul et al. 2016, arXiv:1511.05952): priorities of rows, and a sum tree to draw
rows by them.
"""

from __future__ import annotations

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
    """The exponent of the importance weights: from ``beta`` to ``final_beta`` as ``progress`` goes from 0 to 1."""
    return settings.beta + (settings.final_beta - settings.beta) * min(1.0, progress)


class SumTree:
    """Non-negative weights of ``size`` leaves. Every inner node is the sum of its children, added from left to right,
    so that equal leaves give equal trees, however they came about.
    """

    def __init__(self, size: int) -> None:
        # whole families
        lengths = [-(-size // FANOUT) * FANOUT]
        below = -(-size // FANOUT)
        while below > 1:
            below = -(-below // FANOUT)
            lengths.append(below * FANOUT)
        self._levels = [np.zeros(length) for length in (*lengths, 1)]  # leaves first, the root last
        self.leaves: DoubleArray = self._levels[0][:size]  # [size]; changed through `set` and `fill` only

    @property
    def total(self) -> float:
        return float(self._levels[-1][0])

    def set(self, rows: Rows, values: DoubleArray | float) -> None:
        """Weights of ``rows`` [B]; of a row given twice the last one counts."""
        self.leaves[rows] = values
        for lower, upper in pairwise(self._levels):
            rows = np.unique(rows // FANOUT)
            upper[rows] = lower.reshape(-1, FANOUT)[rows].cumsum(1)[:, -1]

    def fill(self, values: DoubleArray) -> None:
        """Weights of the first rows; all others get zero."""
        self.leaves[: len(values)] = values
        self.leaves[len(values) :] = 0.0
        for lower, upper in pairwise(self._levels):
            sums = lower.reshape(-1, FANOUT).cumsum(1)[:, -1]
            upper[: len(sums)] = sums

    def find(self, targets: DoubleArray) -> Rows:
        """The leaf [B] in whose stretch of the running sum each of ``targets`` [B], in [0, total), lies.

        Never one of weight zero, whatever was lost to rounding on the way down.
        """
        index: Rows = np.zeros(len(targets), np.int64)
        each = np.arange(len(targets))
        for level in reversed(self._levels[:-1]):
            sums = np.zeros((len(targets), FANOUT + 1))  # [B, FANOUT + 1], from zero
            np.cumsum(level.reshape(-1, FANOUT)[index], 1, out=sums[:, 1:])
            targets = np.minimum(targets, np.nextafter(sums[:, -1], 0.0))
            child = np.count_nonzero(sums[:, 1:] <= targets[:, None], 1)
            targets = targets - sums[each, child]
            index = index * FANOUT + child
        return index


class Priorities:
    """Priorities of the rows of a replay buffer. Rows that hold no transition have none and are never drawn."""

    def __init__(self, rows: int, alpha: float) -> None:
        self.alpha = alpha
        self.tree = SumTree(rows)  # leaves: priority ** alpha
        self.largest = 1.0  # of all leaves so far; what a new transition gets, so that it is drawn soon
        self._pending: list[Rows] = []  # rows that changed since the tree was brought up to date
        self._pending_count = 0

    def change(self, rows: Rows, flags: NDArray[np.uint8]) -> None:
        """Notes that ``rows`` gained or lost a transition; ``flags`` say which, now or when the tree is needed."""
        self._pending.append(rows.copy())
        self._pending_count += len(rows)
        if self._pending_count > PENDING_ROWS:
            self.refresh(flags)

    def refresh(self, flags: NDArray[np.uint8]) -> None:
        """Brings the tree up to date; rows without ``flags`` hold no transition."""
        if self._pending:
            rows = np.concatenate(self._pending)
            self.tree.set(rows, np.where(flags[rows] != 0, self.largest, 0.0))
            self._pending.clear()
            self._pending_count = 0

    def set(self, rows: Rows, errors: NDArray[np.floating[Any]], flags: NDArray[np.uint8]) -> None:
        """Priorities by the temporal-difference ``errors`` [B] of ``rows`` [B]; see :meth:`SumTree.set` for repeats."""
        self.refresh(flags)
        magnitude = np.abs(errors.astype(np.float64))
        if not np.isfinite(magnitude).all():
            raise ValueError("priorities must be finite numbers")
        leaves = np.where(flags[rows] != 0, (magnitude + EPSILON) ** self.alpha, 0.0)  # a row may be gone by now
        self.tree.set(rows, leaves)
        self.largest = max(self.largest, float(leaves.max(initial=0.0)))

    def sample(
        self, batch_size: int, generator: np.random.Generator, beta: float, count: int
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Rows drawn in proportion to priority ** alpha, one from each of ``batch_size`` equal parts of the sum, and
        their importance weights (count * probability) ** -beta, divided by the largest of the sample.
        """
        total = self.tree.total
        targets = (np.arange(batch_size) + generator.random(batch_size)) * (total / batch_size)
        rows = self.tree.find(targets)
        weights = (count * self.tree.leaves[rows] / total) ** -beta
        return rows, (weights / weights.max()).astype(np.float32)

    def state_dict(self, used: int) -> dict[str, Any]:
        """Return the state of an up-to-date tree. ``leaves`` is a view, not a copy."""
        return {"leaves": self.tree.leaves[:used], "largest": self.largest}

    def require_fit(self, state: Mapping[str, Any], used: int) -> None:
        """Raises RunStateError unless the state is of ``used`` rows."""
        leaves = saved_array(state, "leaves", np.float64, (used,))
        if not (np.isfinite(leaves).all() and (leaves >= 0.0).all()):
            raise SavedValueError("the entry 'leaves' of the priorities has numbers that are no priorities")
        saved_float(state, "largest")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._pending.clear()
        self._pending_count = 0
        self.tree.fill(state["leaves"])
        self.largest = saved_float(state, "largest")
