# mypy: allow-untyped-calls
"""Gaussians squashed by tanh: values and gradients against torch.distributions, densities against integration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from rlcore_torch import LOG_STD_RANGE, squashed_gaussian

Draw = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def by_distributions(columns: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    mean, log_std = columns.chunk(2, dim=1)
    log_std = log_std.clamp(*LOG_STD_RANGE)
    transform = TanhTransform(cache_size=1)  # so that log_prob knows what the action was made of
    distribution = TransformedDistribution(Normal(mean, log_std.exp()), [transform])
    action = transform(mean + log_std.exp() * noise)
    return action, distribution.log_prob(action).sum(-1)


def with_gradients(draw: Draw, columns: Tensor, noise: Tensor, weights: tuple[Tensor, Tensor]) -> list[Tensor]:
    columns = columns.clone().requires_grad_()
    action, log_prob = draw(columns, noise)
    loss = (action * weights[0]).sum() + (log_prob * weights[1]).sum()
    return [action, log_prob, *torch.autograd.grad(loss, columns)]


def compare(columns: Tensor, noise: Tensor, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    shapes = noise.shape, noise.shape[:1]
    weights = tuple(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    for only in (None, 0, 1):  # both outputs enter a loss, or one of them
        chosen = tuple(w if only in (None, k) else torch.zeros_like(w) for k, w in enumerate(weights))
        ours, theirs = (with_gradients(draw, columns, noise, chosen) for draw in (squashed_gaussian, by_distributions))  # type: ignore[arg-type]
        for mine, other in zip(ours, theirs, strict=True):
            # PyTorch's softplus drops exp(-20) beyond 20, and its Normal divides small differences by e^-20.
            torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("parts", [1, 3])
def test_values_and_gradients_are_those_of_torch_distributions(parts: int) -> None:
    generator = torch.Generator().manual_seed(parts)
    columns = torch.randn(200, 2 * parts, generator=generator, dtype=torch.float64)
    compare(columns, torch.randn(200, parts, generator=generator, dtype=torch.float64))


@pytest.mark.parametrize("u", [-40.0, -17.0, -8.0, 8.0, 17.0, 40.0])
def test_far_from_zero_nothing_cancels(u: float) -> None:
    columns = torch.tensor([[u - 0.5, 0.0], [u, -3.0]], dtype=torch.float64)
    noise = torch.tensor([[0.5], [0.0]], dtype=torch.float64)
    compare(columns, noise)
    _, log_prob = squashed_gaussian(columns, noise)
    # log(1 - tanh(u)^2) tends to 2 log 2 - 2 |u|.
    gaussian = Normal(0.0, torch.tensor([1.0, np.exp(-3.0)], dtype=torch.float64)).log_prob(noise[:, 0] * 1.0)
    torch.testing.assert_close(log_prob, gaussian - 2 * np.log(2) + 2 * abs(u), rtol=1e-5, atol=0.0)
    action, log_prob = squashed_gaussian(columns.float(), noise.float())
    assert log_prob.isfinite().all() and (action.abs() <= 1).all()
