"""Optimizers of PyTorch that ``optimizer.type`` names."""

from __future__ import annotations

import torch
from torch import nn

from rlcore_torch.settings import AdamWSettings, RAdamSettings


def adamw(parameters: list[nn.Parameter], learning_rate: float, settings: AdamWSettings) -> torch.optim.Optimizer:
    """AdamW in which matrices and kernels decay, and biases, standard deviations and temperatures do not."""
    groups = []
    weights = [parameter for parameter in parameters if parameter.ndim > 1]
    others = [parameter for parameter in parameters if parameter.ndim <= 1]
    if weights:
        groups.append({"params": weights, "weight_decay": settings.weight_decay})
    if others:
        groups.append({"params": others, "weight_decay": 0.0})
    betas = (settings.beta1, settings.beta2)
    fused = parameters[0].device.type in ("cpu", "cuda")  # one operation for all parameters
    return torch.optim.AdamW(groups, learning_rate, betas, settings.epsilon, fused=fused)


def radam(parameters: list[nn.Parameter], learning_rate: float, settings: RAdamSettings) -> torch.optim.Optimizer:
    """RAdam, with an operation for all parameters instead of one for each."""
    betas = (settings.beta1, settings.beta2)
    return torch.optim.RAdam(parameters, learning_rate, betas, settings.epsilon, foreach=True)
