"""The settings ``sampler_type`` and ``sampler_parameters``.

This module imports no numpy, because checking a configuration imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from rlcore import ConfigError, NotInstalled, PluginError, SettingError, read_settings, setting
from rlcore_curriculum.records import SamplerSpec

if TYPE_CHECKING:
    from rlcore import Registry

Path = tuple[str | int, ...]


@attrs.frozen(kw_only=True)
class SamplerSettings:
    """A sampler, which draws a value for each episode."""

    sampler_type: str = setting(description="The sampler: a registered name, or DISTRIBUTION/NAME.", foreign=True)
    sampler_parameters: dict[str, Any] = setting(factory=dict, description="The sampler's own settings.")

    def spec(self, plugins: Registry) -> SamplerSpec:
        """Return the record of the sampler. Raises NotInstalled or PluginError if ``sampler_type`` names none."""
        return plugins.record(SamplerSpec, self.sampler_type)

    def parameters(self, plugins: Registry) -> Any:
        """Return the sampler's own settings. Raises ConfigError if they are wrong."""
        settings, problems = read_settings(self.spec(plugins).resolve("settings"), self.sampler_parameters)
        for path, message in problems:
            raise ConfigError(f"sampler {self.sampler_type!r}: {'.'.join(map(str, path))}: {message}")
        return settings

    def problems(self, plugins: Registry) -> Iterator[tuple[Path, str]]:
        """Yield the mistakes in this block: the path within the block, and a message."""
        try:
            spec = self.spec(plugins)
        except (NotInstalled, PluginError) as error:
            yield ("sampler_type",), str(error)
            return
        _, problems = read_settings(spec.resolve("settings"), self.sampler_parameters)
        for path, message in problems:
            yield ("sampler_parameters", *path), message


@attrs.frozen(kw_only=True)
class SamplerParameters:
    """The base class for the parameters of every sampler, including samplers of other plugins."""

    seed: int = setting(-1, "Seed of the sampler's random numbers; -1 uses the run's seed.", minimum=-1)


@attrs.frozen(kw_only=True)
class ConstantParameters(SamplerParameters):
    """Parameters of the sampler ``constant``, which always returns one value."""

    value: float = setting(0.0, "The value.")


@attrs.frozen(kw_only=True)
class UniformParameters(SamplerParameters):
    """Parameters of the sampler ``uniform``, which draws uniformly between two bounds."""

    min_value: float = setting(0.0, "The lower bound.")
    max_value: float = setting(1.0, "The upper bound.")

    def __attrs_post_init__(self) -> None:
        if self.min_value > self.max_value:
            problem = f"must be at most max_value ({self.max_value:g}), not {self.min_value:g}"
            raise SettingError("min_value", problem, others=("max_value",))


@attrs.frozen(kw_only=True)
class GaussianParameters(SamplerParameters):
    """Parameters of the sampler ``gaussian``, which draws from a normal distribution."""

    mean: float = setting(1.0, "Its mean.")
    st_dev: float = setting(1.0, "Its standard deviation.", minimum=0)


@attrs.frozen(kw_only=True)
class MultiRangeUniformParameters(SamplerParameters):
    """Parameters of the sampler ``multirangeuniform``, which draws uniformly from several weighted intervals."""

    intervals: tuple[tuple[float, float], ...] = setting(
        ((0.0, 1.0),), "The intervals, [lower bound, upper bound] each."
    )

    def __attrs_post_init__(self) -> None:
        if not self.intervals:
            raise SettingError("intervals", "there must be at least one")
        for low, high in self.intervals:
            if low > high:
                raise SettingError("intervals", f"the lower bound must be at most the upper, not [{low:g}, {high:g}]")
