"""AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101)."""

import torch
from torch import nn

from rlcore_adamw.plugin import AdamWSettings


def adamw(parameters: list[nn.Parameter], learning_rate: float, settings: AdamWSettings) -> torch.optim.Optimizer:
    """AdamW in which only matrices and kernels decay, not biases, standard deviations and SAC's temperatures."""
    weights = [parameter for parameter in parameters if parameter.ndim > 1]
    others = [parameter for parameter in parameters if parameter.ndim <= 1]
    groups = []
    if weights:
        groups.append({"params": weights, "weight_decay": settings.weight_decay})
    if others:
        groups.append({"params": others, "weight_decay": 0.0})
    fused = parameters[0].device.type in ("cpu", "cuda")  # one operation for all parameters
    return torch.optim.AdamW(groups, lr=learning_rate, eps=settings.epsilon, fused=fused)
