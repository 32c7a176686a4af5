"""With ``default_settings``, only the environment knows the behaviors and which of them share rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rlcore import ConfigError, Curriculum, StatSummary, Tag
from rlcore_curriculum.adaptive_curricula.adr import AutomaticDomainRandomization
from rlcore_curriculum.adaptive_curricula.adr_settings import AdrSettings
from rlcore_curriculum.adaptive_curricula.learning_progress import LearningProgress
from rlcore_curriculum.adaptive_curricula.learning_progress_settings import LearningProgressSettings
from rlcore_curriculum.adaptive_curricula.prioritized_levels import PrioritizedLevels
from rlcore_curriculum.adaptive_curricula.prioritized_levels_settings import PrioritizedLevelsSettings

Make = Callable[..., Curriculum]
UPDATE = "Losses/Policy Loss"


ADR = {"initial": 0.5, "limits": (0.0, 1.0), "step": 0.1, "lower_threshold": 0.2, "upper_threshold": 0.8}
KINDS: list[tuple[Any, Any, dict[str, Any]]] = [
    (AutomaticDomainRandomization, AdrSettings, ADR),
    (LearningProgress, LearningProgressSettings, {"limits": (0.0, 1.0)}),
    (PrioritizedLevels, PrioritizedLevelsSettings, {"levels": 9}),
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind[1].__name__)
def make(request: pytest.FixtureRequest, simulation: Any) -> Make:
    """Create the curriculum of a parameter ``length`` with these settings: ``make(behavior="Walker")``."""
    kind, settings, defaults = request.param
    return lambda **changes: kind({"length": settings(**defaults, **changes)}, simulation.run)


def told(*tags: str) -> dict[str, StatSummary]:
    return {tag: StatSummary.of([1.0]) for tag in tags}


KEY = "environment_parameters.length.curriculum.behavior"


@pytest.mark.parametrize(
    ("behavior", "message"),
    [
        ("Agnet", "unknown behavior 'Agnet'; did you mean 'Agent'? (known: Agent, Other)"),
        (None, "missing; name one of Agent, Other"),
    ],
)
def test_a_behavior_that_the_environment_does_not_have_is_refused_at_the_first_look(
    make: Make, behavior: str | None, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        make(behavior=behavior).advance({"Agent": 9, "Other": 9})
    assert str(caught.value) == f"{KEY}: {message}"
    make(behavior="Agent").advance({"Agent": 9, "Other": 9})
    make().advance({"Agent": 9})


@pytest.mark.parametrize("behavior", [None, "Agent"])
def test_a_group_reward_that_does_not_exist_is_refused_by_the_first_complete_summary(
    make: Make, behavior: str | None
) -> None:
    curriculum = make(behavior=behavior, measure="group_reward")
    curriculum.advance({"Agent": 9})
    curriculum.summarised("Agent", told(Tag.EPISODE_LENGTH, Tag.CUMULATIVE_REWARD, Tag.IS_TRAINING))  # no update yet
    curriculum.summarised("Agent", told(UPDATE, Tag.IS_TRAINING))  # no episodes
    curriculum.summarised("Other", told(Tag.EPISODE_LENGTH, UPDATE))
    with pytest.raises(ConfigError) as caught:
        curriculum.summarised("Agent", told(Tag.EPISODE_LENGTH, Tag.CUMULATIVE_REWARD, UPDATE, Tag.IS_TRAINING))
    assert str(caught.value).startswith(
        "environment_parameters.length.curriculum.measure: behavior 'Agent' has no statistic 'Environment/Group "
        "Cumulative Reward'; did you mean"
    )
    assert "\n" not in str(caught.value)
