"""Sequences of steps: the parts of a rollout that a recurrent network learns from.

A trajectory is cut at the end of each episode and after ``sequence_length`` steps (Hausknecht and Stone 2015,
arXiv:1507.06527: each sequence starts with the memory that was stored there).

Shapes: B rows (transitions), Q sequences of at most L steps, M numbers of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlcore_torch.networks.sequence_inputs import Sequences, steps_within

Places = NDArray[np.int64]


class SequenceTable:
    """All sequences of a rollout. Row t of slot s is the place t * S + s."""

    def __init__(self, starts: NDArray[np.bool_], valid: NDArray[np.bool_]) -> None:
        """``starts`` [T, S] marks the first step of each sequence, ``valid`` [T, S] what holds a transition."""
        by_slot = valid.T
        first = starts.T[by_slot]  # [number of transitions] slot by slot
        self._place = np.arange(valid.size).reshape(valid.shape).T[by_slot]
        self._begin = np.flatnonzero(first)  # [Q] of each sequence, in `_place`
        self._lengths = np.diff(self._begin, append=len(first))
        self.first_places = self._place[self._begin]  # [Q] the place that each sequence starts with

    def __len__(self) -> int:
        """Q."""
        return len(self._begin)

    def places(self, chosen: Places) -> Places:
        """The places [B] of the sequences ``chosen``, one sequence after the other."""
        lengths = self._lengths[chosen]
        places: Places = self._place[np.repeat(self._begin[chosen], lengths) + steps_within(lengths)]
        return places

    def layout(self, chosen: Places, actor_memory: Tensor, critic_memory: Tensor) -> Sequences:
        """How the rows [B] of the sequences ``chosen`` lie, which begin with these memories [len(chosen), M]."""
        return Sequences.of(self._lengths[chosen], actor_memory.device, actor_memory, critic_memory)

    def shuffled(self, generator: np.random.Generator, parts: int) -> Iterator[Places]:
        """All sequences in random order, in ``parts`` parts with about as many sequences each."""
        order = generator.permutation(len(self))
        edges = np.linspace(0, len(self), min(parts, len(self)) + 1).astype(np.int64)
        for begin, end in pairwise(edges):
            yield order[begin:end]


def sequence_starts(ended: NDArray[np.bool_], length: int) -> NDArray[np.bool_]:
    """Mark the first step of each sequence, [T, S]: step 0, after an end, and after ``length`` steps of a sequence."""
    starts = np.zeros_like(ended)
    age = np.full(ended.shape[1], length)  # [S] steps since the latest start
    for t in range(len(ended)):
        starts[t] = age >= length
        age = np.where(starts[t], 1, age + 1)
        age[ended[t]] = length
    return starts
