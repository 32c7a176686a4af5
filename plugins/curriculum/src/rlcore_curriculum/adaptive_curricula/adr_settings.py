"""``environment_parameters.NAME.curriculum`` of type ``adr``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from rlcore import SettingError, setting
from rlcore_curriculum.adaptive_curricula.adaptive_settings import Bounds, Problem, RangeSettings, as_bounds, shown

if TYPE_CHECKING:
    from rlcore import Plugins, RunConfig


@attrs.frozen(kw_only=True)
class AdrSettings(RangeSettings):
    """Automatic domain randomization of one parameter."""

    type: str = setting("adr", "The kind of curriculum.", foreign=True)
    initial: float | Bounds = setting(
        description="The range at the start: a value, or a range of values. The range never becomes smaller than this."
    )
    step: float = setting(description="The distance by which a bound moves.", exclusive_minimum=0.0)
    lower_threshold: float = setting(description="A bound moves inward if the mean measure there is at most this.")
    upper_threshold: float = setting(description="A bound moves outward if the mean measure there is at least this.")
    episodes: int = setting(
        20, "Episodes at a bound before it is judged; then the count restarts.", minimum=1, maximum=1_000_000
    )
    boundary_probability: float = setting(
        0.5,
        "Share of episodes with a parameter at one of its bounds; equal for all parameters of this type.",
        exclusive_minimum=0.0,
        maximum=1.0,
    )

    @property
    def initial_range(self) -> Bounds:
        return as_bounds(self.initial)

    def __attrs_post_init__(self) -> None:
        RangeSettings.__attrs_post_init__(self)
        low, high = self.initial_range
        self.check("initial", (low, high))
        if not (self.limits[0] <= low and high <= self.limits[1]):
            problem = f"must be within limits {shown(self.limits)}, not {shown((low, high))}"
            raise SettingError("initial", problem, others=("limits",))
        if (low, high) == self.limits:
            problem = "covers all of limits; use a uniform sampler for that"
            raise SettingError("initial", problem, others=("limits",))
        if self.integer and not float(self.step).is_integer():
            problem = f"must be whole, as integer is true, not {self.step:g}"
            raise SettingError("step", problem, others=("integer",))
        if self.lower_threshold >= self.upper_threshold:
            problem = f"must be less than upper_threshold ({self.upper_threshold:g}), not {self.lower_threshold:g}"
            raise SettingError("lower_threshold", problem, others=("upper_threshold",))

    def problems(self, config: RunConfig, plugins: Plugins) -> Iterator[Problem]:
        yield from RangeSettings.problems(self, config, plugins)
        for name, other in self._together(config).items():
            if other.boundary_probability != self.boundary_probability:
                yield (
                    ("boundary_probability",),
                    f"must be equal for all parameters of type adr; it is {other.boundary_probability:g} for {name}, "
                    f"not {self.boundary_probability:g}",
                )
                return

    def _together(self, config: RunConfig) -> dict[str, AdrSettings]:
        """Return the parameters that the same curriculum randomizes, by name."""
        of_evaluation = {} if config.evaluation is None else config.evaluation.environment_parameters
        for blocks in (config.environment_parameters, of_evaluation):
            curricula = {name: block.curriculum for name, block in blocks.items()}
            if any(each is self for each in curricula.values()):
                return {name: each for name, each in curricula.items() if isinstance(each, AdrSettings)}
        return {}
