"""Samplers: each converts one uniform random number into one value by the inverse cumulative distribution function.

A sampler has no state. The caller chooses the uniform number of an episode, so the value of an episode is always the
same.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Protocol, runtime_checkable

import attrs
import numpy as np

from rlcore import ParameterSampler, PluginError, Registry, blamed
from rlcore_curriculum.arrays import Floats
from rlcore_curriculum.sampler_settings import (
    ConstantParameters,
    GaussianParameters,
    MultiRangeUniformParameters,
    SamplerSettings,
    UniformParameters,
)

_STANDARD_NORMAL = NormalDist()
_LEAST = 2.0**-54  # half of the smallest positive number of a generator; replaces 0, which has no quantile


@runtime_checkable
class Sampler(Protocol):
    """A probability distribution."""

    def sample(self, uniforms: Floats) -> Floats:
        """Convert numbers [K] from [0, 1) into values [K]. Equal numbers give equal values."""


class ConstantSampler:
    """Returns one value."""

    def __init__(self, settings: ConstantParameters) -> None:
        self.value = settings.value

    def sample(self, uniforms: Floats) -> Floats:
        return np.full(len(uniforms), self.value)


class UniformSampler:
    """Draws uniformly from [min_value, max_value)."""

    def __init__(self, settings: UniformParameters) -> None:
        self.low = settings.min_value
        self.high = settings.max_value

    def sample(self, uniforms: Floats) -> Floats:
        # low + u * (high - low) would overflow for distant bounds. Rounding can reach high although u < 1.
        values = (1.0 - uniforms) * self.low + uniforms * self.high
        return np.clip(values, self.low, self.high)


class GaussianSampler:
    """Draws from a normal distribution."""

    def __init__(self, settings: GaussianParameters) -> None:
        self.mean = settings.mean
        self.st_dev = settings.st_dev

    def sample(self, uniforms: Floats) -> Floats:
        positive = np.maximum(uniforms, _LEAST).tolist()
        quantiles = [_STANDARD_NORMAL.inv_cdf(uniform) for uniform in positive]
        return self.mean + self.st_dev * np.array(quantiles, np.float64)


class MultiRangeUniformSampler:
    """Draws uniformly from all intervals together; if all widths are zero, uniformly from their points."""

    def __init__(self, settings: MultiRangeUniformParameters) -> None:
        bounds = np.array(settings.intervals, np.float64)  # [I, 2]
        scale = 2.0 ** -(len(bounds).bit_length() + 1)  # scaling by a power of two is exact, and sums stay finite
        widths = bounds[:, 1] * scale - bounds[:, 0] * scale
        if widths.any():
            bounds = bounds[widths > 0]
            widths = widths[widths > 0]
        else:
            widths = np.ones(len(bounds))
        self.low = bounds[:, 0]
        self.high = bounds[:, 1]
        self.shares = widths / widths.sum()  # [I] shares of [0, 1)
        self.begins = np.cumsum(self.shares) - self.shares  # [I] the start of each share

    def sample(self, uniforms: Floats) -> Floats:
        after = np.searchsorted(self.begins, uniforms, side="right")
        chosen = np.maximum(after - 1, 0)
        within = (uniforms - self.begins[chosen]) / self.shares[chosen]
        within = np.clip(within, 0.0, 1.0)  # sums of shares are not exact
        low = self.low[chosen]
        high = self.high[chosen]
        values: Floats = (1.0 - within) * low + within * high
        return np.clip(values, low, high)


@attrs.frozen
class SeededSampler:
    """A sampler whose results are checked."""

    sampler: Sampler
    seed: int = -1  # of its random numbers; -1 uses the run's seed
    called: str = "sampler"  # name in messages

    @property
    def constant(self) -> float | None:
        """Return the value of a constant sampler; None for other samplers."""
        return self.sampler.value if isinstance(self.sampler, ConstantSampler) else None

    def described(self, seed: int) -> ParameterSampler | None:
        """Return the distribution, for environments that draw by themselves; None for constants and others.

        ``seed`` is that of its random numbers if the configuration gives none.
        """
        sampler = self.sampler
        seed = seed if self.seed == -1 else self.seed
        if isinstance(sampler, UniformSampler):
            return ParameterSampler("uniform", (sampler.low, sampler.high), seed)
        if isinstance(sampler, GaussianSampler):
            return ParameterSampler("gaussian", (sampler.mean, sampler.st_dev), seed)
        if isinstance(sampler, MultiRangeUniformSampler):
            intervals = np.stack([sampler.low, sampler.high], axis=1)
            return ParameterSampler("multirange", tuple(intervals.ravel().tolist()), seed)
        return None

    def sample(self, uniforms: Floats, parameter: str) -> Floats:
        """Convert numbers [K] from [0, 1) into values [K] of the environment parameter.

        Raises PluginError for a wrong result.
        """
        with blamed(self.called, f"in sample for {parameter!r}"):
            values = np.asarray(self.sampler.sample(uniforms), np.float64)
        if values.shape != uniforms.shape:
            raise PluginError(
                f"{self.called} gave {parameter!r} an array of shape {values.shape} for {len(uniforms)} random "
                "numbers; one value for each is wanted"
            )
        if not np.isfinite(values).all():
            wrong = int(np.isfinite(values).argmin())
            raise PluginError(f"{self.called} gave {parameter!r} {values[wrong]:g} for {uniforms[wrong]:g}")
        return values


def make_sampler(value: float | SamplerSettings, plugins: Registry) -> SeededSampler:
    """Return the sampler of a lesson's value.

    Raises ConfigError if its settings are wrong, and PluginError if it cannot be created.
    """
    if not isinstance(value, SamplerSettings):
        return SeededSampler(ConstantSampler(ConstantParameters(value=value)))
    spec = value.spec(plugins)
    parameters = value.parameters(plugins)
    sampler = plugins.create(spec, settings=parameters)
    seed = int(getattr(parameters, "seed", -1))
    return SeededSampler(sampler, seed, spec.described)
