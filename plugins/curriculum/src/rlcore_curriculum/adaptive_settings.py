"""What the settings of the curricula that adapt to the agent have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from rlcore.errors import did_you_mean
from rlcore.settings import CurriculumSettings, SettingError, setting

if TYPE_CHECKING:
    from rlcore.plugins import Plugins
    from rlcore.settings import RunConfig

MEASURES = ("reward", "group_reward", "length")
Bounds = tuple[float, float]
Problem = tuple[tuple[str | int, ...], str]


@attrs.frozen(kw_only=True)
class AdaptiveSettings(CurriculumSettings):
    """Whose episodes a curriculum goes by, and what of them."""

    behavior: str | None = setting(None, "Whose episodes count; needed where there are several behaviors.")
    measure: str = setting(
        "reward",
        "What of an episode counts: the agent's return, its group's (0 where nobody shares rewards), or its length.",
        choices=MEASURES,
    )

    def problems(self, config: RunConfig, plugins: Plugins) -> Iterator[Problem]:
        """A behavior that there is not, or that should be named."""
        if config.default_settings is not None:  # the environment may bring behaviors that no block names
            return
        names = ", ".join(config.behaviors)
        if self.behavior is None:
            if len(config.behaviors) > 1:
                yield ("behavior",), f"missing; whose episodes count? One of {names}"
        elif self.behavior not in config.behaviors:
            hint = did_you_mean(self.behavior, config.behaviors)
            yield ("behavior",), f"unknown behavior {self.behavior!r}{hint} (there is {names})"


@attrs.frozen(kw_only=True)
class RangeSettings(AdaptiveSettings):
    """The same for a parameter that is a number within limits."""

    limits: Bounds = setting(description="The lowest and the highest value there is.")
    integer: bool = setting(False, "Whole numbers only, the limits among them.")
    target: float | Bounds | None = setting(
        None,
        "What training is for, and evaluations play: a value, or a range of values; all within limits if left out.",
    )

    @property
    def target_range(self) -> Bounds:
        return self.limits if self.target is None else as_bounds(self.target)

    def __attrs_post_init__(self) -> None:
        if not self.limits[0] < self.limits[1]:
            raise SettingError("limits", f"the lower must be less than the upper, not {list(self.limits)}")
        self.check("limits", self.limits)
        if self.target is not None:
            self.check("target", as_bounds(self.target))

    def check(self, field: str, bounds: Bounds) -> None:
        """Raises SettingError for a range that is none, and for a fraction where whole numbers are asked for."""
        if bounds[0] > bounds[1]:
            raise SettingError(field, f"the lower must not exceed the upper, not {list(bounds)}")
        if self.integer and not all(float(bound).is_integer() for bound in bounds):
            raise SettingError(field, f"must be whole, as integer is true, not {shown(bounds)}", others=("integer",))


def as_bounds(value: float | Bounds) -> Bounds:
    """A value as the range that holds it alone."""
    return value if isinstance(value, tuple) else (value, value)


def shown(bounds: Bounds) -> str:
    """``0.5``, or ``[0.25, 1]``."""
    low, high = bounds
    return f"{low:g}" if low == high else f"[{low:g}, {high:g}]"
