"""Find observations of which float32 keeps no digits: numbers that are large and change little, such as times of 1.7e9.

Observations are stored and learned from as float32, which has 24 binary digits: near 1.7e9 its neighbors are 128
apart, so that a clock of seconds stands still.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.batches import AgentBatch
from rlcore.contracts.behavior_spec import ObservationSpec

# float32 has no fractions of a hundredth from here on. Below, a change as small as a rounding error is usually one.
LARGE = 2.0**16
# float32 no longer has every whole number from here on, so that a number that never changes may be a count in truth.
HUGE = 2.0**24
# Changes between steps that are below this many distances of float32 have lost all but their first 4 binary digits.
FEW_DISTANCES = 16.0


@attrs.frozen
class LostDigits:
    """A number of an observation that float32 cannot tell from its neighbors.

    Attributes:
        slot: A slot in which it was seen.
        index: Where it stands in the observation.
        value: What it was there.
        change: The largest change of the number from one step to the next, in any slot.
        distance: What lies between two neighbors of float32 at this size.
    """

    slot: int
    index: list[int]
    value: float
    change: float
    distance: float


@attrs.define(eq=False)
class DigitCheck:
    """Compares how much one observation of floats changes from step to step with the distances of float32 there."""

    spec: ObservationSpec
    _before: NDArray[np.float64] | None = None  # [S, *shape] of the latest batch; None if none of its numbers is large
    _changes: NDArray[np.float64] | None = None  # [*shape], the largest change within an episode; -1 before the first

    def look(self, batch: AgentBatch) -> None:
        """Compare the observation with that of the batch before. Rows in which an episode began are left out."""
        values = batch.observations[self.spec.name]
        highest = float(values.max(initial=0.0))
        lowest = float(values.min(initial=0.0))
        if max(highest, -lowest) < LARGE:
            self._before = None
            return
        now = values.astype(np.float64)  # a copy: environments write the next batch into the same array
        if self._changes is None:
            self._changes = np.full(self.spec.shape, -1.0)
        if self._before is not None:
            same_episode = np.ones(len(now), np.bool_)
            same_episode[batch.ended] = False
            if batch.aborted is not None:
                same_episode &= ~batch.aborted
            changes = np.abs(now - self._before)[same_episode]
            largest = changes.max(axis=0, initial=-1.0)
            self._changes = np.maximum(self._changes, largest)
        self._before = now

    def lost(self) -> LostDigits | None:
        """Return the first number of which the batches so far show no digits, if any."""
        if self._before is None or self._changes is None:
            return None
        sizes = np.abs(self._before)  # [S, *shape]
        distances = np.spacing(sizes.astype(np.float32)).astype(np.float64)
        too_small = self._changes < FEW_DISTANCES * distances
        moves = (self._changes > 0) & (sizes >= LARGE)
        stands = (self._changes == 0) & (sizes >= HUGE)
        places = np.argwhere(too_small & (moves | stands))
        if not len(places):
            return None
        slot, *index = places[0].tolist()
        place = (slot, *index)
        value = float(self._before[place])
        change = float(self._changes[tuple(index)])
        return LostDigits(slot, index, value, change, float(distances[place]))
