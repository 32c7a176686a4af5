"""Values that change with progress: ML-Agents' ``linear`` and ``constant`` schedules."""

from __future__ import annotations

import attrs


@attrs.frozen
class Schedule:
    """``constant``: always ``initial``; ``linear``: from there to ``final`` over ``max_steps`` agent steps."""

    kind: str
    initial: float
    final: float
    max_steps: int

    def __call__(self, step: int) -> float:
        if self.kind == "constant":
            return self.initial
        remaining = 1.0 - min(step, self.max_steps) / self.max_steps
        # A value that starts below its floor (beta: 0) stays where it was set instead of growing towards it.
        final = min(self.initial, self.final)
        return (self.initial - final) * remaining + final
