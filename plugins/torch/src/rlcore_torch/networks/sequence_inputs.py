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
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["Inputs", "SequenceInputs", "SequenceLayout", "SequenceStarts"]

Inputs = tuple[Tensor, ...]
"""Inputs of a network: first the vector observations [B, vector_size] side by side, if there are any, then each image
[B, height, width, channels]."""


@attrs.frozen(eq=False)
class SequenceLayout:
    """The places of N rows in Q sequences of at most L steps.

    Attributes:
        rows: [L * Q] the row at each place, step by step; some row where a sequence is shorter.
        places: [N] the place of each row.
        count: Q.
    """

    rows: Tensor
    places: Tensor
    count: int

    @classmethod
    def of(cls, lengths: NDArray[np.int64], device: torch.device, *beside: Any) -> Self:
        """The layout of sequences with these ``lengths`` [Q], whose rows follow one another.

        ``beside`` are the attributes that a derived class adds.
        """
        sequence = np.repeat(np.arange(len(lengths)), lengths)  # [N]
        places = steps_within(lengths) * len(lengths) + sequence
        rows = np.zeros(int(lengths.max()) * len(lengths), np.int64)
        rows[places] = np.arange(len(places))
        at = torch.from_numpy(rows).to(device), torch.from_numpy(places).to(device)
        return cls(*at, len(lengths), *beside)

    def padded(self, x: Tensor) -> Tensor:
        """Return [L, Q, F] from ``x`` [N, F]."""
        return x.index_select(0, self.rows).view(-1, self.count, x.shape[1])

    def unpadded(self, y: Tensor) -> Tensor:
        """Return [N, H] from ``y`` [L, Q, H]."""
        return y.flatten(0, 1).index_select(0, self.places)


def steps_within(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[N] the step within its sequence of each row of sequences with these ``lengths``, one after the other."""
    ends = np.cumsum(lengths)
    steps: NDArray[np.int64] = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
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
        layout: The places of these steps in P sequences; None if there are none.
        lengths: [P] steps of each burn-in, on the CPU.
        computed: The memory [Q, M] at the start by network, within
            :meth:`rlcore_torch.MinibatchTrainer.burn_in_once`; None elsewhere.
    """

    stored: Tensor
    led: Tensor
    lead: Inputs
    layout: SequenceLayout | None
    lengths: Tensor
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
        made.steps, made.layout, made.chosen, made.starts = tuple(steps), layout, chosen, starts
        return made

    def map(self, function: Callable[[Inputs], Inputs]) -> SequenceInputs:
        """Return the same steps with ``function`` of their inputs, such as a part of the observations."""
        made = SequenceInputs(function(self))
        made.steps, made.layout, made.chosen = function(self.steps), self.layout, self.chosen
        made.starts = attrs.evolve(self.starts, lead=function(self.starts.lead))
        return made
