"""The hooks of adaptive-curricula. rlcore imports this module at every start, so it must not import numpy."""

from __future__ import annotations

from rlcore import CurriculumSpec, hookimpl


@hookimpl
def rlcore_curricula() -> list[CurriculumSpec]:
    return [
        CurriculumSpec(
            name="adr",
            target="rlcore_curriculum.adaptive_curricula.adr:AutomaticDomainRandomization",
            settings="rlcore_curriculum.adaptive_curricula.adr_settings:AdrSettings",
            summary="automatic domain randomization: a range that widens while the agent does well at its bounds",
        ),
        CurriculumSpec(
            name="learning_progress",
            target="rlcore_curriculum.adaptive_curricula.learning_progress:LearningProgress",
            settings="rlcore_curriculum.adaptive_curricula.learning_progress_settings:LearningProgressSettings",
            summary="values at which the agent's return changes fastest",
        ),
        CurriculumSpec(
            name="prioritized_levels",
            target="rlcore_curriculum.adaptive_curricula.prioritized_levels:PrioritizedLevels",
            settings="rlcore_curriculum.adaptive_curricula.prioritized_levels_settings:PrioritizedLevelsSettings",
            summary="prioritized level replay for a parameter that works like a seed",
        ),
    ]
