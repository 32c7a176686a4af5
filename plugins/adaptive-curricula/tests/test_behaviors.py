"""With ``default_settings``, only the environment knows the behaviors and which of them share rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rlcore import CUMULATIVE_REWARD, EPISODE_LENGTH, GROUP_REWARD, IS_TRAINING, ConfigError, Curriculum, StatSummary
from rlcore_adaptive_curricula import adr, learning_progress, prioritized_levels
from rlcore_adaptive_curricula.adr_settings import AdrSettings
from rlcore_adaptive_curricula.learning_progress_settings import LearningProgressSettings
from rlcore_adaptive_curricula.prioritized_levels_settings import PrioritizedLevelsSettings

Make = Callable[..., Curriculum]
UPDATE = "Losses/Policy Loss"


@pytest.fixture(params=["adr", "learning_progress", "prioritized_levels"])
def make(request: pytest.FixtureRequest, simulation: Any) -> Make:
    """Create the curriculum of a parameter ``length`` with these settings: ``make(behavior="Walker")``."""

    def made(**settings: Any) -> Curriculum:
        if request.param == "adr":
            block: Any = AdrSettings(
                initial=0.5, limits=(0.0, 1.0), step=0.1, lower_threshold=0.2, upper_threshold=0.8, **settings
            )
            return adr.make_curriculum({"length": block}, simulation.run)
        if request.param == "learning_progress":
            block = LearningProgressSettings(limits=(0.0, 1.0), **settings)
            return learning_progress.make_curriculum({"length": block}, simulation.run)
        return prioritized_levels.make_curriculum(
            {"length": PrioritizedLevelsSettings(levels=9, **settings)}, simulation.run
        )

    return made


def told(*tags: str) -> dict[str, StatSummary]:
    return {tag: StatSummary.of([1.0]) for tag in tags}


def test_a_behavior_that_the_environment_does_not_have_is_refused_at_the_first_look(make: Make) -> None:
    with pytest.raises(ConfigError) as caught:
        make(behavior="Agnet").advance({"Agent": 9, "Other": 9})
    assert str(caught.value) == (
        "environment_parameters.length.curriculum.behavior: unknown behavior 'Agnet'; did you mean 'Agent'? (known: "
        "Agent, Other)"
    )
    make(behavior="Agent").advance({"Agent": 9, "Other": 9})


def test_of_several_behaviors_one_must_be_named(make: Make) -> None:
    with pytest.raises(ConfigError) as caught:
        make().advance({"Agent": 9, "Other": 9})
    assert str(caught.value) == ("environment_parameters.length.curriculum.behavior: missing; name one of Agent, Other")
    make().advance({"Agent": 9})


@pytest.mark.parametrize("behavior", [None, "Agent"])
def test_a_group_reward_that_does_not_exist_is_refused_by_the_first_complete_summary(
    make: Make, behavior: str | None
) -> None:
    curriculum = make(behavior=behavior, measure="group_reward")
    curriculum.advance({"Agent": 9})
    curriculum.summarised("Agent", told(EPISODE_LENGTH, CUMULATIVE_REWARD, IS_TRAINING))  # no update yet
    curriculum.summarised("Agent", told(UPDATE, IS_TRAINING))  # no episodes
    curriculum.summarised("Other", told(EPISODE_LENGTH, UPDATE))
    with pytest.raises(ConfigError) as caught:
        curriculum.summarised("Agent", told(EPISODE_LENGTH, CUMULATIVE_REWARD, UPDATE, IS_TRAINING))
    assert str(caught.value).startswith(
        "environment_parameters.length.curriculum.measure: behavior 'Agent' has no statistic 'Environment/Group "
        "Cumulative Reward'; did you mean"
    )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("measure", "tags"), [("group_reward", (GROUP_REWARD,)), ("reward", ()), ("length", ())])
def test_an_existing_or_unused_group_reward_is_accepted(make: Make, measure: str, tags: tuple[str, ...]) -> None:
    curriculum = make(measure=measure)
    curriculum.advance({"Agent": 9})
    curriculum.summarised("Agent", told(EPISODE_LENGTH, CUMULATIVE_REWARD, UPDATE, *tags))
