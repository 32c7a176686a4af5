"""Each mistake gives one line at its key."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore import (
    BehaviorSettings,
    ConfigError,
    EnvironmentParameter,
    EvaluationSettings,
    Plugins,
    RunConfig,
    load_plugins,
)
from rlcore_adaptive_curricula.adr_settings import AdrSettings
from rlcore_adaptive_curricula.learning_progress_settings import LearningProgressSettings
from rlcore_adaptive_curricula.prioritized_levels_settings import PrioritizedLevelsSettings
from rlcore_devkit.blocks import checked_block

ADR: dict[str, Any] = {
    "type": "adr", "initial": 0.5, "limits": [0.1, 1], "step": 0.1, "lower_threshold": 1, "upper_threshold": 2,
}  # fmt: skip
WHOLE = ADR | {"initial": 2, "limits": [1, 5], "step": 1, "integer": True}
PROGRESS: dict[str, Any] = {"type": "learning_progress", "limits": [0, 1]}
LEVELS: dict[str, Any] = {"type": "prioritized_levels", "levels": 10}


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


def built(plugins: Plugins, block: dict[str, Any]) -> Any:
    return checked_block(plugins.curriculum(block["type"]), block)


def test_numbers_and_ranges_are_read_as_they_are_written(plugins: Plugins) -> None:
    assert built(plugins, ADR) == AdrSettings(
        initial=0.5, limits=(0.1, 1.0), step=0.1, lower_threshold=1.0, upper_threshold=2.0
    )
    ranges = built(plugins, ADR | {"initial": [0.4, 0.6], "target": [0.2, 0.9]})
    assert (ranges.initial_range, ranges.target_range) == ((0.4, 0.6), (0.2, 0.9))
    assert built(plugins, ADR | {"target": 0.3}).target_range == (0.3, 0.3)
    assert built(plugins, ADR).target_range == (0.1, 1.0)
    assert built(plugins, PROGRESS) == LearningProgressSettings(limits=(0.0, 1.0))
    assert built(plugins, LEVELS) == PrioritizedLevelsSettings(levels=10)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (ADR | {"initial": 3}, "initial: must be within limits [0.1, 1], not 3"),
        (ADR | {"initial": [0.05, 0.5]}, "initial: must be within limits [0.1, 1], not [0.05, 0.5]"),
        (ADR | {"initial": [0.6, 0.4]}, "initial: the lower must not exceed the upper"),
        (ADR | {"initial": [0.1, 1]}, "initial: covers all of limits"),
        (ADR | {"limits": [1, 0.1]}, "limits: the lower must be less than the upper"),
        (ADR | {"limits": [1]}, "limits: must be a list of 2 values"),
        (ADR | {"step": 0}, "step: must be greater than 0, not 0"),
        (ADR | {"step": -0.1}, "step: must be greater than 0, not -0.1"),
        (ADR | {"lower_threshold": 3}, "lower_threshold: must be less than upper_threshold (2), not 3"),
        (ADR | {"lower_threshold": 2}, "lower_threshold: must be less than upper_threshold (2), not 2"),
        (ADR | {"boundary_probability": 1.5}, "boundary_probability: must be at most 1"),
        (ADR | {"boundary_probability": 0}, "boundary_probability: must be greater than 0"),
        (ADR | {"measure": "rewards"}, "measure: must be one of reward, group_reward, length, not 'rewards'; did you"),
        (ADR | {"target": [0.9, 0.2]}, "target: the lower must not exceed the upper"),
        (WHOLE | {"step": 0.5}, "step: must be whole"),
        (WHOLE | {"initial": 1.5}, "initial: must be whole"),
        (WHOLE | {"limits": [0.5, 5]}, "limits: must be whole"),
        (WHOLE | {"target": 2.5}, "target: must be whole"),
        (PROGRESS | {"bins": 1}, "bins: must be at least 2"),
        (PROGRESS | {"integer": True, "bins": 3}, "bins: must be at most 2, the number of whole values, not 3"),
        (PROGRESS | {"random_share": 0}, "random_share: must be greater than 0"),
        (LEVELS | {"levels": 0}, "levels: must be at least 1"),
        (LEVELS | {"temperature": 0}, "temperature: must be greater than 0"),
        (LEVELS | {"staleness": 1.1}, "staleness: must be at most 1"),
        (LEVELS | {"score": "learnability"}, "success: missing; the score learnability needs it"),
        (LEVELS | {"success": 1.0}, "success: only learnability uses it"),
    ],
)
def test_a_mistake_is_reported_at_its_key(plugins: Plugins, block: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        built(plugins, block)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def problems(plugins: Plugins, blocks: dict[str, dict[str, Any]], *behaviors: str, evaluated: bool = False) -> Any:
    """Return the problems of the first of these parameters with the rest of the configuration."""
    parameters = {name: EnvironmentParameter(curriculum=built(plugins, block)) for name, block in blocks.items()}
    config = RunConfig(
        behaviors={name: BehaviorSettings() for name in behaviors},
        environment_parameters={} if evaluated else parameters,
        evaluation=EvaluationSettings(interval=1, environment_parameters=parameters) if evaluated else None,
    )
    first = next(iter(parameters.values())).curriculum
    return list(first.problems(config, plugins))


@pytest.mark.parametrize("block", [ADR, PROGRESS, LEVELS], ids=lambda block: block["type"])
def test_a_behavior_that_there_is_not_is_refused(plugins: Plugins, block: dict[str, Any]) -> None:
    assert problems(plugins, {"length": block}, "Walker") == []
    assert problems(plugins, {"length": block | {"behavior": "Runner"}}, "Walker", "Runner") == []
    assert problems(plugins, {"length": block | {"behavior": "Walkr"}}, "Walker") == [
        (("behavior",), "unknown behavior 'Walkr'; did you mean 'Walker'? (known: Walker)")
    ]
    assert problems(plugins, {"length": block}, "Walker", "Runner") == [
        (("behavior",), "missing; name one of Walker, Runner")
    ]


def test_an_environment_may_bring_behaviors_that_no_block_names(plugins: Plugins) -> None:
    curriculum = built(plugins, ADR | {"behavior": "Runner"})
    config = RunConfig(behaviors={"Walker": BehaviorSettings()}, default_settings=BehaviorSettings())
    assert list(curriculum.problems(config, plugins)) == []


@pytest.mark.parametrize("evaluated", [False, True])
def test_the_share_of_boundary_episodes_is_one_for_all_parameters(plugins: Plugins, evaluated: bool) -> None:
    blocks = {"length": ADR, "mass": ADR | {"boundary_probability": 0.3}, "size": PROGRESS}
    assert problems(plugins, blocks, "Walker", evaluated=evaluated) == [
        (("boundary_probability",), "must be equal for all parameters of type adr; it is 0.3 for mass, not 0.5")
    ]
    assert problems(plugins, {"length": ADR, "mass": ADR, "size": PROGRESS}, "Walker", evaluated=evaluated) == []
