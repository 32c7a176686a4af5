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
        self.features = settings.memory_size // 2 if self.has_cell else settings.memory_size
        self._name = settings.type
        layer = nn.LSTM if self.has_cell else nn.GRU
        self.add_module(self._name, layer(features, self.features))
        if init != "uniform":
            self._initialize(init)

    @property
    def layer(self) -> Any:
        """The ``torch.nn.LSTM`` or ``torch.nn.GRU``."""
        return getattr(self, self._name)

    @torch.no_grad()
    def _initialize(self, init: str) -> None:
        """Each gate by itself; the forget gate of an LSTM has a bias of 1 (Jozefowicz et al. 2015)."""
        for name, parameter in self.layer.named_parameters():
            if name.startswith("weight"):
                fill = nn.init.orthogonal_ if init == "orthogonal" else nn.init.xavier_uniform_
                for gate in parameter.split(self.features):
                    fill(gate)
            else:
                nn.init.zeros_(parameter)
        if self.has_cell:
            self.weights()[2][self.features : 2 * self.features] = 1.0

    def weights(self) -> list[Tensor]:
        """The weights of inputs [G, F] and of hidden states [G, features], and the biases [G] of both; G gates."""
        return [getattr(self.layer, name) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")]

    def _state(self, memory: Tensor) -> Any:
        """The state of the layer from ``memory`` [Q, M]."""
        if not self.has_cell:
            return memory.unsqueeze(0).contiguous()
        h, c = memory.unsqueeze(0).chunk(2, dim=2)
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
        outputs = []
        parts: Any = x.split([steps * count for steps, count in segments])  # type: ignore[no-untyped-call]
        for (steps, count), part in zip(segments, parts, strict=True):
            x_segment = part.view(steps, count, -1)  # [steps, count, F]
            output, state = self.layer(x_segment, self._first(state, count))
            outputs.append(output.flatten(0, 1))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def after(self, x: Tensor, memory: Tensor, segments: Segments) -> Tensor:
        """Return the memory [Q, M] after Q sequences ``x`` [N, F], each of which has its own number of steps.

        ``memory`` [Q, M] is the memory before the first step, and ``segments`` are packed: one for each step.
        """
        counts = torch.tensor([count for _, count in segments])  # on the CPU, whatever the device is
        _, state = self.layer(PackedSequence(x, counts), self._state(memory))
        return torch.cat(state, dim=2)[0] if self.has_cell else state[0]

    def step(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output [R, features] and the next memory [R, M] of a step ``x`` [R, F] with ``memory`` [R, M]."""
        if not self.has_cell:
            h = torch.gru_cell(x, memory, *self.weights())
            return h, h
        h, c = torch.lstm_cell(x, memory.chunk(2, dim=1), *self.weights())
        return h, torch.cat([h, c], dim=1)
