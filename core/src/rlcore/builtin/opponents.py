"""The opponent ``random``, which any policy should beat before other opponents are of interest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import Actions, BehaviorSpec


class RandomPolicy:
    """Draws each option of a branch that the mask allows with the same probability, and real parts within bounds.

    A real part without bounds is drawn from [-1, 1], one with a single bound from the 2 units beside it.
    ``deterministic`` has no effect.
    """

    def __init__(self, behavior: BehaviorSpec) -> None:
        low = np.where(
            np.isfinite(behavior.low), behavior.low, np.where(np.isfinite(behavior.high), behavior.high - 2, -1)
        )
        high = np.where(np.isfinite(behavior.high), behavior.high, low + 2)
        self._low, self._high = low.astype(np.float32), high.astype(np.float32)  # [continuous]
        self._branches = behavior.discrete
        self._generator = np.random.default_rng(0)

    @classmethod
    def create(cls, settings: Any, behavior: BehaviorSpec, run: Any) -> RandomPolicy:
        """The policy for one behavior; ``settings`` has nothing but the type."""
        return cls(behavior)

    def seed(self, seed: int) -> None:
        """Seed the generator of all draws."""
        self._generator = np.random.default_rng(seed)

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> Actions:
        """Actions of R rows. A row whose mask allows nothing takes option 0: it needs no action."""
        rows = len(next(iter(observations.values())))
        continuous = discrete = None
        if self._low.size:
            drawn = self._generator.random((rows, self._low.size), np.float32)
            continuous = np.clip(self._low + drawn * (self._high - self._low), self._low, self._high)
        if self._branches:
            discrete = np.empty((rows, len(self._branches)), np.int64)
            first = 0
            for branch, options in enumerate(self._branches):
                keys = self._generator.random((rows, options))  # the largest of them is uniform
                if action_mask is not None:
                    keys[~action_mask[:, first : first + options]] = -1.0
                discrete[:, branch] = keys.argmax(axis=1)
                first += options
        return Actions(continuous, discrete)
