"""Agent steps of all ranks: exact where they are needed, and counted with few exchanges."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore_torch import StepCount


class Others:
    """Rank 0 of several whose other ranks close what ``closed`` [steps, ranks] says."""

    rank = 0

    def __init__(self, closed: NDArray[np.int64]) -> None:
        self.size = closed.shape[1]
        self.exchanges = 0
        self._closed = closed
        self._begin = self._end = 0

    def step(self) -> int:
        """Go to the next step. Returns what this rank closes in it."""
        self._end += 1
        return int(self._closed[self._end - 1, 0])

    def total(self, count: int) -> int:
        since = self._closed[self._begin : self._end]
        assert count == since[:, 0].sum()
        self._begin = self._end
        self.exchanges += 1
        return int(since.sum())


@pytest.mark.parametrize("seed", range(20))
def test_steps_are_exact_from_the_first_step_that_reaches_a_limit(seed: int) -> None:
    random = np.random.default_rng(seed)
    slots = random.integers(1, 5, random.integers(2, 5))
    closed = random.integers(0, slots + 1, (400, len(slots)))
    ranks = Others(closed)
    count = StepCount(ranks, int(slots.sum()))  # type: ignore[arg-type]
    limits = np.cumsum(random.integers(1, 200, 20)).tolist()
    exact = 0
    for row in closed:
        exact += int(row.sum())
        count.exact_from = limits[1]
        count.add(ranks.step(), limits[0])
        assert count.steps <= exact
        assert (count.steps >= limits[0]) == (exact >= limits[0])
        while limits[0] <= exact:
            assert count.steps == exact
            del limits[0]
            limits.append(limits[-1] + 100)
    assert ranks.exchanges < 200
    count.counted(exact - count.steps)
    assert (count.steps, count.uncounted) == (exact, 0)
