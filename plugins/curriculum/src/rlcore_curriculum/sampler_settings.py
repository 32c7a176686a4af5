"""What ``sampler_type`` and ``sampler_parameters`` say. Imports no numpy: it is read to check a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config import read_settings
from rlcore.errors import ConfigError, NotInstalled, PluginError
from rlcore.settings import SettingError, setting
from rlcore_curriculum.records import SamplerSpec

if TYPE_CHECKING:
    from rlcore.plugins import RunPlugins

Path = tuple[str | int, ...]


@attrs.frozen(kw_only=True)
class SamplerSettings:
    """A sampler: draws a number for each episode."""

    sampler_type: str = setting(description="Which sampler: a registered name, or DISTRIBUTION/NAME.")
    sampler_parameters: dict[str, Any] = setting(factory=dict, description="The sampler's own settings.")

    def spec(self, plugins: RunPlugins) -> SamplerSpec:
        """Its record. NotInstalled or PluginError if it does not name one."""
        return plugins.record(SamplerSpec, self.sampler_type)

    def parameters(self, plugins: RunPlugins) -> Any:
        """The sampler's own settings. ConfigError if they are wrong."""
        settings, problems = read_settings(self.spec(plugins).resolve("settings"), self.sampler_parameters)
        for path, message in problems:
            raise ConfigError(f"sampler {self.sampler_type!r}: {'.'.join(map(str, path))}: {message}")
        return settings

    def problems(self, plugins: RunPlugins) -> Iterator[tuple[Path, str]]:
        """What is wrong with it: paths within this block, and messages."""
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
    """What every sampler's parameters have; those of another plugin's sampler may derive from it."""

    seed: int = setting(-1, "Of the sampler's random numbers; -1 takes the run's seed.", minimum=-1)


@attrs.frozen(kw_only=True)
class ConstantParameters(SamplerParameters):
    """Always the same value."""

    value: float = setting(0.0, "The value.")


@attrs.frozen(kw_only=True)
class UniformParameters(SamplerParameters):
    """Evenly between two bounds."""

    min_value: float = setting(0.0, "The lower bound.")
    max_value: float = setting(1.0, "The upper bound.")

    def __attrs_post_init__(self) -> None:
        if self.min_value > self.max_value:
            problem = f"must be at most max_value ({self.max_value:g}), not {self.min_value:g}"
            raise SettingError("min_value", problem, others=("max_value",))


@attrs.frozen(kw_only=True)
class GaussianParameters(SamplerParameters):
    """A normal distribution."""

    mean: float = setting(1.0, "Its mean.")
    st_dev: float = setting(1.0, "Its standard deviation.", minimum=0)


@attrs.frozen(kw_only=True)
class MultiRangeUniformParameters(SamplerParameters):
    """Evenly over several intervals: each is drawn in proportion to its width."""

    intervals: tuple[tuple[float, float], ...] = setting(
        ((0.0, 1.0),), "The intervals, [lower bound, upper bound] each."
    )

    def __attrs_post_init__(self) -> None:
        if not self.intervals:
            raise SettingError("intervals", "there must be at least one")
        for low, high in self.intervals:
            if low > high:
                raise SettingError("intervals", f"the lower bound must be at most the upper, not [{low:g}, {high:g}]")
