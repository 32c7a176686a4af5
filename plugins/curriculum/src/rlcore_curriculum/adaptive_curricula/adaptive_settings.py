"""The common settings of the curricula that adapt to the agent."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import attrs

from rlcore import CurriculumSettings, SettingError, setting
from rlcore_curriculum.criterion_settings import unknown_behavior

if TYPE_CHECKING:
    from rlcore import Plugins, RunConfig

MEASURES = ("reward", "group_reward", "length")
Bounds = tuple[float, float]
Problem = tuple[tuple[str | int, ...], str]


@attrs.frozen(kw_only=True)
class AdaptiveSettings(CurriculumSettings):
    """The episodes and the measure that an adaptive curriculum uses."""

    behavior: str | None = setting(
        None, "The behavior whose episodes count; required if there are several.", foreign=True
    )
    measure: str = setting(
        "reward",
        "The measure of an episode: the agent's return, the group's return (0 without group rewards), or the length.",
        choices=MEASURES,
    )

    @property
    def target_range(self) -> Bounds:
        """The values that evaluations play."""
        raise NotImplementedError

    def problems(self, config: RunConfig, plugins: Plugins) -> Iterator[Problem]:
        """Report an unknown behavior, or a missing one if there are several."""
        if config.default_settings is not None:  # the environment may add behaviors that no block names
            return
        if problem := self.behavior_problem(config.behaviors):
            yield ("behavior",), problem

    def behavior_problem(self, behaviors: Collection[str]) -> str | None:
        """Return what is wrong with ``behavior`` among the behaviors of the environment, or None."""
        if self.behavior is not None:
            return unknown_behavior(self.behavior, behaviors)
        return f"missing; name one of {', '.join(behaviors)}" if len(behaviors) > 1 else None


@attrs.frozen(kw_only=True)
class RangeSettings(AdaptiveSettings):
    """Settings of an adaptive curriculum whose parameter is a number within limits."""

    limits: Bounds = setting(description="The lowest and the highest value.")
    integer: bool = setting(False, "Use whole numbers only, including the limits.")
    target: float | Bounds | None = setting(
        None,
        "What evaluations play: a value, or a range of values; by default the whole range within limits.",
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
        """Raise SettingError if the range is reversed, or if it must be whole and is not."""
        if bounds[0] > bounds[1]:
            raise SettingError(field, f"the lower must not exceed the upper, not {list(bounds)}")
        if self.integer and not all(float(bound).is_integer() for bound in bounds):
            raise SettingError(field, f"must be whole, as integer is true, not {shown(bounds)}", others=("integer",))


def as_bounds(value: float | Bounds) -> Bounds:
    """Return a single value as a range."""
    return value if isinstance(value, tuple) else (value, value)


def shown(bounds: Bounds) -> str:
    """Format a range for messages: ``0.5``, or ``[0.25, 1]``."""
    low, high = bounds
    return f"{low:g}" if low == high else f"[{low:g}, {high:g}]"
