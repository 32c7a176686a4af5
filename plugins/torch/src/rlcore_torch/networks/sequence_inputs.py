"""Sequences of steps as networks with memory read them: how rows are laid out, and what is remembered at the start.

Sequences have different lengths, so they are padded while they pass through a recurrent layer, and only there:
everything else, losses included, sees B rows and no padding. A mean over rows is therefore a mean over real steps.

Shapes: B rows (transitions), N steps of Q sequences, K networks with memory, M numbers of memory of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import attrs
import numpy as np
import torch
from torch import Tensor, nn

from rlcore_torch.arrays import IntArray

__all__ = ["Inputs", "Segments", "SequenceInputs"]

Inputs = tuple[Tensor, ...]
"""Inputs of a network: first the vector observations [B, vector_size] side by side, if there are any, then each image
[B, height, width, channels]."""


Segments = Sequence[tuple[int, int]]
"""Steps and sequences of each block that passes through a recurrent layer in one call."""

# What a call costs beside its places, in places: 0.4 to 0.6 ms where a place takes 2 us, forward and backward, with 64
# units on an Intel Xeon. With more units both grow.
CALL = 256
FEW = 32  # sequences, below which a step takes longer by itself than by what is filled up


@attrs.frozen(eq=False)
class SequenceLayout:
    """The places of N rows in Q sequences, which lie from the longest to the shortest.

    A call of a recurrent layer has as many steps for each of its sequences. If all sequences were filled up to the
    longest, most places would hold nothing where episodes are short. The steps are therefore cut into segments: the
    first has all sequences, a later one only those that have not ended. Shorter ones are filled up within a segment.

    Attributes:
        rows: [P] the row at each place, segment by segment and there step by step; some row where a sequence has ended.
        places: [N] the place of each row.
        order: [C] the sequences of the first segment, the longest first; any sequence where it is filled up.
        segments: Steps and sequences of each segment; each has the first ones of the segment before it.
    """

    rows: Tensor
    places: Tensor
    order: Tensor
    segments: Segments

    @classmethod
    def of(cls, lengths: IntArray, device: torch.device, *beside: Any) -> Self:
        """The layout of sequences with these ``lengths`` [Q], each at least 1, whose rows follow one another.

        ``beside`` are the attributes that a derived class adds.
        """
        if device.type == "cpu":
            segments = segments_in_cache(-np.sort(-lengths))
        else:
            # cuDNN computes all steps in one call.
            segments = [(int(lengths.max()), len(lengths))]
        return cls._with(segments, lengths, device, *beside)

    @classmethod
    def packed(cls, lengths: IntArray, device: torch.device) -> Self:
        """The layout of :meth:`of` with a segment for each step, which is not filled up."""
        steps = np.arange(lengths.max())[:, None]
        going_on = (lengths > steps).sum(1)  # sequences at each step
        segments = [(1, int(count)) for count in going_on]
        return cls._with(segments, lengths, device)

    @classmethod
    def _with(cls, segments: Segments, lengths: IntArray, device: torch.device, *beside: Any) -> Self:
        ranked = np.argsort(-lengths, kind="stable")  # [Q]
        rank = np.empty_like(ranked)
        rank[ranked] = np.arange(len(ranked))
        steps, counts = np.transpose(segments)
        widths = np.repeat(counts, steps)  # [steps of all segments]
        first_places = np.cumsum(widths) - widths  # [steps of all segments]
        places = first_places[steps_within(lengths)]
        places += np.repeat(rank, lengths)
        rows = np.zeros(widths.sum(), np.int64)
        rows[places] = np.arange(len(places))
        order = np.resize(ranked, counts[0])  # repeats sequences where the count was rounded up
        row_at_places = torch.from_numpy(rows).to(device)
        place_of_rows = torch.from_numpy(places).to(device)
        first = torch.from_numpy(order).to(device)
        return cls(row_at_places, place_of_rows, first, segments, *beside)

    def padded(self, x: Tensor) -> Tensor:
        """Return [P, F] from ``x`` [N, F]."""
        return x.index_select(0, self.rows)

    def unpadded(self, y: Tensor) -> Tensor:
        """Return [N, H] from ``y`` [P, H]."""
        return y.index_select(0, self.places)


@attrs.frozen(eq=False)
class Sequences(SequenceLayout):
    """Q sequences of a rollout that B rows belong to, and what the networks remember at the start of each.

    Attributes:
        actor_memory: [Q, M] memory of the policy at the start of each sequence.
        critic_memory: [Q, M] memory of the critic at the start of each sequence.
    """

    actor_memory: Tensor
    critic_memory: Tensor


def segments_in_cache(lengths: IntArray) -> Segments:
    """The segments that cost least for sequences with these ``lengths`` [Q], the longest first, on a CPU.

    Fewer than :data:`FEW` sequences are one segment, as long as the longest.

    Numbers of steps and of sequences are rounded up to few different ones. oneDNN, which PyTorch calls, makes a program
    for each pair of them and keeps it: making one takes longer than a minibatch of a small network.
    """
    longest = int(lengths[0])
    if len(lengths) < FEW:
        return [(longest, len(lengths))]
    # Segments end at edges of a grid of at most 16 parts, of which none is shorter than 8 steps.
    grid = 1
    while longest > 16 * grid or grid < min(8, longest):
        grid *= 2
    parts = -(-longest // grid)
    edges = [part * grid for part in range(parts + 1)]
    counts = []
    for edge in edges[:-1]:
        going_on = int((lengths > edge).sum())
        counts.append(_rounded_up(going_on))
    # The least cost from each edge on, and the edge at which the segment that begins there ends: a shortest path,
    # found from the end.
    cost = [0] * len(edges)
    until = [0] * parts
    for begin in reversed(range(parts)):
        options = []
        for end in range(begin + 1, parts + 1):
            places = (edges[end] - edges[begin]) * counts[begin]
            options.append((CALL + places + cost[end], end))
        cost[begin], until[begin] = min(options)
    segments = []
    begin = 0
    while begin < parts:
        end = until[begin]
        segments.append((edges[end] - edges[begin], counts[begin]))
        begin = end
    return segments


def _rounded_up(count: int) -> int:
    """``count`` or up to an eighth more, so that there are few different numbers."""
    eighth = count.bit_length() - 4  # as a power of two, rounded down
    unit = max(2, 1 << max(0, eighth))
    return -(-count // unit) * unit


def steps_within(lengths: IntArray) -> IntArray:
    """[N] the step within its sequence of each row of sequences with these ``lengths``, one after the other."""
    ends = np.cumsum(lengths)
    starts = ends - lengths
    steps: IntArray = np.arange(ends[-1])
    steps -= np.repeat(starts, lengths)
    return steps


@attrs.define(eq=False)
class SequenceStarts:
    """The memory of K networks some steps before the start of Q sequences, and these steps.

    The steps before the start are the burn-in of R2D2 (Kapturowski et al. 2019, section 3): what was stored there is of
    earlier weights, and the current weights make a memory of it that is more like their own.

    Attributes:
        stored: [Q, K * M] what was stored where the burn-in begins, or zeros.
        led: [P] the sequences that have a burn-in; the others begin with what was stored.
        lead: Normalized observations of the burn-in, each [steps, ...], sequence by sequence.
        layout: The places of these steps in P sequences, packed; None if there are none.
        computed: The memory [Q, M] at the start by network, within
            :meth:`rlcore_torch.MinibatchTrainer.burn_in_once`; None elsewhere.
    """

    stored: Tensor
    led: Tensor
    lead: Inputs
    layout: SequenceLayout | None
    computed: dict[nn.Module, Tensor] | None = None


class SequenceInputs(Inputs):
    """The inputs of B rows, and the steps before them, which networks with memory read too.

    As a tuple these are the normalized observations of the B rows, like the inputs of a network without memory.

    Attributes:
        steps: Normalized observations of N steps of Q sequences, each [N, ...], sequence by sequence.
        layout: The places of the N steps in the sequences.
        chosen: [B] the step that each row is.
        starts: What is remembered before the first step of each sequence.
    """

    steps: Inputs
    layout: SequenceLayout
    chosen: Tensor
    starts: SequenceStarts

    @classmethod
    def of(cls, steps: Sequence[Tensor], layout: SequenceLayout, chosen: Tensor, starts: SequenceStarts) -> Self:
        """Return the inputs of the rows ``chosen`` [B] among ``steps``, normalized observations, each [N, ...]."""
        made = cls(each.index_select(0, chosen) for each in steps)
        made.steps = tuple(steps)
        made.layout = layout
        made.chosen = chosen
        made.starts = starts
        return made

    def map(self, function: Callable[[Inputs], Inputs]) -> SequenceInputs:
        """Return the same steps with ``function`` of their inputs, such as a part of the observations."""
        made = SequenceInputs(function(self))
        made.steps = function(self.steps)
        made.layout = self.layout
        made.chosen = self.chosen
        made.starts = attrs.evolve(self.starts, lead=function(self.starts.lead))
        return made
