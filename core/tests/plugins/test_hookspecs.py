"""The specifications of hooks are the reference documentation, so they are tested like code; a deprecated hook works.

A start, `rlcore plugins doctor` and the reference say what to use instead of a deprecated one.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import attrs
import pytest
from packaging.version import Version

import rlcore
from rlcore import HOOKS, HookInfo, HookManager, Plugins, hookimpl, hookspecs, load_plugins
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

pytestmark = pytest.mark.smoke

SPECIFIED = {name: value for name, value in vars(hookspecs).items() if name.startswith("rlcore_")}
GRAMMAR = {
    "factory": r"rlcore_(create|write|read)_\w+",
    "registry": r"rlcore_\w+(s|a)",
    "notification": r"rlcore_\w*(ed|written)",
    "status": r"rlcore_(report|restore)_status",
    "intervention": r"rlcore_(modify|check|process)_\w+",
    "extension": r"rlcore_addhooks",
}


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.name)
def test_a_specification_is_documented_annotated_and_named_after_its_kind(hook: HookInfo) -> None:
    function = SPECIFIED[hook.name]
    summary, _, rest = (inspect.getdoc(function) or "").partition("\n\n")
    assert summary.endswith(".") and "Called once" in rest
    signature = inspect.signature(function)
    assert signature.return_annotation is not signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not parameter.empty and parameter.default is parameter.empty
    options = HookManager().parse_hookspec_opts(hookspecs, hook.name)
    assert options is not None and bool(dict(options).get("firstresult")) == (hook.kind == "factory")
    assert re.fullmatch(GRAMMAR[hook.kind], hook.name)


def test_a_plugin_that_implements_every_hook_as_specified_registers(plugins: Plugins) -> None:
    class Everything:
        """Implements every hook with every argument, as the specification names them."""

    for name, function in SPECIFIED.items():
        arguments = ", ".join(inspect.signature(function).parameters)
        scope: dict[str, object] = {}
        exec(f"def {name}({', '.join(filter(None, ['self', arguments]))}): return None", scope)
        setattr(Everything, name, hookimpl(scope[name]))  # type: ignore[call-overload]
    plugins.register(Everything(), "everything")
    assert set(plugins.implemented("module:everything")) == set(SPECIFIED)


# ---------------------------------------------------------------- deprecated hooks

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
def test_a_plugin_that_implements_a_deprecated_hook_is_loaded_with_a_warning(
    run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    plugins = load_plugins()
    assert f"plugin 'maze' (acme-maze 2.0): {MESSAGE}" in plugins.warnings
    assert "rlcore_run_started" in plugins.implemented("acme-maze/maze")
    assert not [warning for warning in plugins.warnings if "maze" not in warning and "deprecated" in warning]
    config = tmp_path / "config.yaml"
    config.write_text("behaviors: {}")
    assert MESSAGE in run_rlcore("validate", config).stderr
    assert MESSAGE in run_rlcore("plugins", "doctor", "maze").stdout


def test_hooks_are_removed_in_the_version_that_was_announced() -> None:
    late = [hook.name for hook in HOOKS if hook.removed_in and Version(hook.removed_in) <= Version(rlcore.__version__)]
    assert late == [], "remove them"
    assert [hook.name for hook in HOOKS if (hook.deprecated is None) != (hook.removed_in is None)] == []
