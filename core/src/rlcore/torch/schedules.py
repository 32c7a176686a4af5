"""Values that change with the steps taken (ML-Agents' ``linear`` and ``constant``), and updates that are due."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import attrs

from rlcore.saved_values import saved_count, saved_entry

__all__ = ["Schedule", "UpdateRatio"]


@attrs.frozen
class Schedule:
    """A value that changes with the agent steps: ``schedule(step)``.

    ``constant`` keeps ``initial``; ``linear`` falls from there to ``final`` over ``max_steps`` agent steps.

    Attributes:
        kind: ``"constant"`` or ``"linear"``.
        initial: Value at step 0.
        final: Value from ``max_steps`` on, if linear.
        max_steps: Agent steps until the final value.
    """

    kind: str
    initial: float
    final: float
    max_steps: int

    def __call__(self, step: int) -> float:
        """Return the value at agent step ``step``."""
        if self.kind == "constant":
            return self.initial
        remaining = 1.0 - min(step, self.max_steps) / self.max_steps
        # A value that starts below its floor (beta: 0) stays there instead of growing towards the floor.
        final = min(self.initial, self.final)
        return (self.initial - final) * remaining + final


class UpdateRatio:
    """One update for every ``steps_per_update`` agent steps after ``start``, for any ratio, exactly.

    After n steps floor((n - start) / steps_per_update) updates are due in all, however the steps arrive; a remainder
    is carried over, never rounded away. The ratio is the decimal number in the configuration: 0.3 is three tenths,
    not the nearest binary fraction.
    """

    def __init__(self, steps_per_update: float, start: int = 0) -> None:
        self._ratio = Fraction(str(steps_per_update))
        self.start = start  # agent step from which steps count
        self.done = 0  # updates since then

    def due(self, steps: int) -> int:
        """Return the number of updates still to do at agent step ``steps``."""
        return max(0, (steps - self.start) * self._ratio.denominator // self._ratio.numerator - self.done)

    def restart(self, start: int) -> None:
        """Count from agent step ``start`` on."""
        self.start, self.done = start, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, as JSON values."""
        return {"start": self.start, "done": self.done, "ratio": str(self._ratio)}

    def load_state_dict(self, state: Mapping[str, Any], steps: int) -> None:
        """Continue at agent step ``steps``. A ratio that changed since the state was saved holds from there on.

        A start that lies ahead of ``steps`` is kept.
        """
        start = saved_count(state, "start")
        if saved_entry(state, "ratio") == str(self._ratio):
            self.start, self.done = start, saved_count(state, "done")
        else:
            self.restart(max(steps, start))
