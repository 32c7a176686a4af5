"""The episodes of a behavior in the order in which they began, whatever they last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import saved_array, saved_count


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
        size = 1 << max(0, (max(4096, 64 * num_envs) if capacity is None else capacity) - 1).bit_length()
        self._mask = size - 1
        # Column by column, because that is how they come: of episode n at n modulo the size.
        self._columns: NDArray[np.float64] = np.zeros((width, size))
        self._held: NDArray[np.bool_] = np.zeros(size, np.bool_)
        self._next = 0  # all with smaller numbers have been handed on, or were lost
        self._late: list[NDArray[np.float64]] = []  # columns that are handed on whatever comes before them

    def add(self, numbers: NDArray[np.int64], *columns: NDArray[Any]) -> None:
        """Add K episodes that ended: their ``numbers`` [K], and columns, [K] or [K, C], to keep of each."""
        listed = numbers.tolist()
        beyond = max(listed) - self._mask - self._next
        if beyond > 0:
            self._late += self._pop(self._next + beyond)
        if min(listed) < self._next:
            late = numbers < self._next
            self._late.append(np.column_stack(columns)[late].T)
            numbers = numbers[~late]
            columns = tuple(column[~late] for column in columns)
        places = numbers & self._mask
        row = 0
        for column in columns:
            if column.ndim == 1:
                self._columns[row][places] = column
                row += 1
            else:
                self._columns[row : row + column.shape[1], places] = column.T
                row += column.shape[1]
        self._held[places] = True

    def pop(self, settled: int) -> NDArray[np.float64] | None:
        """Returns the numbers [R, width] of the episodes before ``settled``, in their order; None if there are none."""
        taken = self._late + self._pop(settled)
        self._late = []
        if len(taken) > 1:
            return np.concatenate(taken, axis=1).T
        return taken[0].T if taken else None

    def _pop(self, until: int) -> list[NDArray[np.float64]]:
        if until <= self._next:
            return []
        places = np.arange(self._next, min(until, self._next + self._mask + 1)) & self._mask
        self._next = until
        places = places[self._held.take(places)]  # those that are not there were lost, or were never added
        self._held[places] = False
        return [self._columns.take(places, 1)] if places.size else []

    def state_dict(self) -> dict[str, Any]:
        """Return the episodes that are held back: mappings of numpy arrays and JSON values."""
        numbers = self._next + np.arange(self._mask + 1)
        numbers = numbers[self._held[numbers & self._mask]]
        return {
            "next": self._next,
            "numbers": numbers,
            "columns": self._columns.take(numbers & self._mask, 1),
            "late": np.concatenate([np.empty((len(self._columns), 0)), *self._late], axis=1),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state of an object with the same capacity."""
        numbers = saved_array(state, "numbers", np.int64, (None,))
        columns = saved_array(state, "columns", np.float64, (len(self._columns), len(numbers)))
        late = saved_array(state, "late", np.float64, (len(self._columns), None))
        self._next = saved_count(state, "next")
        self._held[:] = False
        places = numbers & self._mask
        self._columns[:, places] = columns
        self._held[places] = True
        self._late = [late] if late.size else []
