"""The transitions that entered a replay buffer since the reward providers learned, in the order of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from rlcore import SavedValueError, saved_array
from rlcore_torch.off_policy.replay import ReplayBuffer
from rlcore_torch.off_policy.replay_rings import NO_ROWS, Rows

MOST_ROWS = 8192  # that are shown at once, about a rollout: images of a whole random beginning would not fit in memory


class CollectedRows:
    """Rows of a replay buffer that the reward providers have not been shown as collected.

    If they learn too rarely for all of them, the newest steps remain.
    """

    def __init__(self, buffer: ReplayBuffer) -> None:
        self._buffer = buffer
        most = min(MOST_ROWS // buffer.slots, buffer.steps_kept)
        self._steps: deque[Rows] = deque(maxlen=max(1, most))

    def add(self, rows: Rows) -> None:
        """Add the rows of the transitions that a step closed."""
        if len(rows):
            self._steps.append(rows)

    def take(self) -> Rows:
        """Return the rows [N] of all steps since the last call, step after step."""
        rows = self._rows()
        self._steps.clear()
        return rows

    def _rows(self) -> Rows:
        return np.concatenate([NO_ROWS, *self._steps])

    def clear(self) -> None:
        """Forget all rows: the buffer is empty."""
        self._steps.clear()

    def state_dict(self) -> dict[str, Any]:
        lengths = [len(rows) for rows in self._steps]
        return {"rows": self._rows(), "steps": np.array(lengths, np.int64)}

    def require_fit(self, state: Mapping[str, Any]) -> None:
        rows = saved_array(state, "rows", np.int64, (None,))
        steps = saved_array(state, "steps", np.int64, (None,))
        capacity = self._buffer.capacity
        within = (rows >= 0) & (rows < capacity)
        if not within.all():
            raise SavedValueError(f"the entry 'rows' has rows beyond the {capacity} of the replay buffer")
        count = steps.sum()
        if (steps < 0).any() or count != len(rows):
            raise SavedValueError(f"the entry 'steps' has {count} transitions, and 'rows' {len(rows)}")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._steps.clear()
        start = 0
        for length in state["steps"].tolist():
            self._steps.append(state["rows"][start : start + length])
            start += length
