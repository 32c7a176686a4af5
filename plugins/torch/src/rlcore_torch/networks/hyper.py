"""Goal conditioning: a layer whose weights another network makes of the goal, as in ML-Agents.

The idea is of Ha, Dai and Le 2017, "HyperNetworks", arXiv:1609.09106.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class HyperLinear(nn.Module):
    """A linear layer with weights of its own for each row, made of the row's goal.

    Attributes:
        weights: The network from goals to weights.
        bias: [outputs] bias of all rows.
    """

    def __init__(self, inputs: int, outputs: int, goal: int) -> None:
        """Map ``inputs`` numbers to ``outputs``, with weights made of ``goal`` numbers."""
        super().__init__()
        self.inputs = inputs
        self.outputs = outputs
        first = nn.Linear(goal, outputs)
        second = nn.Linear(outputs, outputs)
        last = nn.Linear(outputs, inputs * outputs)
        norm = nn.LayerNorm(outputs, elementwise_affine=False)
        self.weights = nn.Sequential(first, nn.SiLU(), second, nn.SiLU(), norm, last)
        self.bias = nn.Parameter(torch.zeros(outputs))
        for layer in (first, second):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
            nn.init.zeros_(layer.bias)
        # The weights that it makes have the variance 1 / (3 inputs) then.
        bound = 1.0 / math.sqrt(outputs * inputs)
        nn.init.uniform_(last.weight, -bound, bound)
        nn.init.zeros_(last.bias)

    def forward(self, x: Tensor, goal: Tensor) -> Tensor:
        """Return [B, outputs] of ``x`` [B, inputs] and the ``goal`` [B, goal] of each row."""
        weights = self.weights(goal).view(-1, self.inputs, self.outputs)
        return torch.bmm(x.unsqueeze(1), weights).squeeze(1) + self.bias
