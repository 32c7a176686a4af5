"""The settings of a parameter with lessons, and the rules between its parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from rlcore import CurriculumSettings, SettingError, setting
from rlcore_curriculum.criterion_settings import (
    GROUP_REWARD,
    PROGRESS,
    CriterionSettings,
    DemotionSettings,
    unknown_behavior,
)
from rlcore_curriculum.sampler_settings import SamplerSettings

if TYPE_CHECKING:
    from rlcore import Plugins, RunConfig

Problem = tuple[tuple[str | int, ...], str]

EPISODES = "episodes"
LEGACY = "legacy"


@attrs.frozen(kw_only=True)
class LessonSettings:
    """One lesson of a parameter: the value of its episodes, and the criteria that end the lesson."""

    name: str = setting(description="Name of the lesson.", foreign=True)
    value: float | SamplerSettings = setting(description="The parameter's value, or a sampler.")
    completion_criteria: CriterionSettings | tuple[CriterionSettings, ...] | None = setting(
        None,
        "When the next lesson starts; required except in the last lesson. All criteria of a list must hold.",
    )
    demotion: DemotionSettings | None = setting(None, "When the previous lesson returns; never by default.")

    @property
    def completion(self) -> tuple[CriterionSettings, ...]:
        """Return all criteria that must hold."""
        criteria = self.completion_criteria
        if criteria is None:
            return ()
        return criteria if isinstance(criteria, tuple) else (criteria,)

    @property
    def demotion_criterion(self) -> CriterionSettings | None:
        """Return the demotion, with missing keys taken from ``completion_criteria``."""
        if self.demotion is None:
            return None
        keys: dict[str, Any] = {}
        if len(self.completion) == 1:  # of several, none is the one to take keys from
            (completion,) = self.completion
            keys = {"behavior": completion.behavior, "measure": completion.measure}
        for key, value in attrs.asdict(self.demotion).items():
            if value is not None:
                keys[key] = value
        return CriterionSettings(**keys)


@attrs.frozen(kw_only=True)
class LessonsSettings(CurriculumSettings):
    """Consecutive lessons, as in ML-Agents."""

    lessons: tuple[LessonSettings, ...] = setting(description="The lessons in their order.")
    smoothing: str = setting(
        EPISODES,
        "The arithmetic: episodes count for the lesson in which they started (episodes), or as in ML-Agents (legacy).",
        choices=(EPISODES, LEGACY),
    )

    def __attrs_post_init__(self) -> None:
        if not self.lessons:
            raise SettingError("lessons", "there must be at least one")

    def problems(self, config: RunConfig, plugins: Plugins) -> Iterator[Problem]:
        """Report broken rules between lessons, unknown behaviors, and mistakes in the parameters of samplers."""
        for index, lesson in enumerate(self.lessons):
            path = ("lessons", index)
            for place, message in self._of_lesson(index, lesson, config):
                yield (*path, *place), message
            if isinstance(lesson.value, SamplerSettings):
                for place, message in lesson.value.problems(plugins):
                    yield (*path, "value", *place), message

    def _of_lesson(self, index: int, lesson: LessonSettings, config: RunConfig) -> Iterator[Problem]:
        last = index == len(self.lessons) - 1
        if last and lesson.completion_criteria is not None:
            yield (
                ("completion_criteria",),
                f"no lesson follows {lesson.name!r}; delete it (ML-Agents ignores it)",
            )
        elif not last and not lesson.completion:
            yield ("completion_criteria",), "missing; every lesson but the last needs it, or the next one never comes"
        several = isinstance(lesson.completion_criteria, tuple)
        for number, criterion in enumerate(lesson.completion):
            path = ("completion_criteria", number) if several else ("completion_criteria",)
            yield from _behavior_problem(criterion.behavior, path, config)
            is_of_rlcore = criterion.tag is not None or criterion.measure == GROUP_REWARD
            if self.smoothing == LEGACY and is_of_rlcore:
                yield (
                    (*path, "measure"),
                    f"{criterion.measure!r} is not in ML-Agents; delete smoothing: legacy to use it",
                )
        if self.smoothing == LEGACY and several:
            yield ("completion_criteria",), "ML-Agents has one criterion; delete smoothing: legacy to use several"
        if lesson.demotion is not None:
            yield from self._of_demotion(index, lesson, lesson.demotion, config)

    def _of_demotion(
        self, index: int, lesson: LessonSettings, demotion: DemotionSettings, config: RunConfig
    ) -> Iterator[Problem]:
        if index == 0:
            yield ("demotion",), f"no lesson precedes {lesson.name!r}; delete it"
        if self.smoothing == LEGACY:
            yield ("demotion",), "ML-Agents has no demotion; delete smoothing: legacy to use it"
        only = lesson.completion[0] if len(lesson.completion) == 1 else None
        behavior = demotion.behavior or (only.behavior if only else None)
        measure = demotion.measure or (only.measure if only else None)
        if behavior is None:
            yield ("demotion", "behavior"), "missing; there is no single criterion to take it from"
        elif demotion.behavior is not None:
            yield from _behavior_problem(behavior, ("demotion",), config)
        if measure == PROGRESS:
            yield ("demotion", "measure"), "missing; that of completion_criteria is progress, which never falls"
            return
        for completion in lesson.completion:
            same = (completion.behavior, completion.measure) == (behavior, measure)
            if same and demotion.threshold >= completion.threshold:
                yield (
                    ("demotion", "threshold"),
                    f"must be less than that of completion_criteria ({completion.threshold:g}), not "
                    f"{demotion.threshold:g}; between the two the lesson stays",
                )


def _behavior_problem(behavior: str, path: tuple[str | int, ...], config: RunConfig) -> Iterator[Problem]:
    # With default_settings, an environment may add behaviors that no block names; the first steps of the run show them.
    if config.default_settings is not None:
        return
    problem = unknown_behavior(behavior, config.behaviors)
    if problem:
        yield (*path, "behavior"), problem
