"""``environment_parameters.NAME.curriculum`` of type ``prioritized_levels``."""

from __future__ import annotations

import attrs

from rlcore.settings import SettingError, setting
from rlcore_curriculum.adaptive_settings import AdaptiveSettings

SCORES = ("change", "learnability")


@attrs.frozen(kw_only=True)
class PrioritizedLevelsSettings(AdaptiveSettings):
    """Levels of an environment, of which those that teach most are played again."""

    type: str = setting("prioritized_levels", "Which curriculum.")
    levels: int = setting(description="How many levels there are.", minimum=1, maximum=10_000_000)
    first_level: int = setting(0, "The number of the first of them.")
    score: str = setting(
        "change",
        "What a level is played again for: how far its measure is from the last time, or p (1 - p) of its successes.",
        choices=SCORES,
    )
    success: float | None = setting(
        None, "An episode whose measure is at least this is a success, for the score learnability."
    )
    memory: int = setting(10, "Episodes of a level that its score is an average of, about.", minimum=1, maximum=10**9)
    temperature: float = setting(
        1.0,
        "The lower, the more the first in the order of scores are preferred: weights are rank^(-1 / temperature). The "
        "method's authors have 0.1, with which copies side by side play a few levels only.",
        exclusive_minimum=0.0,
    )
    staleness: float = setting(
        0.1, "Share of replays that go by how long ago a level was played, not by its score.", minimum=0.0, maximum=1.0
    )
    replay_probability: float | None = setting(
        None,
        "Share of episodes on levels that were played before, while there are others; null: the share of levels that "
        "were played.",
        minimum=0.0,
        maximum=1.0,
    )
    refresh: int = setting(20, "Episodes after which the levels' shares are computed anew.", minimum=1)

    def __attrs_post_init__(self) -> None:
        if (self.score == "learnability") != (self.success is not None):
            needed = "missing; learnability needs it" if self.success is None else "only the score learnability has it"
            raise SettingError("success", needed, others=("score",))
