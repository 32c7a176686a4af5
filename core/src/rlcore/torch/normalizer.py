"""Observation normalization as a part of the model, so that export, evaluation and resume cannot diverge from it.

:class:`rlcore.torch.networks.ObservationInputs` decides which observations are normalized.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RunningNormalizer(nn.Module):
    """Subtracts the running mean, divides by the running standard deviation, clips to [-clip, clip].

    Means and variances of batches are joined exactly (Chan, Golub and LeVeque 1979, eq. 2.1), in float64: the sums
    run over a whole training. Before the first batch it passes values through.
    """

    mean: Tensor
    m2: Tensor
    count: Tensor

    def __init__(self, size: int, clip: float = 5.0) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("m2", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Takes in a batch of shape [B, size]."""
        x = x.to(torch.float64)
        count = x.shape[0]
        mean = x.mean(0)
        m2 = (x - mean).square().sum(0)
        total = self.count + count
        delta = mean - self.mean
        self.m2 += m2 + delta.square() * self.count * count / total
        self.mean += delta * count / total
        self.count.fill_(total)

    def scale(self) -> tuple[Tensor, Tensor]:
        """``(mean, inverse standard deviation)``, float32, each [size]."""
        if self.count < 2:
            return torch.zeros_like(self.mean, dtype=torch.float32), torch.ones_like(self.mean, dtype=torch.float32)
        variance = self.m2 / self.count
        return self.mean.to(torch.float32), (variance + 1e-8).rsqrt().to(torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        mean, inverse_std = self.scale()
        return ((x - mean) * inverse_std).clamp(-self.clip, self.clip)
