"""A configuration that was checked cannot be changed, and is copied, pickled and written like any other data."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from rlcore import hookimpl
from rlcore.config.dump import dump_config
from rlcore.config.load import config_from_mapping
from rlcore.errors import PluginError
from rlcore.plugins.call import Plugins
from rlcore.settings import BehaviorSettings, EnvironmentSettings, RunConfig, setting

TEXT = """\
behaviors:
  B: {reward_signals: {extrinsic: {}, bonus: {scale: 2}}}
environment: {type: gymnasium, options: {walls: {height: 2}}}
environment_parameters: {mass: 2}
stats: {jsonl: {}}
acme: {project: x}
"""

CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "set": lambda mapping: mapping.__setitem__("new", 1),
    "delete": lambda mapping: mapping.__delitem__(next(iter(mapping))),
    "update": lambda mapping: mapping.update(new=1),
    "pop": lambda mapping: mapping.pop(next(iter(mapping))),
    "popitem": lambda mapping: mapping.popitem(),
    "setdefault": lambda mapping: mapping.setdefault("new", 1),
    "clear": lambda mapping: mapping.clear(),
    "merge": lambda mapping: mapping.__ior__({"new": 1}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_mapping_of_a_configuration_can_be_changed(load: Callable[[str], RunConfig], change: str) -> None:
    config = load(TEXT)
    assert config.environment is not None
    mappings = (
        config.behaviors,
        config.stats,
        config.environment_parameters,
        config.sections,
        config.behaviors["B"].reward_signals,
        config.environment.options,
    )
    for mapping in mappings:
        before = dict(mapping)
        with pytest.raises(TypeError, match=r"a configuration cannot be changed .* copy a mapping with dict\(...\)"):
            CHANGES[change](mapping)
        assert mapping == before


def test_a_configuration_is_copied_pickled_and_written(load: Callable[[str], RunConfig], plugins: Any) -> None:
    config = load(TEXT)
    for equal in (copy.deepcopy(config), copy.copy(config), attrs.evolve(config)):
        assert equal == config and type(equal.stats) is type(config.stats)
    assert pickle.loads(pickle.dumps(config.stats)) == config.stats
    assert config_from_mapping(dump_config(config), plugins) == config
    assert json.loads(json.dumps(dict(config.environment.options if config.environment else {}))) == {
        "walls": {"height": 2}
    }
    assert {**config.stats, "new": 1}["new"] == (config.stats | {"new": 1})["new"] == 1


def test_a_plugin_that_changes_it_by_accident_is_named() -> None:
    class Careless:
        @hookimpl
        def rlcore_check_config(self, config: RunConfig) -> None:
            config.stats["tracker"] = {}

    real = Plugins()
    real.register(Careless(), "careless", "acme-careless", "1.0")
    with pytest.raises(
        PluginError, match=r"plugin 'careless' \(acme-careless 1.0\) failed in rlcore_check_config: TypeErr"
    ):
        real.check_config(RunConfig())


def test_settings_made_in_python_are_read_only_too_and_keep_their_own_dict() -> None:
    options: dict[str, Any] = {"size": 3}
    settings = EnvironmentSettings(options=options)
    options["size"] = 4
    assert settings.options == {"size": 3}
    with pytest.raises(TypeError):
        BehaviorSettings().reward_signals["extrinsic"] = None

    @attrs.frozen(kw_only=True)
    class Own:
        weights: dict[str, float] = setting(factory=dict, description="Weights.")

    with pytest.raises(TypeError):
        Own(weights={"a": 1.0}).weights["b"] = 2.0
