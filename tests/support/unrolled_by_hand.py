"""Outputs of a network with memory for stored steps, computed one after the other, row by row."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rlcore_torch import Body, Rows, SequenceRows
from rlcore_torch.off_policy.batch_reader import BatchReader


def features_by_hand(body: Body, reader: BatchReader, sequences: SequenceRows, targets: Rows) -> Tensor:
    """[B, features] at ``targets``, a row of each of the B transitions of ``sequences``.

    From the row where the burn-in begins, with what was stored there, without a gradient as far as the sequence starts.
    """
    buffer = reader.buffer
    found = []
    size = body.recurrent.memory_size  # type: ignore[union-attr]
    for sequence, target in zip(sequences.sequence, targets, strict=True):
        lead = int(sequences.leads[sequence])
        row = (sequences.starts[sequence] - lead * buffer.slots) % buffer.capacity
        memory = torch.zeros(1, size)
        if body.memory_place is not None and buffer.memory.size:
            memory = torch.from_numpy(buffer.memory[row].reshape(1, -1, size)[:, body.memory_place].copy())
        for step in range(buffer.capacity):
            with torch.set_grad_enabled(step >= lead):
                output, memory = body.step(reader.at(np.array([row])), memory)
            if row == target:
                break
            row = (row + buffer.slots) % buffer.capacity
        found.append(output)
    return torch.cat(found)
