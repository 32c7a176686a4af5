"""``environment.parameters``: read with the class of the environment's type, and refused with file and line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlcore.config.dump import dump_config
from rlcore.config.load import config_from_mapping
from rlcore.settings import RunConfig

START = "behaviors:\n  B: {}\nenvironment_parameters: {size: 3, heat: 1.5}\n"
Load = Callable[[str], RunConfig]


def test_each_entry_is_an_object_of_the_class_that_the_environments_type_declares(load: Load, plugins: Any) -> None:
    config = load(START + "environment: {type: grid, parameters: {size: {cell: 4}, heat: {wall: north}}}\n")
    assert config.environment is not None
    size, heat = config.environment.parameters["size"], config.environment.parameters["heat"]
    assert (size.cell, size.wall, heat.cell, heat.wall) == (4, None, None, "north")
    assert config_from_mapping(dump_config(config), plugins) == config


def test_a_type_of_environment_without_a_class_has_an_empty_block(load: Load) -> None:
    assert load(START + "environment: {parameters: {}}\n").environment is not None


def test_evaluations_inherit_entries_and_may_have_their_own(load: Load) -> None:
    text = START + (
        "environment: {type: grid, parameters: {size: {cell: 4}}}\n"
        "evaluation:\n  interval: 100\n  environment_parameters: {cold: 1}\n"
        "  environment: {parameters: {heat: {cell: 7}, cold: {wall: south}}}\n"
    )
    settings = load(text).evaluation_environment
    assert settings is not None
    assert {name: (route.cell, route.wall) for name, route in settings.parameters.items()} == {
        "size": (4, None), "heat": (7, None), "cold": (None, "south"),
    }  # fmt: skip
    both = START + (
        "environment: {type: grid, parameters: {size: {cell: 4}}}\n"
        "evaluation: {interval: 100, environment: {parameters: {size: {wall: north}}}}\n"
    )
    assert load(both.replace("{wall: north}", "{wall: north, cell: null}")).evaluation is not None
