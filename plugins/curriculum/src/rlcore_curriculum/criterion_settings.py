"""When a lesson is completed, or given up. Imports no numpy: it is read to check a configuration."""

from __future__ import annotations

import attrs

from rlcore.errors import did_you_mean
from rlcore.settings import SettingError, setting

REWARD, PROGRESS, GROUP_REWARD = "reward", "progress", "group_reward"
STAT = "stat:"  # and a tag
MEASURES = (REWARD, PROGRESS, GROUP_REWARD, f"{STAT}TAG")


@attrs.frozen(kw_only=True)
class CriterionSettings:
    """What completes a lesson: a measure above a threshold, after enough episodes of the lesson."""

    behavior: str = setting(description="Whose episodes, steps or statistics count.")
    measure: str = setting(
        REWARD,
        "What is compared: the mean return of the lesson's latest min_lesson_length episodes (reward, or group_reward "
        "for what the group shares), the share of max_steps that is over (progress), or stat:TAG, the mean of any "
        "statistic in the latest summary.",
    )
    threshold: float = setting(0.0, "What the measure must exceed; of progress, a share between 0 and 1.")
    min_lesson_length: int = setting(
        0, "How many episodes of this lesson must have ended before.", minimum=0, maximum=1_000_000
    )
    signal_smoothing: bool = setting(
        True, "Average the measure exponentially over its own course, with three quarters for what is new."
    )
    require_reset: bool = setting(False, "When the lesson changes, all copies begin the next one now.")

    def __attrs_post_init__(self) -> None:
        problem = measure_problem(self.measure)
        if problem:
            raise SettingError("measure", problem)
        if self.measure == PROGRESS and not 0 <= self.threshold <= 1:
            problem = f"must be in [0, 1] where the measure is progress, not {self.threshold:g}"
            raise SettingError("threshold", problem, others=("measure",))

    @property
    def tag(self) -> str | None:
        """The statistic it goes by, if it goes by one."""
        return self.measure.removeprefix(STAT) if self.measure.startswith(STAT) else None


@attrs.frozen(kw_only=True)
class DemotionSettings:
    """What leads back to the lesson before: a measure below a threshold, after enough episodes of this lesson."""

    threshold: float = setting(description="What the measure must fall below.")
    min_lesson_length: int = setting(
        description="How many episodes of this lesson must have ended before, and are averaged over.",
        minimum=1,
        maximum=1_000_000,
    )
    behavior: str | None = setting(None, "As in completion_criteria, and as there if it is left out here.")
    measure: str | None = setting(None, "As in completion_criteria, and as there if it is left out here.")
    signal_smoothing: bool = setting(True, "As in completion_criteria.")
    require_reset: bool = setting(False, "As in completion_criteria.")

    def __attrs_post_init__(self) -> None:
        if self.measure is None:
            return
        problem = "progress never falls" if self.measure == PROGRESS else measure_problem(self.measure)
        if problem:
            raise SettingError("measure", problem)


def measure_problem(measure: str) -> str | None:
    """What is wrong with it, or None."""
    if measure in (REWARD, PROGRESS, GROUP_REWARD) or (measure.startswith(STAT) and measure != STAT):
        return None
    if measure.lower() == "elo":  # in ML-Agents' documentation, and nowhere in its code
        hint = "; a rating is a statistic: stat:Self-play/ELO"
    else:
        hint = did_you_mean(measure, MEASURES)
    return f"must be one of {', '.join(MEASURES)}, not {measure!r}{hint}"
