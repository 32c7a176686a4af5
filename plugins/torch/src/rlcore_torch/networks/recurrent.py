"""The recurrent layer of a network with memory: one LSTM layer (Hochreiter and Schmidhuber 1997)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Recurrent"]


class Recurrent(nn.Module):
    """An LSTM of ``memory_size // 2`` units, for M = ``memory_size``.

    A row of memory [M] holds the hidden state, then the cell state.

    Attributes:
        features: Outputs of the layer: M / 2.
        lstm: The layer.
    """

    def __init__(self, features: int, memory_size: int, init: str) -> None:
        super().__init__()
        self.features = memory_size // 2
        self.lstm = nn.LSTM(features, self.features)
        if init != "uniform":
            self._initialize(init)

    @torch.no_grad()
    def _initialize(self, init: str) -> None:
        """Each gate by itself, with a bias of 1 for the forget gate (Jozefowicz et al. 2015)."""
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("weight"):
                fill = nn.init.orthogonal_ if init == "orthogonal" else nn.init.xavier_uniform_
                for gate in parameter.chunk(4):
                    fill(gate)
            else:
                nn.init.zeros_(parameter)
        self._weights()[2][self.features : 2 * self.features] = 1.0

    def _weights(self) -> list[Tensor]:
        """The weights of inputs and of hidden states, and the biases of both."""
        return [getattr(self.lstm, name) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")]

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """Return the outputs [L, Q, M / 2] of L steps in Q sequences ``x`` [L, Q, F].

        ``memory`` [Q, M] is the memory before the first step.
        """
        h, c = memory.unsqueeze(0).chunk(2, dim=2)
        output, _ = self.lstm(x, (h.contiguous(), c.contiguous()))
        return output  # type: ignore[no-any-return]

    def step(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output [R, M / 2] and the next memory [R, M] of one step ``x`` [R, F] with ``memory`` [R, M]."""
        h, c = torch.lstm_cell(x, memory.chunk(2, dim=1), *self._weights())
        return h, torch.cat([h, c], dim=1)
