"""``environment_parameters``: its four shapes become one, and errors stay where they were written."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore.config.dump import dump_config
from rlcore.config.load import config_from_mapping, load_config
from rlcore.config.problems import ConfigErrors
from rlcore.config.reading import parse_document

UNIFORM = {"sampler_type": "uniform", "sampler_parameters": {"min_value": 1, "max_value": 2}}


def lessons(parameters: Any, plugins: Any) -> Any:
    config = config_from_mapping({"behaviors": {"B": {}}, "environment_parameters": {"length": parameters}}, plugins)
    block = config.environment_parameters["length"].curriculum
    assert block.type == "lessons"
    return block.lessons


@pytest.mark.parametrize("value", [0.5, 2, UNIFORM])
def test_a_number_or_a_sampler_is_one_lesson_of_the_parameters_name(value: Any, plugins: Any) -> None:
    assert lessons(value, plugins) == [{"name": "length", "value": value}]


def test_a_list_is_the_lessons(plugins: Any) -> None:
    given = [{"name": "a", "value": 1.0}, {"name": "b", "value": UNIFORM}]
    assert lessons({"curriculum": given}, plugins) == given
    assert lessons({"curriculum": {"type": "lessons", "lessons": given}}, plugins) == given
    assert lessons({"curriculum": {"lessons": given}}, plugins) == given


def test_a_curriculum_is_named_by_its_type_and_gets_its_own_settings(plugins: Any) -> None:
    blocks = {"size": {"curriculum": {"type": "wheel", "spokes": [1, 2]}}, "speed": 3.0}
    config = config_from_mapping({"behaviors": {"B": {}}, "environment_parameters": blocks}, plugins)
    wheel = config.environment_parameters["size"].curriculum
    assert (wheel.type, wheel.spokes, wheel.behavior) == ("wheel", [1, 2], "B")
    assert list(config.environment_parameters) == ["size", "speed"]


def test_what_is_written_loads_to_an_equal_configuration(plugins: Any) -> None:
    blocks = {
        "size": {"curriculum": {"type": "wheel", "spokes": [1, 2]}},
        "speed": 3.0,
        "wind": UNIFORM,
        "length": {"curriculum": [{"name": "a", "value": 1.0}]},
    }
    evaluation = {"interval": 100, "environment": {"id": "x"}, "environment_parameters": {"speed": 1.0}}
    data = {"behaviors": {"B": {}}, "environment_parameters": blocks, "evaluation": evaluation}
    config = config_from_mapping(data, plugins)
    again = config_from_mapping(dump_config(config), plugins)
    assert again == config
    assert again.evaluation is not None
    assert again.evaluation.environment_parameters["speed"].curriculum.lessons == [{"name": "speed", "value": 1.0}]


def test_numbers_and_samplers_have_only_one_lesson(plugins: Any) -> None:
    blocks = {
        "size": {"curriculum": {"type": "wheel", "spokes": [1, 2]}},
        "speed": 3.0,
        "wind": UNIFORM,
        "alone": {"curriculum": [{"name": "a", "value": 1.0}]},
        "length": {"curriculum": [{"name": "a", "value": 1.0}, {"name": "b", "value": 2.0}]},
    }
    config = config_from_mapping({"behaviors": {"B": {}}, "environment_parameters": blocks}, plugins)
    assert config.lone_lessons == {"speed", "wind", "alone"}


def messages(text: str, plugins: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigErrors) as caught:
        load_config(parse_document(text, "c.yaml"), plugins)
    return caught.value.messages


def test_lessons_without_a_plugin_for_them_are_refused_where_they_are_written(plugins: Any) -> None:
    plugins._records = [record for record in plugins._records if record.name != "lessons"]
    text = "behaviors: {B: {}}\nenvironment_parameters:\n  wind:\n    curriculum:\n    - name: a\n  gust: 3\n"
    assert [message.partition(";")[0] for message in messages(text, plugins)] == [
        "c.yaml:4: environment_parameters.wind.curriculum: unknown curriculum 'lessons'",
        "c.yaml:6: environment_parameters.gust: unknown curriculum 'lessons'",
    ]
