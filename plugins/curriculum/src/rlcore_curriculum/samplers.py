"""Samplers: one uniform random number to one value, by the inverse of the distribution's cumulative function.

Which uniform number belongs to which episode is not theirs to say, so a sampler has no state, and an episode's value is
the same whenever it is asked for.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.errors import PluginError
from rlcore.plugins import RunPlugins, blame, blamed
from rlcore_curriculum.sampler_settings import (
    ConstantParameters,
    GaussianParameters,
    MultiRangeUniformParameters,
    SamplerSettings,
    UniformParameters,
)

Array = NDArray[np.float64]

_STANDARD_NORMAL = NormalDist()
_LEAST = 2.0**-54  # half of the least positive number that a generator gives; stands for its 0, which has no quantile


@runtime_checkable
class Sampler(Protocol):
    """A distribution of numbers."""

    def sample(self, uniforms: Array) -> Array:
        """Values [K] from numbers [K] in [0, 1), one from each. The same number always gives the same value."""
        ...


class ConstantSampler:
    """Always the same value."""

    def __init__(self, settings: ConstantParameters) -> None:
        self.value = settings.value

    def sample(self, uniforms: Array) -> Array:
        return np.full(len(uniforms), self.value)


class UniformSampler:
    """Evenly over [min_value, max_value)."""

    def __init__(self, settings: UniformParameters) -> None:
        self.low, self.high = settings.min_value, settings.max_value

    def sample(self, uniforms: Array) -> Array:
        # Not low + u * (high - low), which overflows for bounds far apart. Rounding may reach what u < 1 does not.
        return np.clip((1.0 - uniforms) * self.low + uniforms * self.high, self.low, self.high)


class GaussianSampler:
    """A normal distribution."""

    def __init__(self, settings: GaussianParameters) -> None:
        self.mean, self.st_dev = settings.mean, settings.st_dev

    def sample(self, uniforms: Array) -> Array:
        quantiles = map(_STANDARD_NORMAL.inv_cdf, np.maximum(uniforms, _LEAST).tolist())
        return self.mean + self.st_dev * np.fromiter(quantiles, np.float64, len(uniforms))


class MultiRangeUniformSampler:
    """Evenly over all intervals together; over their points where none has a width."""

    def __init__(self, settings: MultiRangeUniformParameters) -> None:
        bounds = np.array(settings.intervals, np.float64)  # [I, 2]
        scale = 2.0 ** -(len(bounds).bit_length() + 1)  # a power of two changes no digit, and sums stay finite
        widths = bounds[:, 1] * scale - bounds[:, 0] * scale
        if widths.any():
            bounds, widths = bounds[widths > 0], widths[widths > 0]
        else:
            widths = np.ones(len(bounds))
        self.low, self.high = bounds[:, 0], bounds[:, 1]
        self.shares = widths / widths.sum()  # [I] of [0, 1)
        self.begins = np.cumsum(self.shares) - self.shares  # [I] where each one's share begins

    def sample(self, uniforms: Array) -> Array:
        chosen: NDArray[np.intp] = np.maximum(np.searchsorted(self.begins, uniforms, side="right") - 1, 0)
        within = np.clip((uniforms - self.begins[chosen]) / self.shares[chosen], 0.0, 1.0)
        low, high = self.low[chosen], self.high[chosen]
        values: Array = np.clip((1.0 - within) * low + within * high, low, high)
        return values


@attrs.frozen
class SeededSampler:
    """A sampler, checked wherever it is asked."""

    sampler: Sampler
    seed: int = -1  # of its random numbers; -1 takes the run's
    called: str = "sampler"  # for messages

    @property
    def constant(self) -> float | None:
        """The value it always gives; None if it draws."""
        return self.sampler.value if isinstance(self.sampler, ConstantSampler) else None

    def sample(self, uniforms: Array, parameter: str) -> Array:
        """Values [K] for the environment parameter, from numbers [K] in [0, 1). PluginError for anything else."""
        try:
            values = np.asarray(self.sampler.sample(uniforms), np.float64)
        except (Exception, SystemExit) as error:
            blame(self.called, f"in sample for {parameter!r}", error)
        if values.shape != uniforms.shape:
            raise PluginError(
                f"{self.called} gave {parameter!r} an array of shape {values.shape} for {len(uniforms)} random "
                "numbers; one value for each is wanted"
            )
        if not np.isfinite(values).all():
            wrong = int(np.flatnonzero(~np.isfinite(values))[0])
            raise PluginError(f"{self.called} gave {parameter!r} {values[wrong]:g} for {uniforms[wrong]:g}")
        return values


def make_sampler(value: float | SamplerSettings, plugins: RunPlugins) -> SeededSampler:
    """The sampler of a lesson's value. ConfigError if its settings are wrong, PluginError if it cannot be made."""
    if not isinstance(value, SamplerSettings):
        return SeededSampler(ConstantSampler(ConstantParameters(value=value)))
    spec, parameters = value.spec(plugins), value.parameters(plugins)
    target = spec.resolve()
    with blamed(spec.described, "to be made"):
        sampler = target(settings=parameters)
    if not isinstance(sampler, Sampler):
        raise PluginError(f"{spec.described}: {spec.target} returned a {type(sampler).__name__} without sample()")
    return SeededSampler(sampler, int(getattr(parameters, "seed", -1)), spec.described)
