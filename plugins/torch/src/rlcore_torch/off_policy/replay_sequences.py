"""Sequences of stored transitions, which networks with memory learn from, and the steps before each: its burn-in.

A minibatch with memory is drawn like every other one. Each transition that was drawn is learned from with its
neighbors: a sequence of at most L steps of its episode, which begins a random number of steps, below L, before the
transition, or at the first step of the episode. Sequences never pass the end of an episode or the newest transition. A
minibatch has whole sequences, and the last one is cut, so that it has as many transitions as without memory.

If sequences began at the transitions that were drawn, the first step of an episode would be in one sequence where a
later one is in L, and what an agent has to remember is often shown in the first steps. An episode that is much shorter
than L is mostly drawn whole.

Shapes: D drawn rows, Q sequences, B rows of all sequences.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore_torch.arrays import BoolArray
from rlcore_torch.networks.sequence_inputs import steps_within
from rlcore_torch.networks.settings import MemorySettings
from rlcore_torch.off_policy.replay_rings import Rows

__all__ = ["SequenceRows", "sequences_around"]


@attrs.frozen(eq=False)
class SequenceRows:
    """The rows of a replay buffer that Q sequences consist of.

    Attributes:
        rows: [B] rows of the transitions, one sequence after the other.
        sequence: [B] the sequence of each row.
        starts: [Q] the first row of each sequence.
        leads: [Q] steps of burn-in before it, all of the same episode.
    """

    rows: Rows
    sequence: Rows
    starts: Rows
    leads: NDArray[np.int64]


def sequences_around(
    drawn: Rows,
    memory: MemorySettings,
    flags: NDArray[np.uint8] | BoolArray,
    slots: int,
    generator: np.random.Generator,
) -> SequenceRows:
    """Return sequences with the first of the rows ``drawn`` [D], D transitions in all.

    ``flags`` of all rows of the ring of ``slots`` say which hold a transition, as :class:`~rlcore_torch.ReplayRings`
    has them.
    """
    length = memory.sequence_length
    capacity = len(flags)
    wanted = len(drawn)
    before = _transitions(drawn, -slots, length - 1 + memory.lead, flags)  # [D] in the same episode
    offset = generator.integers(length, size=wanted)
    back = np.minimum(offset, before)
    starts = (drawn - slots * back) % capacity
    lengths = _transitions(starts, slots, length - 1, flags) + 1
    ends = np.cumsum(lengths)
    count = int(np.searchsorted(ends, wanted)) + 1  # Q
    starts = starts[:count]
    lengths = lengths[:count]
    lengths[-1] -= ends[count - 1] - wanted  # the last sequence is cut
    sequence = np.repeat(np.arange(count), lengths)
    rows = (starts[sequence] + slots * steps_within(lengths)) % capacity
    left = before[:count] - back[:count]
    leads = np.minimum(left, memory.lead)
    return SequenceRows(rows, sequence, starts, leads)


def _transitions(rows: Rows, stride: int, most: int, flags: NDArray[np.uint8] | BoolArray) -> NDArray[np.int64]:
    """Count the transitions, at most ``most``, that follow one another after ``rows``, ``stride`` rows apart."""
    # A final or current observation, which holds no transition, is between any two episodes and before the oldest row.
    most = min(most, len(flags) // abs(stride))  # a burn-in may be longer than the ring
    steps = np.arange(1, most + 1)[:, None]
    others = (rows + stride * steps) % len(flags)
    holds = flags.take(others) != 0
    counts: NDArray[np.int64] = np.logical_and.accumulate(holds, 0).sum(0)
    return counts
