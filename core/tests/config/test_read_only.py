"""A configuration that was checked cannot be changed, and is copied, pickled and written like any other data."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from rlcore import BehaviorSettings, EnvironmentSettings, RunConfig, setting

TEXT = """\
behaviors:
  B: {reward_signals: {extrinsic: {}, bonus: {scale: 2}}}
environment: {type: gymnasium, options: {walls: {height: 2}}}
environment_parameters: {mass: 2}
stats: {jsonl: {}}
acme: {project: x}
"""
CHANGES = {
    "__setitem__": ("new", 1), "__delitem__": ("B",), "update": ({"new": 1},), "pop": ("B",), "popitem": (),
    "setdefault": ("new", 1), "clear": (), "__ior__": ({"new": 1},),
}  # fmt: skip


def mappings(config: RunConfig) -> list[Any]:
    assert config.environment is not None
    of_config = [config.behaviors, config.stats, config.environment_parameters, config.sections]
    return [*of_config, config.behaviors["B"].reward_signals, config.environment.options]


@pytest.mark.parametrize("change", CHANGES)
def test_no_mapping_of_a_configuration_can_be_changed(load: Callable[[str], RunConfig], change: str) -> None:
    for mapping in mappings(load(TEXT)):
        before = dict(mapping)
        with pytest.raises(TypeError, match=r"a configuration cannot be changed .* copy a mapping with dict\(...\)"):
            getattr(mapping, change)(*CHANGES[change])
        assert mapping == before


def test_a_configuration_is_copied_and_pickled_and_its_mappings_are_dicts(load: Callable[[str], RunConfig]) -> None:
    config = load(TEXT)
    for equal in (copy.deepcopy(config), copy.copy(config), attrs.evolve(config)):
        assert equal == config and type(equal.stats) is type(config.stats)
    assert pickle.loads(pickle.dumps(config.stats)) == config.stats
    assert json.loads(json.dumps(mappings(config)[-1])) == {"walls": {"height": 2}}
    assert {**config.stats, "new": 1}["new"] == (config.stats | {"new": 1})["new"] == 1


def test_settings_made_in_python_are_read_only_too_and_keep_their_own_dict() -> None:
    @attrs.frozen(kw_only=True)
    class Own:
        weights: dict[str, float] = setting(factory=dict, description="Weights.")

    options: dict[str, Any] = {"size": 3}
    settings = EnvironmentSettings(options=options)
    options["size"] = 4
    assert settings.options == {"size": 3}
    for mapping in (BehaviorSettings().reward_signals, Own(weights={"a": 1.0}).weights):
        with pytest.raises(TypeError):
            mapping["b"] = 2.0
