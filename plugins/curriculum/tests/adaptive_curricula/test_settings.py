"""Each mistake gives one line at its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import (
    BehaviorSettings,
    ConfigError,
    CurriculumSpec,
    EnvironmentParameter,
    EvaluationSettings,
    Plugins,
    RunConfig,
    load_plugins,
)
from rlcore_curriculum.adaptive_curricula.adr_settings import AdrSettings
from rlcore_devkit.conformance.rules import checked_block

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
    return checked_block(plugins.record(CurriculumSpec, block["type"]), block)


def test_numbers_and_ranges_are_read_as_they_are_written(plugins: Plugins) -> None:
    assert built(plugins, ADR) == AdrSettings(
        initial=0.5, limits=(0.1, 1.0), step=0.1, lower_threshold=1.0, upper_threshold=2.0
    )
    ranges = built(plugins, ADR | {"initial": [0.4, 0.6], "target": [0.2, 0.9]})
    assert (ranges.initial_range, ranges.target_range) == ((0.4, 0.6), (0.2, 0.9))
    assert built(plugins, ADR | {"target": 0.3}).target_range == (0.3, 0.3)
    assert built(plugins, ADR).target_range == (0.1, 1.0)


REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))
BLOCKS = {"adr": ADR, "whole": WHOLE, "progress": PROGRESS, "levels": LEVELS}


@pytest.mark.parametrize(("block", "change", "message"), REFUSALS)
def test_a_mistake_is_reported_at_its_key(plugins: Plugins, block: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        built(plugins, BLOCKS[block] | change)
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


@pytest.mark.parametrize("evaluated", [False, True])
def test_the_share_of_boundary_episodes_is_one_for_all_parameters(plugins: Plugins, evaluated: bool) -> None:
    blocks = {"length": ADR, "mass": ADR | {"boundary_probability": 0.3}, "size": PROGRESS}
    assert problems(plugins, blocks, "Walker", evaluated=evaluated) == [
        (("boundary_probability",), "must be equal for all parameters of type adr; it is 0.3 for mass, not 0.5")
    ]
    assert problems(plugins, {"length": ADR, "mass": ADR, "size": PROGRESS}, "Walker", evaluated=evaluated) == []
