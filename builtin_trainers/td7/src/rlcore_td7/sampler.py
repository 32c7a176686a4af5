"""Loss-adjusted prioritized replay (Fujimoto et al. 2020, arXiv:2007.06049).

A loss that is linear in errors above 1 has gradients of one size there, which sampling in proportion to the error
replaces. Priorities of at least 1 leave the rest, where the loss is quadratic, to uniform sampling, and no importance
weights are needed (section 4.2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcore import BehaviorSpec, RunContext
from rlcore_td7.settings import LAPSettings
from rlcore_torch import ReplayBuffer, ReplaySampler, Rows, Sample

__all__ = ["LAPSampler"]

LEAST = 1.0  # where the Huber loss becomes linear


class LAPSampler(ReplaySampler):
    """Transitions in proportion to max(error, 1) ** alpha, all of one weight. New ones get the largest priority."""

    uses_td_errors = True

    def __init__(self, settings: LAPSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        self.priority_alpha = settings.alpha

    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        """Draw ``batch_size`` transitions, as :meth:`rlcore_torch.ReplaySampler.sample` says."""
        rows, _ = buffer.sample_prioritized(batch_size, generator, beta=0.0)
        return Sample(rows)

    def learned(self, buffer: ReplayBuffer, rows: Rows, td_errors: NDArray[np.float32]) -> None:
        """Set the priorities of ``rows`` [B] by their errors [B]."""
        sizes = np.maximum(np.abs(td_errors), np.float32(LEAST))
        buffer.set_priorities(rows, sizes)
