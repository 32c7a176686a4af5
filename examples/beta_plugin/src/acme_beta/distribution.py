"""The Beta distribution of Chou, Maturana and Scherer 2017 (proceedings.mlr.press/v70/chou17a.html)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from rlcore import BehaviorSpec
from rlcore_torch import ActionDistribution

ROUNDS = 4  # each accepts 95% of the proposals or more: at worst, one draw in 90,000 is left without


class Beta(ActionDistribution):
    """alpha and beta are 1 + softplus of their columns, so there is one mode; draws are stretched to [-1, 1]."""

    columns = 2
    noise_per_part = 4 * ROUNDS
    bounded = True

    def __init__(self, settings: None, behavior: BehaviorSpec) -> None:
        super().__init__(behavior)

    def shapes(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        alpha, beta = (1.0 + 1e-6 + softplus(columns)).chunk(2, dim=1)
        return alpha, beta

    def sample(self, columns: Tensor, noise: Tensor) -> Tensor:
        alpha, beta = self.shapes(columns)
        parts = noise.unflatten(1, (self.noise_per_part, self.parts))
        alpha_noise, beta_noise = parts.chunk(2, dim=1)
        # If X and Y have gamma distributions of shapes alpha and beta, X / (X + Y) has the Beta distribution.
        x = gamma(alpha, alpha_noise)
        y = gamma(beta, beta_noise)
        return 2.0 * x / (x + y) - 1.0

    def deterministic(self, columns: Tensor) -> Tensor:
        # The mean; the mode of a wide Beta distribution can be far from it.
        alpha, beta = self.shapes(columns)
        return 2.0 * alpha / (alpha + beta) - 1.0

    def log_prob(self, columns: Tensor, raw: Tensor) -> Tensor:
        alpha, beta = self.shapes(columns)
        x = (0.5 * (raw + 1.0)).clamp(1e-6, 1.0 - 1e-6)  # the density is 0 at the bounds, and its logarithm infinite
        log_power = (alpha - 1.0) * x.log() + (beta - 1.0) * (-x).log1p()
        log_density = log_power - log_beta(alpha, beta) - math.log(2.0)  # 2: the stretch to [-1, 1]
        return log_density.sum(1)

    def entropy(self, columns: Tensor) -> Tensor:
        alpha, beta = self.shapes(columns)
        surprise = (alpha - 1.0) * alpha.digamma() + (beta - 1.0) * beta.digamma()
        total = (alpha + beta - 2.0) * (alpha + beta).digamma()
        entropy = log_beta(alpha, beta) - surprise + total + math.log(2.0)
        return entropy.sum(1)


def log_beta(alpha: Tensor, beta: Tensor) -> Tensor:
    return alpha.lgamma() + beta.lgamma() - (alpha + beta).lgamma()


def gamma(shape: Tensor, noise: Tensor) -> Tensor:
    """Draws [B, C] of a gamma distribution with ``shape`` [B, C] of at least 1 (Marsaglia and Tsang 2000).

    Their rejection sampling in a fixed number of rounds, since a draw here is a function of a fixed amount of noise.
    """
    d = (shape - 1.0 / 3.0).unsqueeze(1)
    normal, other = noise.chunk(2, dim=1)  # [B, ROUNDS, C]
    uniform = 0.5 * torch.erfc(other * -(0.5**0.5))
    root = 1.0 + normal / (9.0 * d).sqrt()
    v = root.clamp(min=1e-6) ** 3
    bound = 0.5 * normal.square() + d * (1.0 - v + v.log())
    accepted = uniform.log() < bound
    first = accepted.to(torch.uint8).argmax(dim=1, keepdim=True)
    return (d * v).gather(1, first).squeeze(1)
