"""Registration of plugins: checks before registration, all or nothing, and the same on every pluggy."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pluggy
import pytest
import yaml

from rlcore import Plugin, PluginError, Plugins, TrainerSpec, hookimpl, load_plugins, selection_from
from rlcore.plugins.manager import HookManager, problems
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

pytestmark = pytest.mark.smoke

HEAD = "from rlcore import TrainerSpec, hookimpl\n"
GOOD = f"{HEAD}@hookimpl\ndef rlcore_trainers():\n    return [TrainerSpec(name='fine', target='a:b', settings='a:b')]\n"
BROKEN = yaml.safe_load((Path(__file__).parent / "data/broken_plugins.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_left_out_as_a_whole_or_fatal_if_it_was_asked_for(
    installed_plugin: InstallPlugin, name: str
) -> None:
    module, said = BROKEN[name]["module"], BROKEN[name]["said"]
    good = "@hookimpl\ndef rlcore_run_finished():\n    raise SystemExit('still registered')\n"
    installed_plugin("bad", "acme-bad", "0.4", HEAD + module + ("" if "syntax" in name else good))
    installed_plugin("good", "acme-good", "1.0", GOOD)
    plugins = load_plugins()
    [warning] = plugins.warnings
    assert warning.startswith("plugin 'bad' (acme-bad 0.4)")
    assert said in warning and warning.endswith("; run rlcore plugins doctor") and "\n" not in warning
    plugins.run_finished(SimpleNamespace(), "done", None, {})  # type: ignore[arg-type]  # raises if it is registered
    assert plugins.trainer("fine").name == "fine" and plugins.implemented("acme-bad/bad") == ()
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
        load_plugins().trainer("acme-later/fine").resolve()


def test_a_plugin_that_pluggy_refuses_half_way_leaves_nothing_behind() -> None:
    # pluggy 1.6 keeps, and calls, what it registered before it raised; 1.7 rolls back by itself.
    class HalfWay(HookManager):
        def register(self, plugin: Any, name: str | None = None) -> str | None:
            super().register(plugin, name)
            raise pluggy.PluginValidationError(plugin, "found out too late")

    manager, plugin = HalfWay(), ModuleType("half")
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
    plugins.summary_written(SimpleNamespace(), "Walker", 7, {})  # type: ignore[arg-type]
    assert heard == [(7, "Walker")]
    module = ModuleType("acme_imports")
    exec("from rlcore.hookspecs import rlcore_trainers\n", vars(module))  # a specification, not an implementation
    plugins.register(module, "imports")
    assert plugins.implemented("module:imports") == ()


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("rlcore_samplers", "unknown hook 'rlcore_samplers': no plugin that is on specifies it"),
        ("rlcore_curiculum", "unknown hook 'rlcore_curiculum'; did you mean 'rlcore_curricula'?"),
        ("rlcore_run_start", "unknown hook 'rlcore_run_start'; did you mean 'rlcore_run_started'?"),
    ],
)
def test_a_hook_of_nobody_is_called_another_only_if_it_is_like_it(hook: str, said: str) -> None:
    def implementation(self: Any) -> None: ...

    implementation.__name__ = hook
    assert problems(type("Plugin", (), {hook: hookimpl(implementation)})(), HookManager()) == [said]


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


def test_registries_are_asked_once(plugins: Plugins) -> None:
    asked: list[int] = []

    class Counting:
        @hookimpl
        def rlcore_trainers(self) -> list[TrainerSpec]:
            asked.append(1)
            return [TrainerSpec(name="a", target="a:b", settings="a:b")]

    plugins.register(Counting(), "counting")
    for _ in range(3):
        plugins.trainer("a")
    assert asked == [1] and plugins.hook_calls["rlcore_trainers"] == 1
