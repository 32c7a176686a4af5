"""The return of each reward provider per episode, computed for many transitions at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class EpisodeRewards:
    """Sums of one provider's rewards over episodes, across rollouts ("Policy/Extrinsic Reward")."""

    def __init__(self, slots: int) -> None:
        self.open: NDArray[np.float64] = np.zeros(slots)  # [S] of the open episodes

    def forget(self, slots: NDArray[np.bool_]) -> None:
        """The open episodes of these slots were cut before they ended."""
        self.open[slots] = 0.0

    def record(self, reward: NDArray[np.float32], ended: NDArray[np.bool_], cuts: NDArray[np.int64]) -> list[float]:
        """Takes in rewards and ends, both [T, S]; the sum of each episode that ended.

        ``cuts`` [k, 2] names the (row, slot) pairs of ``ended`` at which an episode was only cut.
        """
        was_cut = np.zeros_like(ended)
        was_cut[cuts[:, 0], cuts[:, 1]] = True
        sums = np.cumsum(reward, axis=0, dtype=np.float64)  # [T, S]
        slot, row = np.nonzero(ended.T)  # by slot, then in time
        at_end = sums[row, slot]
        first = np.ones(len(slot), np.bool_)
        first[1:] = slot[1:] != slot[:-1]
        before = np.zeros(len(slot))
        before[~first] = at_end[:-1][~first[1:]]
        before[first] = -self.open[slot[first]]
        last = np.zeros_like(self.open)
        last[slot] = at_end  # the last assignment of a slot wins: its latest end
        has_ended = ended.any(axis=0)
        self.open = np.where(has_ended, sums[-1] - last, self.open + sums[-1])
        finished: list[float] = (at_end - before)[~was_cut[row, slot]].tolist()
        return finished
