# mypy: allow-untyped-calls
"""A recurrent layer over many sequences at once does in each of them what it does step by step in that one alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlcore_torch import MemorySettings, Recurrent
from rlcore_torch.networks.sequence_inputs import SequenceLayout

CPU = torch.device("cpu")
FEATURES = 5
MEMORY = 12
# One step; one sequence; equal ones; one longer than all others; many of all lengths.
CASES = {
    "one step": [1],
    "one": [13],
    "equal": [6] * 9,
    "one long": [1] * 120 + [70],
    "many": np.random.default_rng(0).integers(1, 40, 50).tolist(),
}


def layer_and_sequences(kind: str, lengths: Sequence[int]) -> tuple[Recurrent, Tensor, Tensor]:
    """A layer, the rows [N, FEATURES] of its sequences, and the memory [Q, MEMORY] at their starts."""
    torch.manual_seed(1)
    layer = Recurrent(FEATURES, MemorySettings(type=kind, memory_size=MEMORY), "uniform")
    return layer, torch.randn(sum(lengths), FEATURES), torch.randn(len(lengths), MEMORY)


def one_by_one(layer: Recurrent, x: Tensor, memory: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Outputs [N, features] and the memory [Q, MEMORY] after each sequence, by :meth:`Recurrent.step`."""
    outputs = []
    after = []
    for rows, before in zip(x.split(list(lengths)), memory.split(1), strict=True):
        for row in rows.split(1):
            output, before = layer.step(row, before)
            outputs.append(output)
        after.append(before)
    return torch.cat(outputs), torch.cat(after)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("lengths", CASES.values(), ids=CASES)
def test_sequences_together_have_outputs_and_gradients_of_each_alone(kind: str, lengths: list[int]) -> None:
    """Nothing passes from one sequence to another, nor from what fills a sequence up."""
    layer, x, memory = layer_and_sequences(kind, lengths)
    weights = torch.randn(sum(lengths), layer.features)

    def gradients(outputs: Tensor, of: list[Any]) -> tuple[Tensor, ...]:
        return torch.autograd.grad((outputs * weights).sum(), of)

    x.requires_grad_()
    memory.requires_grad_()
    of = [x, memory, *layer.parameters()]
    layout = SequenceLayout.of(np.array(lengths), CPU)
    found = layout.unpadded(layer(layout.padded(x), memory[layout.order], layout.segments))
    wanted, _ = one_by_one(layer, x, memory, lengths)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(gradients(found, of), gradients(wanted, of), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("lengths", CASES.values(), ids=CASES)
def test_the_memory_after_sequences_is_that_of_their_last_steps(kind: str, lengths: list[int]) -> None:
    layer, x, memory = layer_and_sequences(kind, lengths)
    layout = SequenceLayout.packed(np.array(lengths), CPU)
    with torch.no_grad():
        found = layer.after(layout.padded(x), memory[layout.order], layout.segments)
        _, wanted = one_by_one(layer, x, memory, lengths)
    torch.testing.assert_close(found, wanted[layout.order], rtol=1e-5, atol=1e-6)


def test_short_sequences_are_not_filled_up_to_a_long_one_and_sizes_recur() -> None:
    """Minibatches of 80 sequences of at most 64 steps, with a mean of 22."""
    generator = np.random.default_rng(0)
    places = 0
    rows = 0
    sizes: set[tuple[int, int]] = set()
    for _ in range(200):
        lengths = np.minimum(generator.geometric(1 / 24, 80), 64)
        layout = SequenceLayout.of(lengths, CPU)
        sizes.update(layout.segments)
        places = places + len(layout.rows)
        rows = rows + len(layout.places)
        assert layout.segments[0][1] >= 80 and sum(steps for steps, _ in layout.segments) >= lengths.max()
    assert places < 1.5 * rows < 80 * 64 * 200 / 1.5
    assert len(sizes) < 60, "oneDNN would make a program for each of 700 sizes"
