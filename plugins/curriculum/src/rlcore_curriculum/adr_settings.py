"""``environment_parameters.NAME.curriculum`` of type ``adr``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from rlcore.settings import SettingError, setting
from rlcore_curriculum.adaptive_settings import Bounds, Problem, RangeSettings, as_bounds, shown

if TYPE_CHECKING:
    from rlcore.plugins import Plugins
    from rlcore.settings import RunConfig


@attrs.frozen(kw_only=True)
class AdrSettings(RangeSettings):
    """Automatic domain randomisation of one parameter."""

    type: str = setting("adr", "Which curriculum.")
    initial: float | Bounds = setting(
        description="Where training begins: a value, or a range of values. The range never becomes smaller than this."
    )
    step: float = setting(description="How far a bound moves.", exclusive_minimum=0.0)
    lower_threshold: float = setting(description="A bound where the mean of the measure is at most this moves back.")
    upper_threshold: float = setting(description="A bound where the mean of the measure is at least this moves out.")
    episodes: int = setting(
        20, "Episodes at a bound before it is judged; they are then forgotten.", minimum=1, maximum=1_000_000
    )
    boundary_probability: float = setting(
        0.5,
        "Share of episodes with a parameter at one of its bounds. It is one for all parameters of this type.",
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
            problem = "is all there is within limits; for that, use a uniform sampler"
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
                    f"is one for all parameters of type adr, and {other.boundary_probability:g} of {name}, "
                    f"not {self.boundary_probability:g}",
                )
                return

    def _together(self, config: RunConfig) -> dict[str, AdrSettings]:
        """The parameters that are randomised with this one, by name."""
        of_evaluation = {} if config.evaluation is None else config.evaluation.environment_parameters
        for blocks in (config.environment_parameters, of_evaluation):
            curricula = {name: block.curriculum for name, block in blocks.items()}
            if any(each is self for each in curricula.values()):
                return {name: each for name, each in curricula.items() if isinstance(each, AdrSettings)}
        return {}
