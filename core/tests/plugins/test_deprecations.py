"""A deprecated hook is still called; a start, `rlcore plugins doctor` and the reference say what to use instead."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from packaging.version import Version

import rlcore
from rlcore import hookspecs
from rlcore.hookspecs import HOOKS
from rlcore.plugins.call import Plugins, load_plugins
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

pytestmark = pytest.mark.smoke

SOURCE = """\
from rlcore import EnvironmentSpec, hookimpl

@hookimpl
def rlcore_environments():
    return [EnvironmentSpec(name="maze", target="a:b", summary="s")]

@hookimpl
def rlcore_run_started(run):
    pass
"""
MESSAGE = "rlcore_run_started is deprecated: implement rlcore_started; rlcore 9.4 will no longer call it"


@pytest.fixture
def deprecated(monkeypatch: pytest.MonkeyPatch, installed_plugin: InstallPlugin) -> None:
    changed = tuple(
        attrs.evolve(hook, deprecated="implement rlcore_started", removed_in="9.4")
        if hook.name == "rlcore_run_started"
        else hook
        for hook in HOOKS
    )
    monkeypatch.setattr(hookspecs, "HOOKS", changed)
    installed_plugin("maze", "acme-maze", "2.0", SOURCE, ["rlcore>=0.1,<99"])


@pytest.mark.usefixtures("deprecated")
def test_a_plugin_that_implements_a_deprecated_hook_is_loaded_with_a_warning() -> None:
    plugins = load_plugins()
    assert f"plugin 'maze' (acme-maze 2.0): {MESSAGE}" in plugins.warnings
    assert "rlcore_run_started" in plugins.implemented("acme-maze/maze")
    assert not [warning for warning in plugins.warnings if "maze" not in warning and "deprecated" in warning]


@pytest.mark.usefixtures("deprecated")
def test_commands_print_the_warning_and_the_doctor_too(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("behaviors: {}")
    assert MESSAGE in run_rlcore("validate", config).stderr
    assert MESSAGE in run_rlcore("plugins", "doctor", "maze").stdout


def test_without_deprecated_hooks_there_is_no_warning(plugins: Plugins) -> None:
    assert [warning for warning in plugins.warnings if "deprecated" in warning] == []


def test_hooks_are_removed_in_the_version_that_was_announced() -> None:
    late = [hook.name for hook in HOOKS if hook.removed_in and Version(hook.removed_in) <= Version(rlcore.__version__)]
    assert late == [], "remove them"
    assert [hook.name for hook in HOOKS if (hook.deprecated is None) != (hook.removed_in is None)] == []
