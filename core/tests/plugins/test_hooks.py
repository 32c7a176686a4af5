"""Hooks: specifications that are documentation, so they are tested like code; what may implement them; deprecated ones.

A plugin is checked before it is registered, registered as a whole or not at all, and the same on every pluggy.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pluggy
import pytest
import yaml
from packaging.version import Version

import rlcore
from rlcore import HOOKS, Plugin, PluginError, Plugins, TrainerSpec, hookimpl, hookspecs, load_plugins
from rlcore.hookspecs import HookInfo
from rlcore.plugins.manager import HookManager
from rlcore.plugins.select import selection_from
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
    options = HookManager(hookspecs).parse_hookspec_opts(hookspecs, hook.name)
    assert options is not None and bool(dict(options).get("firstresult")) == (hook.kind == "factory")
    assert re.fullmatch(GRAMMAR[hook.kind], hook.name)


# ---------------------------------------------------------------- registration

HEAD = "from rlcore import TrainerSpec, hookimpl\n"
GOOD = f"{HEAD}@hookimpl\ndef rlcore_trainers():\n    return [TrainerSpec(name='fine', target='a:b', settings='a:b')]\n"
BROKEN = yaml.safe_load((Path(__file__).parent / "data/broken_plugins.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_left_out_as_a_whole_or_fatal_if_it_was_asked_for(
    installed_plugin: InstallPlugin, name: str
) -> None:
    module = BROKEN[name]["module"]
    said = BROKEN[name]["said"]
    good = "@hookimpl\ndef rlcore_run_finished():\n    raise SystemExit('still registered')\n"
    installed_plugin("bad", "acme-bad", "0.4", HEAD + module + ("" if "syntax" in name else good))
    installed_plugin("good", "acme-good", "1.0", GOOD)
    plugins = load_plugins()
    [warning] = plugins.warnings
    assert warning.startswith("plugin 'bad' (acme-bad 0.4)")
    assert said in warning and warning.endswith("; run rlcore plugins doctor") and "\n" not in warning
    plugins.notify("rlcore_run_finished", run=None, outcome="done", error=None, results={})  # raises if registered
    assert plugins.record(TrainerSpec, "fine").name == "fine" and plugins.implemented("acme-bad/bad") == ()
    sys.modules.pop("acme_bad_bad_hooks", None)
    for asked, strict in (["bad"], False), ([], True):
        with pytest.raises(PluginError) as caught:
            load_plugins(selection_from(None, {}, asked, False), strict=strict)
        assert said in str(caught.value) and "plugin 'bad' (acme-bad 0.4)" in str(caught.value)


def test_ctrl_c_while_importing_is_not_a_broken_plugin(installed_plugin: InstallPlugin) -> None:
    installed_plugin("slow", "acme-slow", "1", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_plugins()


def test_a_requirement_that_is_absent_is_what_pip_installs(installed_plugin: InstallPlugin) -> None:
    module = HEAD + "import Acme_Base.parts\n"
    installed_plugin("top", "acme-top", "1", module, requires=["rlcore>=0.1", "acme.base>=1", "acme-far; extra == 'x'"])
    said = "No module named 'Acme_Base'; pip install acme-base, which acme-top requires; run rlcore plugins doctor"
    assert load_plugins().warnings[0].endswith(said)
    installed_plugin("top", "acme-top", "2", module.replace("Acme_Base.parts", "acme_far"), module="acme_top_2")
    plugins = load_plugins()
    assert not [each for each in plugins.warnings if "pip install" in each and "requires" in each]
    later = GOOD.replace("target='a:b'", "target='acme_base:Walker'")
    installed_plugin("later", "acme-later", "1", later, requires=["acme-base"])
    with pytest.raises(PluginError, match=r"'acme_base'; pip install acme-base, which acme-later requires$"):
        load_plugins().record(TrainerSpec, "acme-later/fine").resolve()


def test_a_requirement_that_is_absent_where_hooks_are_added_is_what_pip_installs(
    installed_plugin: InstallPlugin,
) -> None:
    module = HEAD + "@hookimpl\ndef rlcore_addhooks(manager):\n    import acme_base\n"
    installed_plugin("hooks", "acme-hooks", "1", module, requires=["acme-base"])
    said = "No module named 'acme_base'; pip install acme-base, which acme-hooks requires;"
    assert said in load_plugins().warnings[0]


def test_a_plugin_that_pluggy_refuses_half_way_leaves_nothing_behind() -> None:
    # pluggy 1.6 keeps, and calls, what it registered before it raised; 1.7 rolls back by itself.
    class HalfWay(HookManager):
        def register(self, plugin: Any, name: str | None = None) -> str | None:
            super().register(plugin, name)
            raise pluggy.PluginValidationError(plugin, "found out too late")

    manager = HalfWay(hookspecs)
    plugin = ModuleType("half")
    exec(GOOD, vars(plugin))
    said = r"plugin 'half' \(acme-half 1\) failed to register: PluginValidationError: found out too late"
    with pytest.raises(PluginError, match=said):
        manager.admit(plugin, Plugin("half", "half", "acme-half", "1"))
    assert manager.implementations("rlcore_trainers") == []
    assert manager.get_plugin("acme-half/half") is None and manager.owners == {}


def test_what_may_be_registered(plugins: Plugins) -> None:
    heard: list[Any] = []

    class Plugin:
        @hookimpl(optionalhook=True)
        def rlcore_model_exported(self, run: Any, model: str = "") -> None:
            """A hook that this rlcore lacks."""

        @hookimpl
        def rlcore_summary_written(self, step: int, behavior: str) -> None:
            heard.append((step, behavior))  # any subset of the arguments

        @property
        def rlcore_trainers(self) -> Any:
            raise AssertionError("a property of a plugin is never evaluated")

    plugins.register(Plugin(), "plugin")
    plugins.notify("rlcore_summary_written", run=None, behavior="Walker", step=7, stats={})
    assert heard == [(7, "Walker")]
    module = ModuleType("acme_imports")
    exec("from rlcore.hookspecs import rlcore_trainers\n", vars(module))  # a specification, not an implementation
    plugins.register(module, "imports")
    assert plugins.implemented("module:imports") == ()


BASE = f"""{HEAD}
from rlcore.hookspecs import hookspec
held = []
class Specs:
    @hookspec
    def rlcore_umpires(self, team): "Umpires for a team."
@hookimpl
def rlcore_addhooks(manager):
    manager.add_hookspecs(Specs)
    held.append(manager)
"""


@pytest.mark.parametrize("name", ["aaa", "zzz"])
def test_a_plugin_may_add_hooks_whatever_the_order(installed_plugin: InstallPlugin, name: str) -> None:
    base = installed_plugin("base", "acme-base", "1", BASE)
    installed_plugin(name, f"acme-{name}", "1", f"{HEAD}@hookimpl\ndef rlcore_umpires(team):\n    return team + 1\n")
    assert load_plugins().warnings == ()
    [manager] = sys.modules[base.module].held
    assert manager.hook.rlcore_umpires(team=1) == [2]


def test_a_broken_registry_of_a_plugin_that_is_only_installed_is_a_warning_of_every_command(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    installed_plugin("bad", "acme-bad", "0.4", f"{HEAD}@hookimpl\ndef rlcore_stats_writers():\n    1 / 0\n")
    (tmp_path / "c.yaml").write_text("behaviors: {B: {}}\n")
    said = (
        "warning: plugin 'bad' (acme-bad 0.4) failed in rlcore_stats_writers: ZeroDivisionError: division by zero; "
        "run rlcore plugins doctor\n"
    )
    assert run_rlcore("validate", tmp_path / "c.yaml").stderr == said
    assert run_rlcore("no-command").stderr.startswith(said)


# ---------------------------------------------------------------- deprecated hooks

SOURCE = """\
from rlcore import EnvironmentSpec, hookimpl

@hookimpl
def rlcore_environments():
    return [EnvironmentSpec(name="maze", target="a:b", summary="s")]

@hookimpl
def rlcore_lesson_changed(run):
    pass
"""
MESSAGE = "rlcore_lesson_changed is deprecated: implement rlcore_lesson_reached; rlcore 9.4 will no longer call it"


@pytest.fixture
def deprecated(monkeypatch: pytest.MonkeyPatch, installed_plugin: InstallPlugin) -> None:
    changed = tuple(
        attrs.evolve(hook, deprecated="implement rlcore_lesson_reached", removed_in="9.4")
        if hook.name == "rlcore_lesson_changed"
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
    assert "rlcore_lesson_changed" in plugins.implemented("acme-maze/maze")
    assert not [warning for warning in plugins.warnings if "maze" not in warning and "deprecated" in warning]
    config = tmp_path / "config.yaml"
    config.write_text("behaviors: {}")
    assert MESSAGE in run_rlcore("validate", config).stderr


def test_hooks_are_removed_in_the_version_that_was_announced() -> None:
    late = [hook.name for hook in HOOKS if hook.removed_in and Version(hook.removed_in) <= Version(rlcore.__version__)]
    assert late == [], "remove them"
    assert [hook.name for hook in HOOKS if (hook.deprecated is None) != (hook.removed_in is None)] == []
