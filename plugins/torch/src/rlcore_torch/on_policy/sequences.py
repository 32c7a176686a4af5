"""Sequences of steps: the parts of a rollout that a recurrent network learns from.

A trajectory is cut at the end of each episode and after ``sequence_length`` steps (Hausknecht and Stone 2015,
arXiv:1507.06527: each sequence starts with the memory that was stored there).

Shapes: B rows (transitions), Q sequences of at most L steps, M numbers of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from torch import Tensor

from rlcore_torch.arrays import BoolArray, IntArray
from rlcore_torch.networks.sequence_inputs import Sequences, steps_within


class SequenceTable:
    """All sequences of a rollout. Row t of slot s is the place t * S + s."""

    def __init__(self, starts: BoolArray, valid: BoolArray) -> None:
        """``starts`` [T, S] marks the first step of each sequence, ``valid`` [T, S] what holds a transition."""
        # Slot by slot, and each in time, so that the steps of a sequence lie side by side: [number of transitions]
        by_slot = valid.T
        is_start = starts.T[by_slot]
        places = np.arange(valid.size).reshape(valid.shape)
        self._places = places.T[by_slot]
        self._begin = np.flatnonzero(is_start)  # [Q] of each sequence, in `_places`
        self._lengths = np.diff(self._begin, append=len(is_start))
        self.first_places = self._places[self._begin]  # [Q] the place that each sequence starts with

    def __len__(self) -> int:
        """Return Q."""
        return len(self._begin)

    def places(self, chosen: IntArray) -> IntArray:
        """Return the places [B] of the sequences ``chosen``, one sequence after the other."""
        lengths = self._lengths[chosen]
        begin = np.repeat(self._begin[chosen], lengths)
        places: IntArray = self._places[begin + steps_within(lengths)]
        return places

    def layout(self, chosen: IntArray, actor_memory: Tensor, critic_memory: Tensor) -> Sequences:
        """Return how the rows [B] of the sequences ``chosen`` lie, which begin with these memories [len(chosen), M]."""
        return Sequences.of(self._lengths[chosen], actor_memory.device, actor_memory, critic_memory)

    def shuffled(self, generator: np.random.Generator, parts: int) -> Iterator[IntArray]:
        """Yield all sequences in random order, in ``parts`` parts with about as many sequences each."""
        count = len(self)
        order = generator.permutation(count)
        edges = np.linspace(0, count, min(parts, count) + 1).astype(np.int64)
        for begin, end in pairwise(edges):
            yield order[begin:end]


def sequence_starts(ended: BoolArray, length: int) -> BoolArray:
    """Mark the first step of each sequence, [T, S]: step 0, after an end, and after ``length`` steps of a sequence."""
    starts = np.zeros_like(ended)
    age = np.full(ended.shape[1], length)  # [S] steps since the latest start
    for t in range(len(ended)):
        is_full = age >= length
        starts[t] = is_full
        age = np.where(is_full, 1, age + 1)
        age[ended[t]] = length  # the next step begins another one
    return starts
