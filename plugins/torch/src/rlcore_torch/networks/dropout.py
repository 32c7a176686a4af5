"""Dropout whose random numbers are a part of the network, so that a resumed run leaves out the same features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlcore import derive_seed

__all__ = ["Dropout"]


class Dropout(nn.Module):
    """Sets a share of the features to zero and scales up the others, where a gradient is computed and nowhere else.

    Acting, targets, statistics and exported policies use all features: they are computed without a gradient, or with
    the module in ``eval()`` (Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from
    overfitting"). What is left out depends on the buffers alone, not on PyTorch's generator.

    Attributes:
        share: The probability with which a feature is left out.
        seed: [] int64, drawn from PyTorch's generator when the module was made.
        draws: [] int64, how many times features were left out so far.
    """

    seed: Tensor
    draws: Tensor

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.register_buffer("seed", torch.randint(2**62, ()))
        self.register_buffer("draws", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` [B, features] with a share of its numbers left out."""
        if not (self.training and torch.is_grad_enabled()):
            return x
        drawn = derive_seed(int(self.seed), "dropout", int(self.draws))
        self.draws += 1
        generator = torch.Generator(x.device).manual_seed(drawn)
        kept = torch.empty_like(x).bernoulli_(1.0 - self.share, generator=generator)
        return x * kept / (1.0 - self.share)
