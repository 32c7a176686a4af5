"""The command line: cheap to start, one line for each error, and commands that plugins add."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import pytest

from rlcore import ConfigError, EnvironmentFailed, PluginError, RlcoreError, RunStateError
from rlcore.cli import main as main_module
from rlcore.cli.options import debug_option
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

COMMAND = """
import click
from rlcore import CommandSpec, hookimpl
@hookimpl
def rlcore_commands():
    return [CommandSpec(name="audit", target="{module}:audit", summary="many runs")]
@click.command()
@click.option("--times", default=1)
def audit(times):
    click.echo("swept %d times" % times)
"""
BROKEN = "import a_module_that_is_absent\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError, 2), (EnvironmentFailed, 3), (PluginError, 4), (RunStateError, 5), (RlcoreError, 1), (KeyError, 1)],
)
def test_an_error_is_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, run_rlcore: RunRlcore, error: type[Exception], code: int
) -> None:
    @click.command()
    @debug_option
    def fail() -> None:
        raise error("what is wrong\n   and where")

    monkeypatch.setattr(main_module.rlcore, "get_command", lambda context, name: fail)
    result = run_rlcore("status")
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (code, "", 1)
    assert result.stderr.startswith("error: ")
    if issubclass(error, RlcoreError):
        assert result.stderr == "error: what is wrong and where\n"
    loud = [run_rlcore("--debug", "status"), run_rlcore("status", "--debug")]
    monkeypatch.setenv("RLCORE_DEBUG", "1")
    loud.append(run_rlcore("status"))
    for each in loud:
        assert each.exit_code == code
        assert each.stderr.startswith("Traceback (most recent call last):\n") and ", in fail\n" in each.stderr
        assert f"{os.sep}click{os.sep}" not in each.stderr
        assert each.stderr.endswith(f"\n{result.stderr}")


def test_ctrl_c_exits_with_130_and_an_exit_code_that_a_command_sets_is_kept(
    monkeypatch: pytest.MonkeyPatch, run_rlcore: RunRlcore
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    for ends, code in ((interrupt, 130), (lambda: click.get_current_context().exit(7), 7)):
        command = click.Command("status", callback=ends)
        monkeypatch.setattr(main_module.rlcore, "get_command", lambda context, name, command=command: command)
        assert run_rlcore("status").exit_code == code


def test_an_unknown_command_is_a_usage_error_with_the_nearest_name(run_rlcore: RunRlcore) -> None:
    result = run_rlcore("rnu")
    assert result.exit_code == 2
    assert "no command 'rnu'; commands: run, evaluate, export, validate, status, plugins" in result.stderr
    assert run_rlcore("train").stderr.endswith("; did you mean 'run'?\n")
    for words in (["--no-such-option"], ["plugins", "list", "--no-such-option"], ["plugins", "x"]):
        assert run_rlcore(*words).exit_code == 2
    assert result.stderr.endswith("; did you mean 'run'?\n")


def test_a_command_of_a_plugin_that_is_off_names_its_distribution(
    run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLCORE_PLUGIN_AUTOLOAD", "0")
    refused = run_rlcore("report", "cartpole")
    assert refused.exit_code == 2
    assert refused.stderr.endswith(
        "no command 'report': it is a command of rlcore-study[report]; pip install 'rlcore-study[report]', or turn "
        "the plugin on if it is installed\n"
    )
    for words in (["new", "walker", "--kind", "reward"], ["doctor"]):
        refused = run_rlcore("plugins", *words)
        assert refused.exit_code == 2 and "pip install rlcore-devkit" in refused.stderr


def test_help_and_plugins_list_work_although_every_plugin_is_broken(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore
) -> None:
    installed_plugin("broken", "acme-broken", "1", BROKEN)
    installed_plugin("twin", "acme-one", "1", BROKEN)
    installed_plugin("twin", "acme-two", "1", BROKEN)
    assert run_rlcore("--help").exit_code == 0
    listed = run_rlcore("plugins", "list", "--provides")
    assert listed.exit_code == 0
    assert "2 plugins are named 'twin'" in listed.stderr
    assert "ModuleNotFoundError" in listed.stderr
    assert "reward:extrinsic" in listed.stdout
    assert run_rlcore("plugins", "info", "broken").exit_code == 0


# ---------------------------------------------------------------- commands of plugins


def install_audit(installed_plugin: InstallPlugin, distribution: str = "acme-audit", called: str = "audit") -> None:
    module = f"{distribution.replace('-', '_')}_hooks"
    source = COMMAND.format(module=module).replace('name="audit"', f'name="{called}"')
    installed_plugin(distribution.removeprefix("acme-"), distribution, "1", source, module=module)


def test_a_plugin_may_add_commands_and_commands_of_plugins(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore
) -> None:
    install_audit(installed_plugin)
    result = run_rlcore("audit", "--times", "3")
    assert (result.exit_code, result.stdout) == (0, "swept 3 times\n")
    assert "command:audit" in run_rlcore("plugins", "list", "--provides").stdout
    install_audit(installed_plugin, "acme-inner", called="plugins swap")
    assert run_rlcore("plugins", "swap", "--times", "3").stdout == "swept 3 times\n"
    assert run_rlcore("swap").exit_code == 2
    for group, typed, meant in ((), "auditt", "audit"), (("plugins",), "swapp", "swap"), ((), "statsu", "status"):
        refused = run_rlcore(*group, typed)
        commands, nearest = refused.stderr.split("; did you mean ")  # other installed plugins add commands too
        assert refused.exit_code == 2 and nearest == f"{meant!r}?\n"
        assert f"no command '{' '.join((*group, typed))}'; commands: " in commands and f", {meant}" in commands


def test_help_lists_the_commands_of_installed_plugins_and_imports_none(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore
) -> None:
    specs = "CommandSpec(name='one', target='a:b', summary='it\\'s'), CommandSpec(\n name=\"two\", target='a:b')"
    specs += ", CommandSpec(name='plugins three', target='a:b', summary='of a group')"
    installed_plugin("acme", "acme-rl", "1", f"raise RuntimeError('imported')\nSPECS = [{specs}]\n")
    install_audit(installed_plugin, "acme-taker", called="plugins")
    install_audit(installed_plugin)
    helped = run_rlcore("--help")
    own, added = helped.stdout.split("Commands of installed plugins:\n")
    listed = [line.split(maxsplit=1) for line in added.splitlines() if line.startswith("  ") and line[2] != " "]
    assert helped.stderr == "" and ["audit", "many runs"] in listed and ["two"] in listed
    assert "plugins" in own and "plugins" not in [line[0] for line in listed]
    assert "three" not in helped.stdout
    of_group = run_rlcore("plugins", "--help").stdout.split("Commands of installed plugins:\n")[1]
    assert "  three   of a group\n" in of_group and "audit" not in of_group


@pytest.mark.parametrize("variable", [("RLCORE_PLUGINS", "no:audit"), ("RLCORE_PLUGIN_AUTOLOAD", "0")])
def test_a_command_of_a_strangers_plugin_that_is_off_says_how_to_turn_it_on(
    installed_plugin: InstallPlugin,
    run_rlcore: RunRlcore,
    monkeypatch: pytest.MonkeyPatch,
    variable: tuple[str, str],
) -> None:
    install_audit(installed_plugin)
    monkeypatch.setenv(*variable)
    refused = run_rlcore("audit")
    assert refused.exit_code == 2 and "no command 'audit'; commands: run, " in refused.stderr
    off, advice = refused.stderr.split("; turned off: ")[1].rstrip().split("; RLCORE_PLUGINS=")
    assert "plugin 'audit' (acme-audit 1)" in off
    assert advice == ("NAME turns one on" if "," in off else "audit turns it on")
    monkeypatch.setenv("RLCORE_PLUGINS", "audit")
    assert run_rlcore("audit").stdout == "swept 1 times\n"


def test_clashing_commands_are_told_apart_and_unusable_ones_reported(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore
) -> None:
    install_audit(installed_plugin, "acme-one")
    install_audit(installed_plugin, "acme-two")
    assert run_rlcore("acme-two/audit").stdout == "swept 1 times\n"
    result = run_rlcore("audit")
    assert result.exit_code == 4 and "acme-one/audit or acme-two/audit" in result.stderr
    install_audit(installed_plugin, "acme-taker", called="plugins")
    assert "acme-taker" in run_rlcore("plugins", "list").stdout
    odd = COMMAND.replace("{module}:audit", "json:loads").replace('"audit"', '"odd"')
    installed_plugin("odd", "acme-odd", "1", odd)
    result = run_rlcore("odd")
    assert result.exit_code == 4 and "json:loads is a function, not a click command" in result.stderr


# ---------------------------------------------------------------- info

TRAINER = """
from rlcore import TrainerSpec, hookimpl
@hookimpl
def rlcore_trainers():
    return [TrainerSpec(name="minute", target="json:loads", settings="rlcore.settings:RewardSettings")]
"""


def test_info_shows_hooks_records_and_settings(installed_plugin: InstallPlugin, run_rlcore: RunRlcore) -> None:
    installed = installed_plugin("tiny", "acme-tiny", "1.2", TRAINER, ["rlcore>=0.1,<0.2"])
    [report] = json.loads(run_rlcore("plugins", "info", "acme-tiny/tiny", "--json").stdout)
    shown = {"distribution": "acme-tiny", "version": "1.2", "requires": ["rlcore>=0.1,<0.2"], "editable": False}
    assert shown | {"hooks": ["rlcore_trainers"]} == {key: report[key] for key in (*shown, "hooks")}
    assert Path(report["file"]).parent == installed.directory
    [record] = report["records"]
    assert (record["kind"], record["name"], record["target"]) == ("trainer", "minute", "json:loads")
    described = "Discount factor of this reward."
    gamma = {"name": "gamma", "type": "float", "default": 0.99, "description": described}
    assert record["settings"]["fields"][0] == gamma
    assert f"gamma = 0.99  {described}" in run_rlcore("plugins", "info", "tiny").stdout
    assert json.loads(run_rlcore("plugins", "info", "minute", "--json").stdout) == [report], "the trainer's name"
    result = run_rlcore("plugins", "info", "tinny")
    assert result.exit_code == 4 and "did you mean 'tiny'?" in result.stderr
