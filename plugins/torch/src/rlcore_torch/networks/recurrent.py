"""The recurrent layer of a network with memory: LSTM (Hochreiter and Schmidhuber 1997) or GRU (Cho et al. 2014)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from rlcore_torch.settings import MemorySettings

__all__ = ["Recurrent"]


class Recurrent(nn.Module):
    """An LSTM of M / 2 units, or a GRU of M units, for M = ``memory_size``.

    A row of memory [M] of an LSTM holds the hidden state, then the cell state; that of a GRU holds the hidden state.

    Attributes:
        memory_size: M.
        features: Outputs of the layer: M / 2 of an LSTM, M of a GRU.
    """

    def __init__(self, features: int, settings: MemorySettings, init: str) -> None:
        super().__init__()
        self.memory_size = settings.memory_size
        self._has_cell = settings.type == "lstm"
        self.features = settings.memory_size // 2 if self._has_cell else settings.memory_size
        self._name = settings.type
        layer = nn.LSTM if self._has_cell else nn.GRU
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
        if self._has_cell:
            self._weights()[2][self.features : 2 * self.features] = 1.0

    def _weights(self) -> list[Tensor]:
        """The weights of inputs and of hidden states, and the biases of both."""
        return [getattr(self.layer, name) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")]

    def _state(self, memory: Tensor) -> Any:
        """The state of the layer from ``memory`` [Q, M]."""
        if not self._has_cell:
            return memory.unsqueeze(0).contiguous()
        h, c = memory.unsqueeze(0).chunk(2, dim=2)
        return h.contiguous(), c.contiguous()

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """Return the outputs [L, Q, features] of L steps in Q sequences ``x`` [L, Q, F].

        ``memory`` [Q, M] is the memory before the first step.
        """
        output, _ = self.layer(x, self._state(memory))
        return output  # type: ignore[no-any-return]

    def after(self, x: Tensor, lengths: Tensor, memory: Tensor) -> Tensor:
        """Return the memory [Q, M] after Q sequences ``x`` [L, Q, F], of which each has ``lengths`` [Q] steps.

        ``memory`` [Q, M] is the memory before the first step. ``lengths``, each at least 1, are on the CPU.
        """
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        _, state = self.layer(packed, self._state(memory))
        return torch.cat(state, dim=2)[0] if self._has_cell else state[0]

    def step(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output [R, features] and the next memory [R, M] of a step ``x`` [R, F] with ``memory`` [R, M]."""
        if not self._has_cell:
            h = torch.gru_cell(x, memory, *self._weights())
            return h, h
        h, c = torch.lstm_cell(x, memory.chunk(2, dim=1), *self._weights())
        return h, torch.cat([h, c], dim=1)
