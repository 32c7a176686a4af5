"""The selection of plugins that are on: precedence, references, and what is refused before anything is imported."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from rlcore.config.load import recorded
from rlcore.errors import ConfigError, PluginError
from rlcore.plugins.call import Plugins, load_plugins
from rlcore.plugins.discover import Plugin, handshake
from rlcore.plugins.select import Selection, decide, obstacles, selection_from, unmatched
from rlcore.settings import PluginSettings
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

pytestmark = pytest.mark.smoke

EMPTY = "from rlcore import hookimpl\n@hookimpl\ndef rlcore_trainers():\n    return []\n"
EXPLODES = "raise RuntimeError('imported although it is off')\n"

CORE = Plugin("core", "rlcore.plugins.core", "rlcore", "0.1.0")
PPO = Plugin("ppo", "rlcore_ppo.plugin", "rlcore-ppo", "0.1.0")
ACME = Plugin("acme", "acme.hooks", "Acme_RL", "2.0")


def verdict(plugin: Plugin, selection: Selection) -> tuple[bool, str]:
    [decided] = decide([plugin], selection)
    return decided.on, decided.why


OFF = PluginSettings(autoload=False)
ON = PluginSettings(enable=["ppo"])
WITHOUT = PluginSettings(disable=["ppo"])


@pytest.mark.parametrize(
    ("config", "environ", "dash_p", "no_plugins", "expected"),
    [
        # each line adds a source; the last one that speaks of the plugin wins
        (None, {}, (), False, (True, "autoload")),
        (OFF, {}, (), False, (False, "config")),
        (WITHOUT, {}, (), False, (False, "config")),
        (PluginSettings(autoload=False, enable=["ppo"]), {}, (), False, (True, "config")),
        (ON, {"RLCORE_PLUGIN_AUTOLOAD": "0"}, (), False, (True, "config")),
        (None, {"RLCORE_PLUGIN_AUTOLOAD": "0"}, (), False, (False, "RLCORE_PLUGIN_AUTOLOAD")),
        (OFF, {"RLCORE_PLUGIN_AUTOLOAD": "1"}, (), False, (True, "autoload")),
        (ON, {"RLCORE_PLUGINS": "no:ppo"}, (), False, (False, "RLCORE_PLUGINS")),
        (WITHOUT, {"RLCORE_PLUGINS": "other, ppo"}, (), False, (True, "RLCORE_PLUGINS")),
        (ON, {"RLCORE_PLUGINS": "ppo"}, ("no:ppo",), False, (False, "-p")),
        (WITHOUT, {"RLCORE_PLUGINS": "no:ppo"}, ("ppo",), False, (True, "-p")),
        (ON, {"RLCORE_PLUGINS": "ppo"}, (), True, (False, "-p")),
        (None, {}, ("ppo",), True, (True, "-p")),
        (None, {}, ("ppo", "no:ppo"), False, (False, "-p")),
        (None, {}, ("no:ppo", "ppo"), False, (True, "-p")),
        (None, {}, ("no:rlcore-ppo/ppo",), False, (False, "-p")),
        (None, {}, ("no:other/ppo",), False, (True, "autoload")),
    ],
)
def test_the_last_source_that_names_a_plugin_wins(
    config: PluginSettings | None,
    environ: dict[str, str],
    dash_p: tuple[str, ...],
    no_plugins: bool,
    expected: tuple[bool, str],
) -> None:
    assert verdict(PPO, selection_from(config, environ, dash_p, no_plugins)) == expected


def test_distribution_names_compare_as_pip_compares_them() -> None:
    assert verdict(ACME, selection_from(None, {}, ["no:acme-rl/acme"], False)) == (False, "-p")


def test_a_record_named_by_distribution_loads_that_distribution_though_autoload_is_off() -> None:
    selection = selection_from(OFF, {}, [], False, used=["acme-rl/anything", "ppo"])
    assert verdict(ACME, selection) == (True, "config")
    assert verdict(PPO, selection) == (False, "config")


def test_a_distribution_that_a_configuration_names_and_that_is_absent_is_no_obstacle() -> None:
    selection = selection_from(None, {}, [], False, used=["absent/ppo"])
    assert obstacles(decide([PPO], selection), selection) == ()


CLASHING = """
from rlcore import TrainerSpec, hookimpl
class T: ...
@hookimpl
def rlcore_trainers():
    yield TrainerSpec(name="twin", target="acme_clashing:T", settings="rlcore_torch:NetworkSettings")
"""


def test_the_advice_about_a_clash_with_a_local_plugin_can_be_followed(
    run_rlcore: RunRlcore, tmp_path: Path, installed_plugin: InstallPlugin
) -> None:
    installed_plugin("other", "other-rl", "1.0", CLASHING)
    (tmp_path / "acme_clashing.py").write_text(CLASHING)
    config = tmp_path / "c.yaml"
    text = "behaviors:\n  B: {trainer_type: %s}\nplugins: {local: [./acme_clashing.py]}\n"
    config.write_text(text % "twin")
    refused = run_rlcore("validate", "--allow-local", config)
    assert refused.exit_code == 4
    assert "write trainer_type: acme_clashing/twin or other-rl/twin" in refused.stderr
    config.write_text(text % "acme_clashing/twin")
    assert run_rlcore("validate", "--allow-local", config).exit_code == 0


def test_no_plugins_leaves_core_on() -> None:
    assert verdict(CORE, selection_from(None, {}, [], True)) == (True, "autoload")


def test_core_cannot_be_turned_off() -> None:
    selection = selection_from(None, {}, ["no:core"], False)
    [obstacle] = obstacles(decide([CORE], selection), selection)
    assert "cannot be turned off" in obstacle.message
    assert [plugin.label for plugin in obstacle.plugins] == ["rlcore/core"]


def test_turning_off_what_is_not_installed_is_a_warning() -> None:
    selection = selection_from(None, {}, ["no:absent"], False)
    assert obstacles(decide([PPO], selection), selection) == ()
    assert unmatched([PPO], selection) == ("plugin 'absent' (turned off by -p) is not installed",)


@pytest.mark.parametrize(
    ("config", "environ", "dash_p", "why"),
    [
        (PluginSettings(disable=["poo"]), {}, [], "config"),
        (None, {"RLCORE_PLUGINS": "no:poo"}, [], "RLCORE_PLUGINS"),
        (None, {}, ["no:poo", "no:poo"], "-p"),
    ],
)
def test_turning_off_a_misspelled_name_warns_once_with_the_nearest(
    config: PluginSettings | None, environ: dict[str, str], dash_p: list[str], why: str
) -> None:
    selection = selection_from(config, environ, dash_p, False)
    expected = f"plugin 'poo' (turned off by {why}) is not installed; did you mean 'ppo'?"
    assert unmatched([PPO, ACME], selection) == (expected,)


@pytest.mark.parametrize(
    ("config", "dash_p"),
    [
        (PluginSettings(disable=["ppo"]), []),
        (PluginSettings(disable=["rlcore-ppo/ppo", "acme-rl/acme"]), []),
        (PluginSettings(enable=["absent"]), ["no:absent"]),
        (PluginSettings(local=["./x.py"]), ["no:module:./x.py"]),
        (PluginSettings(disable=["module:./x.py"]), []),
    ],
)
def test_turning_off_what_exists_or_was_asked_for_gives_no_warning(config: PluginSettings, dash_p: list[str]) -> None:
    assert unmatched([PPO, ACME], selection_from(config, {}, dash_p, False)) == ()


@pytest.mark.parametrize("command", ["plugins list", "validate"])
def test_a_misspelled_name_to_turn_off_is_shown(
    run_rlcore: RunRlcore, tmp_path: Path, installed_plugin: InstallPlugin, command: str
) -> None:
    installed_plugin("tracing", "acme-tracing", "1.0", EMPTY)
    config = tmp_path / "c.yaml"
    config.write_text("behaviors: {B: {trainer_type: ppo}}\n")
    arguments = [*command.split(), *([config] if command == "validate" else [])]
    warning = "warning: plugin 'trasing' (turned off by -p) is not installed; did you mean 'tracing'?"
    assert run_rlcore(*arguments, "-p", "no:trasing").stderr.splitlines().count(warning) == 1
    assert "warning: plugin" not in run_rlcore(*arguments, "-p", "no:tracing").stderr


@pytest.mark.parametrize(
    ("config", "environ", "dash_p", "why"),
    [
        (PluginSettings(enable=["poo"]), {}, [], "config"),
        (None, {"RLCORE_PLUGINS": "poo"}, [], "RLCORE_PLUGINS"),
        (None, {}, ["poo"], "-p"),
    ],
)
def test_asking_for_what_is_not_installed_names_the_nearest(
    config: PluginSettings | None, environ: dict[str, str], dash_p: list[str], why: str
) -> None:
    selection = selection_from(config, environ, dash_p, False)
    [obstacle] = obstacles(decide([PPO], selection), selection)
    assert obstacle.message == f"plugin 'poo' (asked for by {why}) is not installed; did you mean 'ppo'?"


def test_a_missing_plugin_that_a_later_source_turns_off_is_not_missed() -> None:
    selection = selection_from(PluginSettings(enable=["absent"]), {}, ["no:absent"], False)
    assert obstacles(decide([PPO], selection), selection) == ()


def test_a_module_is_never_imported_because_of_a_typo() -> None:
    with pytest.raises(ConfigError, match=r"'acme\.hooks' is not a plugin: write .* module:acme\.hooks"):
        selection_from(None, {}, ["acme.hooks"], False)


@pytest.mark.parametrize("text", ["", "no:", "a/b/c", "module:", "Ppo", "no:no:x"])
def test_malformed_references_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a plugin"):
        selection_from(None, {}, [text], False)


def test_the_autoload_switch_takes_0_and_1_only() -> None:
    with pytest.raises(ConfigError, match="must be 0 or 1, not 'maybe'"):
        selection_from(None, {"RLCORE_PLUGIN_AUTOLOAD": "maybe"}, [], False)


def test_enable_and_disable_may_not_contradict() -> None:
    with pytest.raises(ConfigError, match=r"^plugins\.disable\[0\]: 'ppo' is in both enable and disable$"):
        selection_from(PluginSettings(enable=["ppo"], disable=["ppo"]), {}, [], False)


def test_a_selection_travels_to_worker_processes() -> None:
    selection = selection_from(ON, {"RLCORE_PLUGINS": "no:x"}, ["module:acme.hooks"], False)
    assert pickle.loads(pickle.dumps(selection)) == selection
    assert (selection.enable, selection.disable, selection.local) == (("ppo",), ("x",), ("module:acme.hooks",))


def test_a_plugin_that_is_off_is_never_imported(installed_plugin: InstallPlugin) -> None:
    installed_plugin("boom", "acme-boom", "0.4", EXPLODES)
    loaded = load_plugins(selection_from(None, {}, ["no:boom"], False), strict=True).loaded
    assert "boom" not in [plugin.name for plugin in loaded]


def test_two_distributions_with_one_plugin_name_refuse_to_start(installed_plugin: InstallPlugin) -> None:
    installed_plugin("twin", "acme-one", "1.0", EXPLODES)
    installed_plugin("twin", "acme-two", "2.0", EXPLODES)
    with pytest.raises(PluginError) as caught:
        load_plugins()
    assert str(caught.value) == (
        "2 plugins are named 'twin': acme-one/twin (1.0, acme_one_twin_hooks) and acme-two/twin (2.0, "
        "acme_two_twin_hooks); turn one off, for example with -p no:acme-one/twin or -p no:acme-two/twin"
    )


def test_a_clash_is_resolved_by_turning_one_off(installed_plugin: InstallPlugin) -> None:
    installed_plugin("twin", "acme-one", "1.0", EXPLODES)
    installed_plugin("twin", "acme-two", "2.0", EMPTY)
    plugins = load_plugins(selection_from(None, {}, ["no:acme-one/twin"], False), strict=True)
    assert "acme-two/twin" in [plugin.label for plugin in plugins.loaded]


def test_a_distribution_that_is_there_twice_and_one_without_its_module_are_reported(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore
) -> None:
    for version in ("1.0", "1.0", "2.0"):  # the last is the first on the path
        installed = installed_plugin("twice", "acme-twice", version, EMPTY, module="acme_twice")
    (installed.directory / "acme_twice.py").touch()
    (installed_plugin("gone", "acme-gone", "1", EMPTY).directory / "acme_gone_gone_hooks.py").unlink()
    twice = (
        "plugin 'twice' (acme-twice 2.0): acme-twice 1.0 is on the path too, and Python uses the first that it finds; "
        "pip uninstall acme-twice until one is left"
    )
    gone = "plugin 'gone' (acme-gone 1): acme-gone 1 has no module 'acme_gone_gone_hooks', which its entry point names"
    warnings = load_plugins().warnings
    assert any(each.startswith(gone) for each in warnings) and twice in warnings
    listed = run_rlcore("plugins", "list")
    assert f"warning: {twice}\n" in listed.stderr and gone in listed.stderr
    assert re.search(r"^gone +acme-gone 1 +refused ", listed.stdout, re.MULTILINE)


HEAVY_NEEDS = ["rlcore>=0.1,<0.2", "Acme_Base>=1", "acme-far; python_version<'3'", "acme-extra; extra == 'more'"]


@pytest.fixture
def chain(installed_plugin: InstallPlugin) -> None:
    """``top`` requires ``base``, which requires ``ground``; two more are only required elsewhere, or by an extra."""
    installed_plugin("top", "acme-top", "1", EMPTY, requires=HEAVY_NEEDS)
    installed_plugin("base", "acme-base", "1", EMPTY, requires=["acme_ground", "rlcore>=0.1,<0.2"])
    for name in ("ground", "far", "extra"):
        installed_plugin(name, f"acme-{name}", "1", EMPTY)


@pytest.mark.usefixtures("chain")
@pytest.mark.parametrize(
    "selection",
    [
        selection_from(None, {}, ["top"], True),
        selection_from(PluginSettings(autoload=False, enable=["top"]), {}, [], False),
        selection_from(None, {"RLCORE_PLUGIN_AUTOLOAD": "0", "RLCORE_PLUGINS": "top"}, [], False),
        selection_from(None, {"RLCORE_PLUGIN_AUTOLOAD": "0"}, [], False, used=["acme-top/trainer"]),
    ],
)
def test_a_plugin_turns_on_the_plugins_of_the_distributions_that_it_requires(selection: Selection) -> None:
    on = {plugin.name: plugin.because for plugin in load_plugins(selection).loaded}
    assert on.keys() == {"core", "top", "base", "ground"}
    assert on["base"] == "required by acme-top/top"
    assert on["ground"] == "required by acme-base/base"


@pytest.mark.usefixtures("chain")
def test_a_required_plugin_that_is_blocked_by_name_is_an_error_that_names_both() -> None:
    message = (
        "plugin 'top' (acme-top 1): requires plugin 'base' (acme-base 1), which -p turns off; "
        "turn it on, or turn 'top' off"
    )
    with pytest.raises(PluginError, match=re.escape(message)):
        load_plugins(selection_from(None, {}, ["top", "no:base"], False))
    plugins = load_plugins(selection_from(None, {}, ["no:base"], False))  # merely autoloaded: left out with a warning
    assert message in plugins.warnings[0]


@pytest.mark.usefixtures("chain")
def test_info_and_doctor_say_what_requires_a_plugin(run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "why:          autoload; required by acme-top/top\n" in run_rlcore("plugins", "info", "base").stdout
    monkeypatch.setenv("RLCORE_PLUGIN_AUTOLOAD", "0")
    monkeypatch.setenv("RLCORE_PLUGINS", "top")
    assert "on: required by acme-top/top\n" in run_rlcore("plugins", "doctor", "base").stdout


def test_what_cannot_be_imported_is_refused_where_it_is_imported(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore
) -> None:
    installed_plugin("bad", "acme-bad", "1", EXPLODES)
    assert re.search(r"^bad +acme-bad 1 +refused ", run_rlcore("plugins", "list", "--provides").stdout, re.MULTILINE)


@pytest.mark.parametrize("asked", [False, True])
def test_a_plugin_for_another_rlcore_is_refused_before_import(installed_plugin: InstallPlugin, asked: bool) -> None:
    installed_plugin("old", "acme-old", "3.2", EXPLODES, requires=["numpy", "rlcore[torch] >=0.0.1,<0.1"])
    expected = "acme-old 3.2 needs rlcore<0.1,>=0.0.1, this is rlcore 0.1.0; pip install -U acme-old"
    selection = selection_from(None, {}, ["old"] if asked else [], False)
    if asked:
        with pytest.raises(PluginError) as caught:
            load_plugins(selection)
        assert expected in str(caught.value)
        assert caught.value.exit_code == 4
    else:
        [warning] = load_plugins(selection).warnings
        assert warning == f"plugin 'old' (acme-old 3.2): {expected}; run rlcore plugins doctor"


@pytest.mark.parametrize(
    ("requires", "upgrade"),
    [
        ("rlcore>=0.2", "'rlcore>=0.2'"),
        ("rlcore>0.1", "'rlcore>0.1'"),
        ("rlcore>=0.2,<0.3", "'rlcore<0.3,>=0.2'"),
        ("rlcore~=0.2.0", "'rlcore~=0.2.0'"),
        ("rlcore==0.2.*", "'rlcore==0.2.*'"),
        ("rlcore==0.2", "'rlcore==0.2'"),
        ("rlcore<0.1", "acme-old"),
        ("rlcore<0.1.0.0", "acme-old"),
        ("rlcore>=0.1.0.1", "'rlcore>=0.1.0.1'"),
        ("rlcore>=0.0.1,<0.1", "acme-old"),
        ("rlcore==0.0.*", "acme-old"),
        ("rlcore~=0.0.5", "acme-old"),
        ("rlcore!=0.1.0", "acme-old"),
        ("rlcore===0.0.9", "acme-old"),
    ],
)
def test_the_advice_is_to_upgrade_what_is_too_old(requires: str, upgrade: str) -> None:
    problem = handshake(Plugin("old", "old", "acme-old", "3.2", (requires,)), "0.1.0")
    assert problem is not None and problem.endswith(f", this is rlcore 0.1.0; pip install -U {upgrade}")


@pytest.mark.parametrize(
    "requires",
    [
        [],
        ["rlcore-extras<0.0.1"],
        ["rlcore<0.0.1; extra == 'x'"],
        ["rlcore<0.0.1; python_version < '3'"],
        ["RLCore>=0.1"],
        ["rlcore<0.2,>=0.1"],
        ["rlcore<0.10,>=0.1.0.0"],
    ],
)
def test_only_requirements_that_hold_here_and_mean_rlcore_count(
    installed_plugin: InstallPlugin, requires: list[str]
) -> None:
    installed_plugin("fits", "acme-fits", "1", EMPTY, requires=requires)
    assert load_plugins().warnings == ()


def test_an_unreadable_requirement_is_refused(installed_plugin: InstallPlugin) -> None:
    installed_plugin("odd", "acme-odd", "1", EXPLODES, requires=["rlcore >=>= 1"])
    assert "unreadable requirement" in load_plugins().warnings[0]


def test_a_damaged_distribution_is_one_warning(installed_plugin: InstallPlugin) -> None:
    installed = installed_plugin("broken", "acme-broken", "1", EXPLODES)
    next(installed.directory.glob("*.dist-info/METADATA")).unlink()
    plugins = load_plugins()
    assert len(plugins.warnings) == 1
    assert "'broken'" in plugins.warnings[0]


def test_an_unreadable_entry_point_file_costs_only_its_own_plugin(installed_plugin: InstallPlugin) -> None:
    installed = installed_plugin("broken", "acme-broken", "1", EXPLODES)
    next(installed.directory.glob("*.dist-info/entry_points.txt")).write_text("[rlcore]\nno equals sign\n")
    assert "core" in [plugin.name for plugin in load_plugins().loaded]


def test_an_entry_point_that_references_cannot_name_is_refused(installed_plugin: InstallPlugin) -> None:
    installed_plugin("Big_Name", "acme-big", "1", EXPLODES)
    assert "must match [a-z][a-z0-9-]*" in load_plugins().warnings[0]


def test_plugins_are_sorted_whatever_order_they_are_found_in(installed_plugin: InstallPlugin) -> None:
    for name in ("zeta", "alpha", "mid"):
        installed_plugin(name, f"acme-{name}", "1", EMPTY)
    names = [plugin.name for plugin in load_plugins().loaded]
    assert names == sorted(names)


def test_a_module_may_be_asked_for_without_being_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_local_module.py").write_text(EMPTY)
    monkeypatch.syspath_prepend(tmp_path)
    plugins = load_plugins(selection_from(None, {}, ["module:acme_local_module"], True))
    assert [(plugin.label, plugin.why) for plugin in plugins.loaded if plugin.name != "core"] == [
        ("module:acme_local_module", "-p")
    ]


def test_a_local_file_is_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "acme_local_rewards.py").write_text(
        "from rlcore import TrainerSpec, hookimpl\nclass T: ...\n@hookimpl\ndef rlcore_trainers():\n"
        "    yield TrainerSpec(name='mine', target='acme_local_rewards:T', settings='acme_local_rewards:T')\n"
    )
    config = PluginSettings(autoload=False, local=["./acme_local_rewards.py"])
    plugins = load_plugins(selection_from(config, {}, [], False), config_dir=tmp_path)
    assert plugins.trainer("mine").resolve().__name__ == "T"
    assert plugins.trainer("acme_local_rewards/mine").name == "mine"
    assert ("acme_local_rewards", "config") in [(plugin.name, plugin.why) for plugin in plugins.loaded]


def test_a_local_file_named_twice_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_named_twice.py").write_text(EMPTY)
    monkeypatch.chdir(tmp_path)
    config = PluginSettings(local=[str(tmp_path / "acme_named_twice.py")])
    plugins = load_plugins(selection_from(config, {}, ["module:./acme_named_twice.py"], False))
    assert [(plugin.name, plugin.why) for plugin in plugins.loaded if not plugin.distribution] == [
        ("acme_named_twice", "-p")
    ]


# ---------------------------------------------------------------- what a run writes down


def written_down(
    config: PluginSettings | None, environ: dict[str, str], dash_p: list[str], no_plugins: bool = False
) -> tuple[PluginSettings, Plugins]:
    """The ``plugins`` block of the resolved configuration, and the plugins it was made from."""
    plugins = load_plugins(selection_from(config, environ, dash_p, no_plugins))
    return recorded(config or PluginSettings(), None, plugins), plugins


@pytest.mark.parametrize(
    ("config", "environ", "dash_p", "no_plugins"),
    [
        (None, {}, ["no:one", "no:acme-one/twin"], False),
        (None, {"RLCORE_PLUGINS": "no:twin,acme-two/twin,no:absent"}, [], False),
        (PluginSettings(disable=["twin"]), {}, ["acme-two/twin"], False),
        (PluginSettings(enable=["acme-one/twin", "one"], disable=["acme-two/twin"]), {}, ["no:one"], False),
        (PluginSettings(disable=["twin"]), {"RLCORE_PLUGIN_AUTOLOAD": "0"}, ["one"], False),
        (PluginSettings(enable=["one"], disable=["twin"]), {}, [], True),
        (PluginSettings(disable=["twin"]), {}, ["module:acme_beside"], True),
        (PluginSettings(disable=["twin"], local=["acme_beside"]), {}, ["no:module:acme_beside"], False),
        (PluginSettings(autoload=False, enable=["one"]), {}, [], False),
    ],
)
def test_what_a_run_writes_down_chooses_the_same_plugins_without_environment_and_options(
    installed_plugin: InstallPlugin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: PluginSettings | None,
    environ: dict[str, str],
    dash_p: list[str],
    no_plugins: bool,
) -> None:
    installed_plugin("twin", "acme-one", "1.0", EMPTY)
    installed_plugin("twin", "acme-two", "2.0", EMPTY)
    installed_plugin("one", "acme-three", "2.0", EMPTY)
    (tmp_path / "acme_beside.py").write_text(EMPTY)
    monkeypatch.syspath_prepend(tmp_path)
    settings, plugins = written_down(config, environ, dash_p, no_plugins)
    again = load_plugins(selection_from(settings, {}, [], False))
    assert {plugin.label for plugin in again.loaded} == {plugin.label for plugin in plugins.loaded}
    assert recorded(settings, None, again) == settings


def test_a_block_that_nothing_overrules_is_written_down_as_it_is(installed_plugin: InstallPlugin) -> None:
    installed_plugin("other", "other-rl", "1.0", EMPTY)
    config = PluginSettings(enable=["other"], disable=["absent"])
    assert written_down(config, {}, [])[0] == config


def test_a_local_file_may_not_hide_an_installed_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(EMPTY)
    config = PluginSettings(local=["json.py"])
    with pytest.raises(PluginError, match="'json' is not a free module name"):
        load_plugins(selection_from(config, {}, [], False), config_dir=tmp_path)


def test_a_local_file_that_is_missing_is_named(tmp_path: Path) -> None:
    config = PluginSettings(local=["hooks_that_are_absent.py"])
    with pytest.raises(PluginError, match=r"FileNotFoundError: no file .*hooks_that_are_absent\.py"):
        load_plugins(selection_from(config, {}, [], False), config_dir=tmp_path)


def test_list_shows_state_and_reason_without_importing(installed_plugin: InstallPlugin, run_rlcore: RunRlcore) -> None:
    installed_plugin("boom", "acme-boom", "0.4", EXPLODES)
    installed_plugin("old", "acme-old", "3.2", EXPLODES, requires=["rlcore<0.1"])
    result = run_rlcore("plugins", "list", "-p", "no:boom")
    assert result.exit_code == 0
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines()}
    assert rows["boom"][1:] == ["acme-boom", "0.4", "off", "-p"]
    assert rows["old"][1:] == ["acme-old", "3.2", "refused", "autoload"]
    assert "pip install -U acme-old" in result.stderr
