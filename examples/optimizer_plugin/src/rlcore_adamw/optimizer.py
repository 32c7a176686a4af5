"""AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101)."""

import torch
from torch import nn

from rlcore_adamw.plugin import AdamWSettings


def adamw(parameters: list[nn.Parameter], learning_rate: float, settings: AdamWSettings) -> torch.optim.Optimizer:
    """AdamW in which only matrices and kernels decay, not biases, standard deviations and SAC's temperatures."""
    weights = [p for p in parameters if p.ndim > 1]
    others = [p for p in parameters if p.ndim <= 1]
    groups = [
        {"params": weights, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    fused = parameters[0].device.type in ("cpu", "cuda")  # one operation for all parameters
    return torch.optim.AdamW(groups, lr=learning_rate, eps=settings.epsilon, fused=fused)
