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
        of_alpha, of_beta = noise.unflatten(1, (self.noise_per_part, self.parts)).chunk(2, dim=1)
        alpha, beta = self.shapes(columns)
        x, y = gamma(alpha, of_alpha), gamma(beta, of_beta)
        return 2.0 * x / (x + y) - 1.0

    def deterministic(self, columns: Tensor) -> Tensor:
        alpha, beta = self.shapes(columns)  # the mean; the mode of a wide Beta distribution can be far from it
        return 2.0 * alpha / (alpha + beta) - 1.0

    def log_prob(self, columns: Tensor, raw: Tensor) -> Tensor:
        alpha, beta = self.shapes(columns)
        x = (0.5 * (raw + 1.0)).clamp(1e-6, 1.0 - 1e-6)
        log_density = (alpha - 1.0) * x.log() + (beta - 1.0) * (-x).log1p() - log_beta(alpha, beta) - math.log(2.0)
        return log_density.sum(1)

    def entropy(self, columns: Tensor) -> Tensor:
        alpha, beta = self.shapes(columns)
        surprise = (alpha - 1.0) * alpha.digamma() + (beta - 1.0) * beta.digamma()
        total = (alpha + beta - 2.0) * (alpha + beta).digamma()
        return (log_beta(alpha, beta) - surprise + total + math.log(2.0)).sum(1)


def log_beta(alpha: Tensor, beta: Tensor) -> Tensor:
    return alpha.lgamma() + beta.lgamma() - (alpha + beta).lgamma()


def gamma(shape: Tensor, noise: Tensor) -> Tensor:
    """Draws [B, C] of a gamma distribution with ``shape`` [B, C] of at least 1 (Marsaglia and Tsang 2000)."""
    d = (shape - 1.0 / 3.0).unsqueeze(1)
    normal, other = noise.chunk(2, dim=1)  # [B, ROUNDS, C]
    uniform = 0.5 * torch.erfc(other * -(0.5**0.5))
    v = (1.0 + normal / (9.0 * d).sqrt()).clamp(min=1e-6) ** 3
    accepted = uniform.log() < 0.5 * normal.square() + d * (1.0 - v + v.log())
    first = accepted.to(torch.uint8).argmax(dim=1, keepdim=True)
    return (d * v).gather(1, first).squeeze(1)
