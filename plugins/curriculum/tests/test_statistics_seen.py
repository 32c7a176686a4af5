"""With a misspelled tag a lesson would never end, so the run ends when a summary proves that the tag does not exist."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore import ConfigError, StatSummary
from rlcore_curriculum.criterion_settings import CriterionSettings
from rlcore_curriculum.statistics_seen import StatisticsSeen

STAT = """
environment_parameters:
  length:
    curriculum:
      - {name: Short, value: 1, completion_criteria: {behavior: B, threshold: 1}}
      - {name: Mid, value: 2, completion_criteria: {behavior: B, measure: 'stat:Policy/Entropi'}}
      - {name: Long, value: 3}
"""
EPISODES = {"Environment/Episode Length": 9.0, "Environment/Cumulative Reward": 1.0}
UPDATE = {"Losses/Policy Loss": 0.1, "Policy/Entropy": 1.0, "Policy/Learning Rate": 1.0}


def summary(**means: float) -> dict[str, StatSummary]:
    return {tag: StatSummary.of([mean]) for tag, mean in means.items()}


def test_a_tag_that_a_complete_summary_lacks_is_refused_with_the_nearest(make: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make(STAT).summarised("B", summary(**EPISODES, **UPDATE))
    assert str(caught.value) == (
        "environment_parameters.length.curriculum.lessons[1].completion_criteria.measure: behavior 'B' has no "
        "statistic 'Policy/Entropi'; did you mean 'Policy/Entropy'? (known: Environment/Cumulative "
        "Reward, Environment/Episode Length, Losses/Policy Loss, Policy/Entropy, Policy/Learning Rate)"
    )


@pytest.mark.parametrize("means", [EPISODES, UPDATE, {}, EPISODES | {"Performance/Steps Per Second": 3.0}])
def test_a_summary_of_half_or_of_another_behavior_proves_nothing(make: Any, means: dict[str, float]) -> None:
    make(STAT).summarised("B", summary(**means))
    make(STAT).summarised("C", summary(**EPISODES, **UPDATE))


def test_a_tag_that_was_there_once_may_be_missing_after_a_resume_too(make: Any) -> None:
    lessons = make(STAT)
    lessons.summarised("B", summary(**EPISODES, **UPDATE, **{"Policy/Entropi": 3.0}))
    lessons.summarised("B", summary(**EPISODES, **UPDATE))
    resumed = make(STAT)
    resumed.load_state_dict(lessons.state_dict())
    resumed.summarised("B", summary(**EPISODES, **UPDATE))


def test_statistics_of_evaluations_are_waited_for_in_runs_that_make_any() -> None:
    criteria = {("p",): CriterionSettings(behavior="B", measure="stat:Evaluation/Cumulative Reward")}
    with pytest.raises(ConfigError, match=r"p\.measure: behavior 'B' has no statistic 'Evaluation/Cumulative Reward'"):
        StatisticsSeen(criteria, evaluates=False).summarised("B", summary(**EPISODES, **UPDATE))
    StatisticsSeen(criteria, evaluates=True).summarised("B", summary(**EPISODES, **UPDATE))
