"""Batch normalization whose mode is an argument of each call, not a state of the module.

One gradient step may need a network with the statistics of the minibatch and with the running ones. A module that is
switched between both acts, sooner or later, with those of whoever is beside it in the batch. Here every call that does
not ask for the statistics of its rows uses the running ones and changes nothing: acting, evaluation, export, snapshots.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["BatchNorm", "BatchRenorm"]


class BatchNorm(nn.Module):
    """Normalizes each feature by a mean and a variance over rows (Ioffe and Szegedy 2015, arXiv:1502.03167).

    A call with ``batch_statistics`` uses those of its own rows, which have a gradient, and moves the running statistics
    by ``momentum`` towards them, with or without a recorded gradient. Every other call uses the running statistics:
    the result of a row does not depend on the rows beside it. The variance divides by the number of rows in both, as
    in Flax.

    Attributes:
        momentum: The share of the rows' statistics that enters the running ones; 0.01 is Flax's 0.99.
        epsilon: Added to variances.
        weight: [features] factor after the normalization.
        bias: [features] added after it.
        running_mean: [features] buffer.
        running_var: [features] buffer.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, features: int, momentum: float = 0.01, epsilon: float = 1e-3) -> None:
        super().__init__()
        self.momentum = momentum
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x: Tensor, batch_statistics: bool = False) -> Tensor:
        """Return ``x`` [B, features] normalized; with ``batch_statistics``, by its own B rows.

        Raises ValueError for batch statistics of fewer than two rows.
        """
        x = x.float()  # a layer before it may compute in bfloat16
        if not batch_statistics:
            factor, shift = self.factor_and_shift()
            return torch.addcmul(shift, x - self.running_mean, factor)
        if x.shape[0] < 2:
            raise ValueError(f"batch statistics need at least two rows, not {x.shape[0]}")
        normalized, mean, inverse_std = self._of_rows(x)
        with torch.no_grad():
            var = (inverse_std.pow(-2) - self.epsilon).clamp(min=0.0)  # below 0 by rounding, of a constant feature
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return normalized

    def factor_and_shift(self) -> tuple[Tensor, Tensor]:
        """Return the factor [features] and the shift [features] of a call with the running statistics.

        Such a call is ``(x - running_mean) * factor + shift``, which can be folded into a linear layer beside it.
        """
        factor = self.weight * torch.rsqrt(self.running_var + self.epsilon)
        return factor, self.bias

    def _of_rows(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``x`` [B, features] normalized by its own rows, and their mean and 1 / standard deviation [features].

        Called before the running statistics move.
        """
        return torch.native_batch_norm(x, self.weight, self.bias, None, None, True, 0.0, self.epsilon)


class BatchRenorm(BatchNorm):
    """Batch normalization that learns, after a warm-up, from features as acting sees them.

    This is batch renormalization (Ioffe 2017, arXiv:1702.03275): features [B, features] that were normalized by their
    own rows are corrected by two numbers without a gradient, r and d, to what the running statistics make of them. Both
    are limited, so that a minibatch unlike all others cannot do harm.

    Attributes:
        warm_up: Calls with batch statistics without a correction. 100,000 are those of CrossQ (Bhatt et al. 2024,
            arXiv:1902.05605).
        largest_factor: r is between 1 / ``largest_factor`` and it.
        largest_shift: d is between minus ``largest_shift`` and it.
        count: [] int64 buffer, the calls with batch statistics so far.
    """

    count: Tensor

    def __init__(
        self,
        features: int,
        momentum: float = 0.01,
        epsilon: float = 1e-3,
        warm_up: int = 100_000,
        largest_factor: float = 3.0,
        largest_shift: float = 5.0,
    ) -> None:
        super().__init__(features, momentum, epsilon)
        self.warm_up = warm_up
        self.largest_factor = largest_factor
        self.largest_shift = largest_shift
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def _of_rows(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        normalized, mean, inverse_std = torch.native_batch_norm(x, None, None, None, None, True, 0.0, self.epsilon)
        running_inverse_std = torch.rsqrt(self.running_var + self.epsilon)
        r = (running_inverse_std / inverse_std).clamp(1.0 / self.largest_factor, self.largest_factor)
        d = ((mean - self.running_mean) * running_inverse_std).clamp(-self.largest_shift, self.largest_shift)
        # No branch of Python: a recorded gradient step would take that of its recording for good.
        is_warm = self.count >= self.warm_up
        r = torch.where(is_warm, r, torch.ones_like(r))
        d = torch.where(is_warm, d, torch.zeros_like(d))
        self.count += 1
        return torch.addcmul(self.bias + self.weight * d, normalized, self.weight * r), mean, inverse_std
