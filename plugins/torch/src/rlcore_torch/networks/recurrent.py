"""The recurrent layer of a network with memory: LSTM (Hochreiter and Schmidhuber 1997) or GRU (Cho et al. 2014)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rlcore_torch.networks.sequence_inputs import Segments
from rlcore_torch.networks.settings import MemorySettings

__all__ = ["Recurrent"]


class Recurrent(nn.Module):
    """An LSTM of M / 2 units, or a GRU of M units, for M = ``memory_size``.

    A row of memory [M] of an LSTM holds the hidden state, then the cell state; that of a GRU holds the hidden state.

    Attributes:
        memory_size: M.
        features: Outputs of the layer: M / 2 of an LSTM, M of a GRU.
        has_cell: Whether the layer is an LSTM.
    """

    def __init__(self, features: int, settings: MemorySettings, init: str) -> None:
        super().__init__()
        self.memory_size = settings.memory_size
        self.has_cell = settings.type == "lstm"
        self.features = settings.memory_size
        if self.has_cell:
            self.features //= 2  # the other half of a row is the cell state
        # Its name, which the names of saved weights begin with, says which of the two it is.
        self._name = settings.type
        kind = nn.LSTM if self.has_cell else nn.GRU
        self.add_module(self._name, kind(features, self.features))
        if init != "uniform":
            self._initialize(init)

    @property
    def layer(self) -> Any:
        """The ``torch.nn.LSTM`` or ``torch.nn.GRU``."""
        return getattr(self, self._name)

    @torch.no_grad()
    def _initialize(self, init: str) -> None:
        """Each gate by itself; the forget gate of an LSTM has a bias of 1 (Jozefowicz et al. 2015)."""
        fill = nn.init.orthogonal_ if init == "orthogonal" else nn.init.xavier_uniform_
        for name, parameter in self.layer.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(parameter)
                continue
            for gate in parameter.split(self.features):
                fill(gate)
        if self.has_cell:
            # PyTorch's gates are in the order input, forget, cell, output.
            forget_gate = slice(self.features, 2 * self.features)
            self.layer.bias_ih_l0[forget_gate] = 1.0

    def weights(self) -> list[Tensor]:
        """The weights of inputs [G, F] and of hidden states [G, features], and the biases [G] of both; G gates."""
        layer = self.layer
        return [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0]

    def _state(self, memory: Tensor) -> Any:
        """The state of the layer from ``memory`` [Q, M]."""
        state = memory.unsqueeze(0)  # [1 layer, Q, M]
        if not self.has_cell:
            return state.contiguous()
        h, c = state.chunk(2, dim=2)
        return h.contiguous(), c.contiguous()

    def _first(self, state: Any, count: int) -> Any:
        """The state of the first ``count`` sequences of ``state``."""
        if self.has_cell:
            return tuple(part[:, :count] for part in state)
        return state[:, :count]

    def forward(self, x: Tensor, memory: Tensor, segments: Segments) -> Tensor:
        """Return the outputs [P, features] at P places of sequences ``x`` [P, F].

        ``memory`` [C, M] is the memory before the first step of the C sequences of the first of the ``segments``; see
        :class:`~rlcore_torch.networks.sequence_inputs.SequenceLayout`.
        """
        state = self._state(memory)
        outputs: list[Tensor] = []
        sizes = [steps * count for steps, count in segments]
        parts: Any = x.split(sizes)  # type: ignore[no-untyped-call]
        for (steps, count), part in zip(segments, parts, strict=True):
            x_segment = part.view(steps, count, -1)  # [steps, count, F]
            # Sequences lie from the longest to the shortest: those that have ended are the last ones.
            state = self._first(state, count)
            output, state = self.layer(x_segment, state)
            outputs.append(output.flatten(0, 1))
        if len(outputs) == 1:
            return outputs[0]
        return torch.cat(outputs)

    def after(self, x: Tensor, memory: Tensor, segments: Segments) -> Tensor:
        """Return the memory [Q, M] after Q sequences ``x`` [N, F], each of which has its own number of steps.

        ``memory`` [Q, M] is the memory before the first step, and ``segments`` are packed: one for each step.
        """
        counts = [count for _, count in segments]
        packed = PackedSequence(x, torch.tensor(counts))  # PyTorch wants counts on the CPU, whatever the device is
        _, state = self.layer(packed, self._state(memory))
        if self.has_cell:
            state = torch.cat(state, dim=2)
        after: Tensor = state[0]
        return after

    def step(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output [R, features] and the next memory [R, M] of a step ``x`` [R, F] with ``memory`` [R, M]."""
        # With 64 units on one core, a cell's function takes a third of the time of the layer called with one step.
        if not self.has_cell:
            h = torch.gru_cell(x, memory, *self.weights())
            return h, h
        state = memory.chunk(2, dim=1)
        h, c = torch.lstm_cell(x, state, *self.weights())
        return h, torch.cat([h, c], dim=1)
