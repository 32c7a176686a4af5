"""The criteria that complete or demote a lesson.

This module imports no numpy, because checking a configuration imports it.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from rlcore import SettingError, did_you_mean, setting

REWARD = "reward"
PROGRESS = "progress"
GROUP_REWARD = "group_reward"
STAT = "stat:"  # followed by a tag
MEASURES = (REWARD, PROGRESS, GROUP_REWARD, f"{STAT}TAG")


@attrs.frozen(kw_only=True)
class CriterionSettings:
    """The criterion that completes a lesson: a measure above a threshold, after enough episodes of the lesson."""

    behavior: str = setting(description="The behavior whose episodes, steps or statistics count.", foreign=True)
    measure: str = setting(
        REWARD,
        "The compared value: the mean return of the lesson's latest min_lesson_length episodes (reward, or "
        "group_reward for group rewards), the share of max_steps that is over (progress), or stat:TAG, the mean of any "
        "statistic in the latest summary.",
        foreign=True,
    )
    threshold: float = setting(0.0, "The value that the measure must exceed; for progress, a share between 0 and 1.")
    min_lesson_length: int = setting(
        0, "The number of episodes of this lesson that must have ended before.", minimum=0, maximum=1_000_000
    )
    signal_smoothing: bool = setting(True, "Average the measure exponentially, with weight 0.75 for each new value.")
    require_reset: bool = setting(False, "When the lesson changes, reset all environments.")

    def __attrs_post_init__(self) -> None:
        problem = measure_problem(self.measure)
        if problem:
            raise SettingError("measure", problem)
        if self.measure == PROGRESS and not 0 <= self.threshold <= 1:
            problem = f"must be in [0, 1] if the measure is progress, not {self.threshold:g}"
            raise SettingError("threshold", problem, others=("measure",))

    @property
    def tag(self) -> str | None:
        """Return the tag of the measured statistic, or None."""
        return self.measure.removeprefix(STAT) if self.measure.startswith(STAT) else None


@attrs.frozen(kw_only=True)
class DemotionSettings:
    """The criterion that demotes to the previous lesson: a measure below a threshold, after enough episodes."""

    threshold: float = setting(description="The value that the measure must fall below.")
    min_lesson_length: int = setting(
        description="The number of episodes of this lesson that must have ended before, and that are averaged.",
        minimum=1,
        maximum=1_000_000,
    )
    behavior: str | None = setting(None, "As in completion_criteria, which is also the default.", foreign=True)
    measure: str | None = setting(None, "As in completion_criteria, which is also the default.", foreign=True)
    signal_smoothing: bool = setting(True, "As in completion_criteria.")
    require_reset: bool = setting(False, "As in completion_criteria.")

    def __attrs_post_init__(self) -> None:
        if self.measure is None:
            return
        problem = "progress never falls" if self.measure == PROGRESS else measure_problem(self.measure)
        if problem:
            raise SettingError("measure", problem)


def measure_problem(measure: str) -> str | None:
    """Return the mistake in ``measure``, or None."""
    if measure in (REWARD, PROGRESS, GROUP_REWARD) or (measure.startswith(STAT) and measure != STAT):
        return None
    if measure.lower() == "elo":  # named in ML-Agents' documentation, but not in its code
        hint = "; a rating is a statistic: stat:Self-play/ELO"
    else:
        hint = did_you_mean(measure, MEASURES)
    return f"must be one of {', '.join(MEASURES)}, not {measure!r}{hint}"


def unknown_behavior(behavior: str, known: Collection[str]) -> str | None:
    """Return the problem of a behavior that is not one of ``known``, or None."""
    if behavior in known:
        return None
    return f"unknown behavior {behavior!r}{did_you_mean(behavior, known)} (known: {', '.join(known)})"
