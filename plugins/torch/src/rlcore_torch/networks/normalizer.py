"""Observation normalization as a part of the model, so that export, evaluation and resume cannot diverge from it.

:class:`rlcore_torch.ObservationInputs` decides which observations are normalized. A trainer that acts gives it
the first observations before it acts on them, so that no action depends on an observation without statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from rlcore import Ranks

__all__ = ["RunningNormalizer"]

CLIP = 5.0  # ML-Agents'
LEAST_VARIANCE = 1e-8  # added under the root, so that a column that hardly varies is not blown up


class RunningNormalizer(nn.Module):
    """Subtracts the running mean, divides by the running standard deviation, clips to [-clip, clip].

    Means and variances of batches are joined exactly (Chan, Golub and LeVeque 1979, eq. 2.1), in float64: the sums
    run over a whole training. They stay on the CPU, because some devices have no float64 (``mps``); ``forward`` uses
    ``shift`` and ``inverse_std``, in float32 on the device of the model. A column that has not varied yet is only
    shifted. Before the first batch values are only clipped.

    Attributes:
        mean: [size] mean of the inputs so far, float64.
        m2: [size] sum of squared distances from the mean, float64.
        count: [] number of rows so far, float64.
        shift: [size] mean that ``forward`` subtracts, float32.
        inverse_std: [size] factor of ``forward``, float32.
        clip: Largest absolute value of a result.
    """

    mean: Tensor
    m2: Tensor
    count: Tensor
    shift: Tensor
    inverse_std: Tensor

    def __init__(self, size: int, clip: float = CLIP) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("m2", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(size), persistent=False)
        self.register_buffer("inverse_std", torch.ones(size), persistent=False)
        self.register_load_state_dict_post_hook(_refresh_loaded)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def update(self, x: Tensor, ranks: Ranks | None = None) -> None:
        """Update mean and variance with a batch ``x`` of shape [B, size], on any device.

        With ``ranks``, with the batches of all ranks. An empty batch changes nothing.
        """
        x = x.cpu().to(torch.float64)
        mean = x.mean(0)
        m2 = (x - mean).square().sum(0)
        moments = (len(x), mean.numpy(), m2.numpy())
        batches: list[Any] = [moments]
        if ranks is not None:
            # Every rank joins all batches in the order of the ranks, so that the sums are equal in all of them.
            batches = ranks.all_gather(moments)
        for count, mean_of_batch, m2_of_batch in batches:
            if count:  # the mean of no rows is NaN
                self._join(count, torch.from_numpy(mean_of_batch), torch.from_numpy(m2_of_batch))
        self.refresh()

    def _join(self, count: int, mean: Tensor, m2: Tensor) -> None:
        """Join the moments of a batch."""
        total = self.count + count
        delta = mean - self.mean
        between = delta.square() * self.count * count / total
        self.m2 += m2 + between
        self.mean += delta * count / total
        self.count.fill_(total)

    @torch.no_grad()
    def refresh(self) -> None:
        """Compute ``shift`` and ``inverse_std``. Call it after ``mean``, ``m2`` or ``count`` changed."""
        variance = self.m2 / self.count.clamp(min=1)
        inverse_std = (variance + LEAST_VARIANCE).rsqrt()
        # A constant column has no unit to divide by: 1e4, the factor of the variance 0, would blow up its first change.
        inverse_std = torch.where(variance > 0, inverse_std, 1.0)
        # Rounded before they are copied: a device without float64 cannot round them.
        self.shift.copy_(self.mean.to(torch.float32))
        self.inverse_std.copy_(inverse_std.to(torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` [..., size], normalized and clipped."""
        scaled = (x - self.shift) * self.inverse_std
        return scaled.clamp(-self.clip, self.clip)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move or convert what ``forward`` uses; the sums stay where they are."""
        sums = {}
        for name in ("mean", "m2", "count"):
            sums[name] = self._buffers.pop(name)
        # Put back whatever happens: without them the model could neither be saved nor updated.
        try:
            moved: Any = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        finally:
            self._buffers = {**sums, **self._buffers}
        return moved  # type: ignore[no-any-return]


def _refresh_loaded(module: RunningNormalizer, _: Any) -> None:  # a lambda could not be pickled with the module
    module.refresh()
