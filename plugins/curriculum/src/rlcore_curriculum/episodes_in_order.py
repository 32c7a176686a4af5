"""The episodes of a behavior in the order in which they began, whatever they last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import saved_array, saved_count
from rlcore_curriculum.arrays import Bools, Floats, Ints


class EpisodesInOrder:
    """Holds numbers of ended episodes back until all episodes that started before them are over.

    The order in which episodes start does not depend on how long they last, and so a mean over any stretch of it is
    that of the agent's episodes; over the latest that ended it is not, where some last longer than others.

    An episode that outlasts ``capacity`` others is no longer waited for: it is handed over when it ends.
    """

    def __init__(self, width: int, num_envs: int = 1, capacity: int | None = None) -> None:
        """``width`` numbers are kept of each episode. ``capacity`` is rounded up to a power of two; without one it is
        64 episodes for each of the ``num_envs`` environments, and 4096 at least.
        """
        if capacity is None:
            capacity = max(4096, 64 * num_envs)
        size = 1 << (capacity - 1).bit_length()
        self._mask = size - 1  # a number of an episode & the mask is its place: the number modulo the size
        # Column by column, because that is how they come.
        self._columns: Floats = np.zeros((width, size))
        self._held: Bools = np.zeros(size, np.bool_)
        self._next = 0  # all with smaller numbers have been handed on, or were lost
        self._late: list[Floats] = []  # columns that are handed on whatever comes before them

    def add(self, numbers: Ints, *columns: NDArray[Any]) -> None:
        """Add K episodes that ended: their ``numbers`` [K], and columns, [K] or [K, C], to keep of each."""
        listed = numbers.tolist()
        # An episode far ahead would take the place of one that is held back; that one is handed over now.
        beyond = max(listed) - self._mask - self._next
        if beyond > 0:
            self._late += self._pop(self._next + beyond)
        if min(listed) < self._next:
            late = numbers < self._next
            rows = np.column_stack(columns)
            self._late.append(rows[late].T)
            numbers = numbers[~late]
            columns = tuple(column[~late] for column in columns)
        places = numbers & self._mask
        row = 0
        for column in columns:
            if column.ndim == 1:
                self._columns[row][places] = column
                row += 1
            else:
                end = row + column.shape[1]
                self._columns[row:end, places] = column.T
                row = end
        self._held[places] = True

    def pop(self, settled: int) -> Floats | None:
        """Returns the numbers [R, width] of the episodes before ``settled``, in their order; None if there are none."""
        parts = self._late + self._pop(settled)
        self._late = []
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0].T
        return np.concatenate(parts, axis=1).T

    def _pop(self, until: int) -> list[Floats]:
        if until <= self._next:
            return []
        # Only that many are held; what is beyond was never added.
        end = min(until, self._next + self._mask + 1)
        places = np.arange(self._next, end) & self._mask
        self._next = until
        places = places[self._held.take(places)]  # those that are not there were lost, or were never added
        self._held[places] = False
        if not places.size:
            return []
        return [self._columns.take(places, 1)]

    def state_dict(self) -> dict[str, Any]:
        """Return the episodes that are held back: mappings of numpy arrays and JSON values."""
        numbers = self._next + np.arange(self._mask + 1)
        held = self._held[numbers & self._mask]
        numbers = numbers[held]
        nothing = np.empty((len(self._columns), 0))
        return {
            "next": self._next,
            "numbers": numbers,
            "columns": self._columns.take(numbers & self._mask, 1),
            "late": np.concatenate([nothing, *self._late], axis=1),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state of an object with the same capacity."""
        numbers = saved_array(state, "numbers", np.int64, (None,))
        width = len(self._columns)
        columns = saved_array(state, "columns", np.float64, (width, len(numbers)))
        late = saved_array(state, "late", np.float64, (width, None))
        self._next = saved_count(state, "next")
        self._held[:] = False
        places = numbers & self._mask
        self._columns[:, places] = columns
        self._held[places] = True
        self._late = [late] if late.size else []
