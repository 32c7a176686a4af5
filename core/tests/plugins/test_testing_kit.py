"""The test kit for authors of plugins is itself tested."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from rlcore import ConfigError, PluginError, Plugins, load_plugins
from rlcore_devkit import PluginConformance
from rlcore_devkit.fixtures import CleanImport, InstallPlugin

SOURCE = """
from rlcore import TrainerSpec, hookimpl
from rlcore.hookspecs import hookspec
held = []
class Specs:
    @hookspec
    def rlcore_umpires(self): "Umpires."
@hookimpl
def rlcore_addhooks(manager):
    manager.add_hookspecs(Specs)
    held.append(manager)
@hookimpl
def rlcore_trainers():
    return [TrainerSpec(name="tiny", target="json:loads", settings="json:loads", summary="tiny")]
@hookimpl
def rlcore_run_started():
    held[0].hook.rlcore_umpires()
"""


def test_the_plugins_fixture_refuses_discovery(plugins: Plugins) -> None:
    with pytest.raises(AssertionError, match="may not look for installed plugins"):
        load_plugins()
    assert plugins.loaded == ()


def test_clean_import_fails_for_a_module_that_brings_numpy(
    clean_import: CleanImport, installed_plugin: InstallPlugin
) -> None:
    clean_import(installed_plugin("light", "acme-light", "1", "x = 1\n").module)
    heavy = installed_plugin("heavy", "acme-heavy", "1", "import numpy\n")
    with pytest.raises(AssertionError, match="imports numpy"):
        clean_import(heavy.module)


class TestTheConformanceClassOnASoundPlugin(PluginConformance):
    plugin = "acme-tiny/tiny"

    @pytest.fixture
    def _forgotten(self) -> Iterator[None]:
        """The next test installs another module of this name."""
        yield
        assert "acme_tiny_tiny_hooks" not in sys.modules

    @pytest.fixture(autouse=True)
    def _install(self, _forgotten: None, installed_plugin: InstallPlugin) -> None:
        installed_plugin("tiny", "acme-tiny", "1", SOURCE)


class TestTheConformanceClassOnCore(PluginConformance):
    plugin = "rlcore/core"
    skip = {"test_bounds_the_rlcore_it_was_made_for": "it is rlcore"}


@pytest.mark.parametrize(
    ("source", "requires", "test"),
    [
        (SOURCE, ["rlcore"], "test_bounds_the_rlcore_it_was_made_for"),
        (SOURCE, ["rlcore<0.1"], "test_fits_the_running_rlcore"),
        (SOURCE.replace('summary="tiny"', ""), ["rlcore>0"], "test_every_record_has_a_summary"),
        ("import numpy\n" + SOURCE, ["rlcore>0"], "test_importing_it_is_cheap"),
        (SOURCE.replace("json:loads", "json:absent"), ["rlcore>0"], "test_every_target_can_be_imported"),
        ("x = 1\n", ["rlcore>0"], "test_loads_and_implements_a_hook"),
    ],
)
def test_the_conformance_class_fails_where_its_rule_is_broken(
    installed_plugin: InstallPlugin, source: str, requires: list[str], test: str
) -> None:
    installed_plugin("tiny", "acme-tiny", "1", source, requires)
    conformance = type("Conformance", (PluginConformance,), {"plugin": "tiny"})()
    with pytest.raises(AssertionError):
        getattr(conformance, test)()


PRESET = """
from rlcore import Preset, hookimpl
VALUES = {"environment": {"num_envs": 2}, "default_settings": {"trainer_type": "ppo", "time_horizon": 8}}
@hookimpl
def rlcore_config_sections():
    return [Preset(name="calm", target="acme_tiny_tiny_hooks:VALUES", summary="calm", source="measured")]
"""


@pytest.mark.parametrize(
    ("good", "bad", "error", "said"),
    [
        ("VALUES", "VALUES", None, ""),
        ('"trainer_type": "ppo", ', "", AssertionError, "calm: no trainer_type"),
        (
            "time_horizon",
            "time_horison",
            ConfigError,
            "preset calm (acme-tiny): default_settings.time_horison: unk",
        ),
        ('"num_envs": 2', '"num_envs": 0', ConfigError, "preset calm (acme-tiny): environment.num_envs: must"),
        ('"environment": {"num_envs": 2}', '"plugins": {}', PluginError, "plugins and preset cannot be among its keys"),
    ],
)
def test_the_conformance_class_loads_every_preset(
    installed_plugin: InstallPlugin, good: str, bad: str, error: type[Exception] | None, said: str
) -> None:
    installed_plugin("tiny", "acme-tiny", "1", PRESET.replace(good, bad), ["rlcore>0"])
    conformance = type("Conformance", (PluginConformance,), {"plugin": "tiny"})()
    with pytest.raises(error, match=re.escape(said)) if error is not None else nullcontext():
        conformance.test_every_preset_is_a_valid_part_of_a_configuration()
