"""Registration of plugins: checks before registration, all or nothing, and the same on every pluggy."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pluggy
import pytest

from rlcore import TrainerSpec, hookimpl
from rlcore.errors import PluginError
from rlcore.plugins.call import Plugins, load_plugins
from rlcore.plugins.discover import Plugin
from rlcore.plugins.manager import HookManager
from rlcore.plugins.select import selection_from
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

pytestmark = pytest.mark.smoke

HEAD = "from rlcore import TrainerSpec, hookimpl\n"
SPEC = "TrainerSpec(name='fine', target='json:loads', settings='json:loads')"
GOOD = f"{HEAD}@hookimpl\ndef rlcore_trainers():\n    return [{SPEC}]\n"

MISTAKES = {
    "misspelled hook": (
        "@hookimpl\ndef rlcore_trianers():\n    return []\n",
        "unknown hook 'rlcore_trianers'; did you mean 'rlcore_trainers'?",
    ),
    "misspelled prefix": (
        "@hookimpl\ndef rlcroe_trainers():\n    return []\n",
        "rlcroe_trainers is marked with @hookimpl but does not begin with 'rlcore_'; did you mean 'rlcore_trainers'?",
    ),
    "no marker": ("def rlcore_trainers():\n    return []\n", "rlcore_trainers is not marked with @hookimpl"),
    "unknown argument": (
        "@hookimpl\ndef rlcore_run_started(runn):\n    pass\n",
        "rlcore_run_started has no argument 'runn'; it has run; did you mean 'run'?",
    ),
    "argument of a registry": (
        "@hookimpl\ndef rlcore_trainers(config):\n    pass\n",
        "rlcore_trainers has no argument 'config'; it has none",
    ),
    "default value": (
        "@hookimpl\ndef rlcore_run_started(run=None):\n    pass\n",
        "rlcore_run_started may not give 'run' a default value",
    ),
    "keyword-only argument": ("@hookimpl\ndef rlcore_run_started(*, run):\n    pass\n", "may not take 'run'"),
    "any arguments": ("@hookimpl\ndef rlcore_run_started(**kwargs):\n    pass\n", "may not take '**kwargs'"),
    "wrapped notification": (
        "@hookimpl(wrapper=True)\ndef rlcore_run_started(run):\n    return (yield)\n",
        "rlcore_run_started is a notification hook and cannot be wrapped",
    ),
    "wrapped historic notification": (
        "@hookimpl(wrapper=True)\ndef rlcore_check_config(config):\n    return (yield)\n",
        "rlcore_check_config is an intervention hook and cannot be wrapped",
    ),
    "wrapped registry": (
        "@hookimpl(wrapper=True)\ndef rlcore_trainers():\n    return (yield)\n",
        "rlcore_trainers is a registry hook and cannot be wrapped",
    ),
    "old wrapper": (
        "@hookimpl(hookwrapper=True)\ndef rlcore_create_trainer(spec):\n    yield\n",
        "use wrapper=True",
    ),
    "import error": (
        "import a_module_that_is_absent\n",
        "ModuleNotFoundError: No module named 'a_module_that_is_absent'",
    ),
    "syntax error": ("def :\n", "SyntaxError"),
    "no return": (
        "@hookimpl\ndef rlcore_stats_writers():\n    []\n",
        "rlcore_stats_writers returned None, so its return is missing",
    ),
    "status without a reader": (
        "@hookimpl\ndef rlcore_write_status(status):\n    return True\n",
        "rlcore_write_status needs rlcore_read_status beside it",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_an_autoloaded_plugin_is_one_warning_and_nothing_of_it_stays(
    installed_plugin: InstallPlugin, mistake: str
) -> None:
    source, expected = MISTAKES[mistake]
    good = "@hookimpl\ndef rlcore_environments():\n    raise RuntimeError('half registered')\n"
    installed_plugin("bad", "acme-bad", "0.4", HEAD + good + source)
    installed_plugin("good", "acme-good", "1.0", GOOD)
    plugins = load_plugins()
    [warning] = plugins.warnings
    assert warning.startswith("plugin 'bad' (acme-bad 0.4)")
    assert expected in warning
    assert warning.endswith("; run rlcore plugins doctor")
    assert "\n" not in warning
    plugins.records("environment")  # would raise if any of it had stayed
    assert plugins.trainer("fine").name == "fine"
    assert plugins.implemented("acme-bad/bad") == ()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_same_mistake_is_fatal_in_a_plugin_that_was_asked_for(
    installed_plugin: InstallPlugin, mistake: str
) -> None:
    source, expected = MISTAKES[mistake]
    installed_plugin("bad", "acme-bad", "0.4", HEAD + source)
    with pytest.raises(PluginError) as caught:
        load_plugins(selection_from(None, {}, ["bad"], False))
    assert expected in str(caught.value)
    assert str(caught.value).startswith("plugin 'bad' (acme-bad 0.4)")


def test_strict_makes_a_merely_installed_broken_plugin_fatal(installed_plugin: InstallPlugin) -> None:
    installed_plugin("bad", "acme-bad", "0.4", "import a_module_that_is_absent\n")
    with pytest.raises(PluginError, match=r"acme-bad 0\.4"):
        load_plugins(strict=True)


def test_ctrl_c_while_importing_is_not_a_broken_plugin(installed_plugin: InstallPlugin) -> None:
    installed_plugin("slow", "acme-slow", "1", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_plugins()


def test_a_plugin_that_pluggy_refuses_half_way_leaves_nothing_behind() -> None:
    # pluggy 1.6 keeps, and calls, what it registered before it raised; 1.7 rolls back by itself.
    class HalfWay(HookManager):
        def register(self, plugin: Any, name: str | None = None) -> str | None:
            super().register(plugin, name)
            raise pluggy.PluginValidationError(plugin, "found out too late")

    manager = HalfWay()
    plugin = ModuleType("half")
    exec(GOOD, vars(plugin))
    with pytest.raises(
        PluginError,
        match=r"plugin 'half' \(acme-half 1\) failed to register: PluginValidationError: found out too late",
    ):
        manager.admit(plugin, Plugin("half", "half", "acme-half", "1"))
    assert manager.implementations("rlcore_trainers") == []
    assert manager.get_plugin("acme-half/half") is None
    assert manager.owners == {}


def test_an_optional_hook_this_rlcore_lacks_is_ignored(plugins: Plugins) -> None:
    class Newer:
        @hookimpl(optionalhook=True)
        def rlcore_model_exported(self, run: Any, model: str = "") -> None: ...

    plugins.register(Newer(), "newer")


def test_a_hook_may_take_any_subset_of_its_arguments(plugins: Plugins) -> None:
    heard: list[Any] = []

    class Subset:
        @hookimpl
        def rlcore_summary_written(self, step: int, behavior: str) -> None:
            heard.append((step, behavior))

    plugins.register(Subset(), "subset")
    plugins.summary_written(SimpleNamespace(), "Walker", 7, {})  # type: ignore[arg-type]
    assert heard == [(7, "Walker")]


def test_properties_of_a_plugin_object_are_never_evaluated(plugins: Plugins) -> None:
    class Curious:
        @property
        def rlcore_trainers(self) -> Any:
            raise AssertionError("evaluated")

    plugins.register(Curious(), "curious")


def test_a_function_imported_from_the_specifications_is_no_implementation(plugins: Plugins) -> None:
    module = ModuleType("acme_imports")
    exec("from rlcore.hookspecs import rlcore_trainers\n", vars(module))
    plugins.register(module, "imports")
    assert plugins.implemented("module:imports") == ()


# ---------------------------------------------------------------- plugins that have plugins

BASE = f"""{HEAD}
import sys
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


def test_an_added_hook_is_checked_like_any_other(installed_plugin: InstallPlugin) -> None:
    installed_plugin("base", "acme-base", "1", BASE)
    installed_plugin("user", "acme-user", "2", f"{HEAD}@hookimpl\ndef rlcore_umpires(tema):\n    pass\n")
    [warning] = load_plugins().warnings
    assert "plugin 'user' (acme-user 2): rlcore_umpires has no argument 'tema'" in warning
    assert "did you mean 'team'?" in warning


def test_an_added_hook_must_have_our_prefix(installed_plugin: InstallPlugin) -> None:
    installed_plugin("base", "acme-base", "1", BASE.replace("rlcore_umpires", "acme_umpires"))
    [warning] = load_plugins().warnings
    assert "the hook 'acme_umpires' must begin with 'rlcore_'" in warning


def test_an_error_in_addhooks_names_its_plugin(installed_plugin: InstallPlugin) -> None:
    installed_plugin("base", "acme-base", "1", f"{HEAD}@hookimpl\ndef rlcore_addhooks(manager):\n    1 / 0\n")
    [warning] = load_plugins().warnings
    assert "plugin 'base' (acme-base 1) failed in rlcore_addhooks: ZeroDivisionError" in warning


# ---------------------------------------------------------------- registries

RECORDS = {
    "raises": ("    1 / 0\n", "failed in rlcore_trainers: ZeroDivisionError: division by zero"),
    "raises late": (f"    yield {SPEC}\n    1 / 0\n", "failed in rlcore_trainers: ZeroDivisionError"),
    "not a record": ("    return ['ppo']\n", "rlcore_trainers must return TrainerSpecs, not 'ppo'"),
    "not iterable": ("    return 3\n", "failed in rlcore_trainers: TypeError"),
    "twice": (f"    return [{SPEC}, {SPEC}]\n", "returned two records named 'fine'"),
    "bad target": (
        "    return [TrainerSpec(name='x', target='no colon', settings='a:b')]\n",
        "TrainerSpec 'x': target 'no colon' must be 'package.module:Name'",
    ),
}


@pytest.mark.parametrize("case", RECORDS)
@pytest.mark.parametrize("asked", [False, True])
def test_bad_records_lose_the_whole_plugin_and_are_fatal_only_if_asked_for(
    installed_plugin: InstallPlugin, case: str, asked: bool
) -> None:
    body, expected = RECORDS[case]
    other = "@hookimpl\ndef rlcore_run_started(run):\n    raise SystemExit('still registered')\n"
    installed_plugin("bad", "acme-bad", "0.4", f"{HEAD}{other}@hookimpl\ndef rlcore_trainers():\n{body}")
    if asked:
        with pytest.raises(PluginError, match=r"plugin 'bad' \(acme-bad 0.4\)") as caught:
            load_plugins(selection_from(None, {}, ["bad"], False))
        assert expected in str(caught.value)
        return
    plugins = load_plugins()
    assert "bad" not in [record.plugin and record.plugin.name for record in plugins.records("trainer")]
    [warning] = plugins.warnings
    assert expected in warning
    plugins.run_started(SimpleNamespace())  # type: ignore[arg-type]


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
    assert asked == [1]
    assert plugins.hook_calls["rlcore_trainers"] == 1


def test_a_section_of_cores_own_cannot_be_taken(installed_plugin: InstallPlugin) -> None:
    source = (
        "from rlcore import ConfigSection, hookimpl\n@hookimpl\ndef rlcore_config_sections():\n"
        "    return [ConfigSection(name='behaviors', target='json:loads')]\n"
    )
    installed_plugin("taker", "acme-taker", "1", source)
    plugins = load_plugins()
    assert plugins.records("section") == ()
    assert "the configuration section 'behaviors' is core's own" in plugins.warnings[0]
