"""``environment_parameters.NAME.curriculum`` of type ``prioritized_levels``."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rlcore import SettingError, setting
from rlcore_curriculum.adaptive_curricula.adaptive_settings import AdaptiveSettings, Bounds

SCORES = ("change", "learnability")


@attrs.frozen(kw_only=True)
class PrioritizedLevelsSettings(AdaptiveSettings):
    """Levels of an environment; levels that teach most are repeated."""

    type: str = setting("prioritized_levels", "The kind of curriculum.", foreign=True)
    levels: int = setting(description="Number of levels.", minimum=1, maximum=10_000_000)
    first_level: int = setting(0, "Number of the first level.")
    score: str = setting(
        "change",
        "Prefer levels whose measure changes between episodes, or with a high p (1 - p) of their share p of successes.",
        choices=SCORES,
    )
    success: float | None = setting(
        None, "An episode with at least this measure is a success, for the score learnability."
    )
    memory: int = setting(10, "Approximate number of episodes in a level's score.", minimum=1, maximum=10**9)
    temperature: float = setting(
        1.0,
        "Lower values prefer levels with high scores more strongly: weights are rank^(-1 / temperature). The "
        "method's authors use 0.1, with which parallel environments play only a few levels.",
        exclusive_minimum=0.0,
    )
    staleness: float = setting(
        0.1,
        "Share of repeats that prefer levels not played for long.",
        minimum=0.0,
        maximum=1.0,
    )
    replay_probability: float | None = setting(
        None,
        "Share of episodes that repeat a level while there are new levels; null: the share of levels that were played.",
        minimum=0.0,
        maximum=1.0,
    )
    refresh: int = setting(20, "Episodes between two computations of the levels' shares.", minimum=1)

    integer: ClassVar[bool] = True

    @property
    def target_range(self) -> Bounds:
        return self.first_level, self.first_level + self.levels - 1

    def __attrs_post_init__(self) -> None:
        if (self.score == "learnability") != (self.success is not None):
            needed = "missing; the score learnability needs it" if self.success is None else "only learnability uses it"
            raise SettingError("success", needed, others=("score",))
