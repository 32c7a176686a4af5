"""Networks with batch normalization in PyTorch's own layers and float64, beside which gradient steps are computed."""

# mypy: allow-untyped-calls
from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn


def torch_network(body: Any, head: nn.Linear) -> nn.Sequential:
    """Return the network of PyTorch's layers in float64; its mode is a state, and its running statistics stay."""
    first, *hidden = body.layers
    layers: list[nn.Module] = [_batch_norm(first)]
    for layer in hidden:
        linear, norm, activation = copy.deepcopy(layer.linear), _batch_norm(layer.norm), nn.ReLU()
        layers += [linear, norm, activation] if layer.before else [linear, activation, norm]
    return nn.Sequential(*layers, copy.deepcopy(head)).double()


def _batch_norm(norm: Any) -> nn.BatchNorm1d:
    theirs = nn.BatchNorm1d(len(norm.weight), norm.epsilon, momentum=0.0)
    with torch.no_grad():
        for name in ("weight", "bias", "running_mean", "running_var"):
            getattr(theirs, name).copy_(getattr(norm, name))
    return theirs


def drawn_actions(columns: Tensor, noise: Tensor, limits: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """Actions [B, C] and log-probabilities [B] of a Gaussian of limited deviation, whose draws pass through tanh."""
    mean, log_std = columns.chunk(2, dim=1)
    normal = torch.distributions.Normal(mean, log_std.clamp(*limits).exp())
    raw = mean + normal.stddev * noise
    log_slope = -2.0 * raw.cosh().log()  # of tanh; its slope 1 - tanh^2 would round to 0
    log_prob = normal.log_prob(raw) - log_slope
    return raw.tanh(), log_prob.sum(1)


def sorted_by_shape(tensors: Any) -> list[Tensor]:
    """In one order whatever the order of the modules: by shape, then by the first number."""
    return sorted(tensors, key=lambda tensor: (tuple(tensor.shape), round(float(tensor.flatten()[0]), 4)))
