"""PPO's clipped surrogate objective (Schulman et al. 2017, arXiv:1707.06347, eq. 7) with its gradient written out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlcore.torch.mlp import refuse_second_derivative


def clipped_surrogate(
    log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, clip_range: float
) -> tuple[Tensor, Tensor]:
    """``(loss, log_ratio)``: the objective's negative, a scalar, and the log of new over old probability, [B].

    With r = exp(log_prob - old_log_prob) the loss is -mean(min(r A, clip(r, 1 - clip_range, 1 + clip_range) A)). Where
    the clipped term is the smaller one it does not depend on the weights; elsewhere d(r A) / d log_prob = r A.
    """
    return _ClippedSurrogate.apply(log_prob, old_log_prob, advantage, clip_range)  # type: ignore[no-any-return, no-untyped-call]


class _ClippedSurrogate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, clip_range: float
    ) -> tuple[Tensor, Tensor]:
        log_ratio = log_prob - old_log_prob
        ratio = log_ratio.exp()
        free = ratio * advantage
        limited = ratio.clamp(1.0 - clip_range, 1.0 + clip_range) * advantage
        ctx.save_for_backward(free, limited)
        ctx.mark_non_differentiable(log_ratio)
        return -torch.minimum(free, limited).mean(), log_ratio

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        refuse_second_derivative("write it with torch.minimum and torch.clamp")
        free, limited = ctx.saved_tensors
        return free * (free <= limited) * (gradients[0] / -len(free)), None, None, None
