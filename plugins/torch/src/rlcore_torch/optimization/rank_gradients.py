"""Gradients and statistics of a minibatch whose rows are shared among ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlcore import Ranks
from rlcore_torch.distributed import sum_over_ranks

__all__ = ["gather_rows", "sum_gradients"]


def sum_gradients(ranks: Ranks, parameters: Sequence[nn.Parameter], share: float) -> None:
    """Replace the gradients of ``parameters`` by those of the minibatch of all ranks, in one exchange.

    The loss is a mean over rows, and ``share`` the share of this rank's rows: the gradient of all rows is the sum of
    the gradients of the ranks, each times its share. A parameter without a gradient in any rank stays without one.
    """
    if ranks.size == 1:
        return
    gradients = [parameter.grad for parameter in parameters]
    kind = parameters[0]
    parts = [
        torch.zeros_like(p).reshape(-1) if gradient is None else gradient.reshape(-1)
        for p, gradient in zip(parameters, gradients, strict=True)
    ]
    there = torch.tensor([float(gradient is not None) for gradient in gradients], dtype=kind.dtype, device=kind.device)
    flat = torch.cat([torch.cat(parts) * share, there])
    sum_over_ranks(ranks, flat)
    *sums, counts = flat.split([*(parameter.numel() for parameter in parameters), len(parameters)])  # type: ignore[no-untyped-call]
    for parameter, total, count in zip(parameters, sums, counts.tolist(), strict=True):
        if parameter.grad is not None:
            parameter.grad.copy_(total.view_as(parameter))
        elif count:
            parameter.grad = total.view_as(parameter).clone()


def gather_rows(ranks: Ranks, values: Tensor) -> Tensor:
    """The rows of all ranks, one rank after the other. ``values`` are [rows, ...], with any number of rows."""
    if ranks.size == 1:
        return values
    parts = ranks.all_gather(values.detach().cpu().numpy())
    return torch.cat([torch.from_numpy(part) for part in parts]).to(values.device)
