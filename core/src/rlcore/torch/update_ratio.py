"""How many updates follow how many steps."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from rlcore.saved_values import saved_count, saved_entry


class UpdateRatio:
    """One update for every ``steps_per_update`` agent steps after ``start``, for any ratio, exactly.

    After n steps floor((n - start) / steps_per_update) updates are due in all, however the steps arrive; what does
    not make a whole update yet is carried over, never rounded away. The ratio is the decimal number that was written:
    0.3 is three tenths, not the nearest binary fraction.
    """

    def __init__(self, steps_per_update: float, start: int = 0) -> None:
        self._ratio = Fraction(str(steps_per_update))
        self.start = start  # agent step from which steps count
        self.done = 0  # updates since then

    def due(self, steps: int) -> int:
        """Updates that agent step ``steps`` still asks for."""
        return max(0, (steps - self.start) * self._ratio.denominator // self._ratio.numerator - self.done)

    def restart(self, start: int) -> None:
        """Counts from agent step ``start`` on."""
        self.start, self.done = start, 0

    def state_dict(self) -> dict[str, Any]:
        return {"start": self.start, "done": self.done, "ratio": str(self._ratio)}

    def load_state_dict(self, state: Mapping[str, Any], steps: int) -> None:
        """Goes on at agent step ``steps``; a ratio that was changed in between holds from there on.

        Updates that were to begin later still begin then.
        """
        start = saved_count(state, "start")
        if saved_entry(state, "ratio") == str(self._ratio):
            self.start, self.done = start, saved_count(state, "done")
        else:
            self.restart(max(steps, start))
