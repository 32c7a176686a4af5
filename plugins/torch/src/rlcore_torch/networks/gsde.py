"""Generalized state-dependent exploration (gSDE; Raffin, Kober and Stulp 2021, arXiv:2005.05719).

The noise of an action is a linear function of the features f [d] of the policy's last hidden layer: W^T f, for a matrix
W [d, C] of normal numbers with the standard deviations sigma [d, C]. An agent that keeps its W for several steps moves
smoothly. Over all W, part c of an action is normal with the variance sum_i f_i^2 sigma_ic^2 (section 4.1). This is the
distribution of log-probabilities and entropies, and that of every draw that is not made while exploring.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec
from rlcore_torch.arrays import FloatArray
from rlcore_torch.networks.distributions import (
    ActionDistribution,
    NumpyDraw,
    SquashedGaussian,
    StateDependentGaussian,
)
from rlcore_torch.networks.settings import GSDESettings, SquashedGSDESettings

LEAST_VARIANCE = 1e-6  # where all features are 0


class FeatureNoise(ActionDistribution):
    """The base of both distributions: a mean for each part, and noise that is made of features.

    Attributes:
        gsde: The settings.
        log_std: [d, C] logarithms of sigma, or [d, 1] for one of all parts; its parameter.
    """

    columns = 1
    reads_features = True
    gsde: GSDESettings

    def read_features(self, features: int) -> None:
        self.features = features
        self.hold = self.gsde.resample_every
        columns = self.parts if self.gsde.full_std else 1
        initial = torch.full((features, columns), self.gsde.initial_log_std)
        self.log_std = nn.Parameter(initial)

    @property
    def held_size(self) -> int:
        """The standard normal numbers of one W: d * C."""
        return self.features * self.parts

    def sigma(self) -> Tensor:
        """The standard deviations [d, C] of W, or [d, 1]."""
        below = self.log_std.exp()
        if not self.gsde.expln:
            return below
        # 1 + log(1 + x) has the value and the slope of exp(x) at 0, and grows slowly. Clamped, because its gradient
        # at -1 is infinite, and 0 times that, which `where` would pass on, is NaN.
        above = self.log_std.clamp(min=0.0).log1p() + 1.0
        return torch.where(self.log_std <= 0.0, below, above)

    def mean_log_std(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Means [B, C] and logarithms of standard deviations [B, C], those of all W."""
        mean = columns[:, : self.parts]
        features = columns[:, self.parts :]
        # Exploration does not shape the features unless it is asked to, as in Stable-Baselines3.
        if not self.gsde.learn_features:
            features = features.detach()
        variance = features.square() @ self.sigma().square() + LEAST_VARIANCE  # [B, C], or [B, 1]
        log_std = 0.5 * variance.log().expand_as(mean)
        return mean, log_std

    @torch.no_grad()
    def noise_of(self, columns: FloatArray, held: FloatArray) -> FloatArray:
        sigma = self.sigma().cpu().numpy()
        features = columns[:, self.parts :]
        matrices = held.reshape(-1, self.features, self.parts) * sigma  # W of each row
        noise: FloatArray = np.einsum("bd,bdc->bc", features, matrices)
        # `sample` multiplies by the standard deviation again, so that one function makes all draws.
        variance = np.square(features) @ np.square(sigma) + np.float32(LEAST_VARIANCE)
        noise /= np.sqrt(variance)
        return noise

    def numpy_draw(self) -> NumpyDraw | None:
        return None


class GSDE(FeatureNoise, StateDependentGaussian):
    """A Gaussian with the noise of gSDE, whose draws are clipped to the bounds of an action."""

    def __init__(self, behavior: BehaviorSpec, settings: GSDESettings | None = None) -> None:
        super().__init__(behavior)
        self.gsde = settings or GSDESettings()
        self.read_features(0)


class SquashedGSDE(FeatureNoise, SquashedGaussian):
    """A Gaussian with the noise of gSDE, whose draws pass through tanh, for SAC."""

    gsde: SquashedGSDESettings

    def __init__(self, behavior: BehaviorSpec, settings: SquashedGSDESettings | None = None) -> None:
        super().__init__(behavior)
        self.gsde = settings or SquashedGSDESettings()
        self.read_features(0)

    def mean_log_std(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = super().mean_log_std(columns)
        return self._limited(mean), log_std

    def deterministic(self, columns: Tensor) -> Tensor:
        return self._limited(columns[:, : self.parts]).tanh()

    def _limited(self, mean: Tensor) -> Tensor:
        limit = self.gsde.clip_mean
        if limit is None:
            return mean
        return mean.clamp(-limit, limit)
