"""A file that names something of a plugin that is off or broken: the error names the plugin, and how to turn it on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

ACME = """
import attrs
from rlcore import BehaviorSection, ConfigSection, EnvironmentSpec, RewardProviderSpec, StatsWriterSpec, TrainerSpec
from rlcore import hookimpl
from rlcore.settings import RewardSettings, setting

@attrs.frozen(kw_only=True)
class Tracker:
    token: str = setting(description="Who reports.")
    port: int = setting(80, "Where to.", minimum=1)

@hookimpl
def rlcore_trainers():
    return [TrainerSpec(name="walker", target="a:b", settings="rlcore.settings:EnvSettings")]

@hookimpl
def rlcore_reward_providers():
    return [RewardProviderSpec(name="bonus", target="a:b", settings="rlcore.settings:RewardSettings")]

@hookimpl
def rlcore_stats_writers():
    return [StatsWriterSpec(name="tracker", target="a:b")]

@hookimpl
def rlcore_environments():
    return [EnvironmentSpec(name="hall", target="a:b")]

@hookimpl
def rlcore_config_sections():
    return [
        ConfigSection(name="acme_tracker", target="acme_rl_acme_hooks:Tracker", summary="Where reports go."),
        BehaviorSection(name="coach", target="acme_rl_acme_hooks:Tracker", summary="Who trains."),
    ]
"""
FILE = """\
behaviors:
  B: {trainer_type: walker, reward_signals: {bonus: {}}, coach: {token: me}}
environment: {type: hall}
stats: {tracker: {}}
acme_tracker: {token: me}
"""
OFF = "turned off: plugin 'acme' (acme-rl 1.0); -p acme turns it on"
PLACES = (
    "2: behaviors.B.trainer_type: unknown trainer 'walker'",
    "2: behaviors.B.reward_signals.bonus: unknown reward provider 'bonus'",
    "2: behaviors.B.coach: unknown key",
    "3: environment.type: unknown environment 'hall'",
    "4: stats.tracker: unknown statistics writer 'tracker'",
    "5: acme_tracker: unknown key",
)


@pytest.fixture
def file(installed_plugin: InstallPlugin, tmp_path: Path) -> Path:
    """A file that names everything of the plugin ``acme``, which is installed."""
    installed_plugin("acme", "acme-rl", "1.0", ACME)
    path = tmp_path / "acme.yaml"
    path.write_text(FILE)
    return path


def test_the_file_is_valid_while_the_plugin_is_on(file: Path, run_rlcore: RunRlcore) -> None:
    assert run_rlcore("validate", file).stdout == f"{file}: valid\n"


@pytest.mark.parametrize("how", [["-p", "no:acme"], ["-p", "no:acme-rl/acme"], ["--no-plugins"]])
def test_a_plugin_that_is_off_is_named_once_after_all_that_is_unknown(
    file: Path, run_rlcore: RunRlcore, how: list[str]
) -> None:
    checked = run_rlcore("validate", file, *how)
    assert checked.exit_code == 2
    lines = checked.stdout.splitlines()
    assert all(line.startswith(f"{file}:{place}") for line, place in zip(lines, PLACES, strict=True))
    assert "plugin 'acme' (acme-rl 1.0)" in lines[-1].partition("; turned off: ")[2]
    if "--no-plugins" not in how:
        assert lines[-1].endswith(f"; {OFF}") and checked.stdout.count(OFF) == 1
    errors = json.loads(run_rlcore("validate", file, *how, "--json").stdout)["errors"]
    assert all("plugin 'acme' (acme-rl 1.0)" in error["message"] for error in errors), "each by itself says it"
    assert run_rlcore("validate", file, *how, "-p", "acme").exit_code == 0


def test_a_key_of_a_plugin_that_is_broken_names_the_reason(
    file: Path, installed_plugin: InstallPlugin, run_rlcore: RunRlcore
) -> None:
    file.write_text("behaviors:\n  B: {trainer_type: walker}\nacme_tracker: {token: me}\nother: {}\n")
    installed_plugin("other", "other-rl", "2.0", "import a_module_that_is_absent\n")
    (line,) = run_rlcore("validate", file).stdout.splitlines()
    assert "other: unknown key" in line and "plugin 'other' (other-rl 2.0) failed to load: ModuleNotFoundError" in line
    strict = run_rlcore("validate", file, "--strict-plugins")
    assert strict.exit_code == 4 and "plugin 'other' (other-rl 2.0) failed to load" in strict.stderr


def test_a_mistake_in_a_section_names_its_plugin(file: Path, run_rlcore: RunRlcore) -> None:
    file.write_text(FILE.replace("acme_tracker: {token: me}", "acme_tracker: {port: 0, prot: 1}"))
    assert run_rlcore("validate", file).stdout.splitlines() == [
        f"{file}:5: acme_tracker.prot: unknown key; did you mean 'port'? (allowed: token, port); "
        "section of plugin 'acme' (acme-rl 1.0)",
        f"{file}:5: acme_tracker.token: missing; it has no default; section of plugin 'acme' (acme-rl 1.0)",
        f"{file}:5: acme_tracker.port: must be at least 1, not 0; section of plugin 'acme' (acme-rl 1.0)",
    ]


@pytest.mark.parametrize(
    ("left_out", "claimed"),
    [
        ("BehaviorSection(name", "configuration section 'acme_tracker'"),
        ("ConfigSection(name", "block of a behavior 'coach'"),
    ],
)
def test_two_plugins_with_one_section_are_an_error_of_a_run(
    file: Path, installed_plugin: InstallPlugin, run_rlcore: RunRlcore, left_out: str, claimed: str
) -> None:
    file.write_text("behaviors:\n  B: {trainer_type: walker, coach: {token: me}}\nacme_tracker: {token: me}\n")
    twin = "\n".join(line for line in ACME.splitlines() if left_out not in line)
    installed_plugin("twin", "acme-twin", "1.0", twin.replace("walker", "runner"))
    said = (
        f"{claimed} is provided by plugin 'acme' (acme-rl 1.0) and plugin 'twin' (acme-twin 1.0); "
        "turn one of them off with -p no:acme-rl/acme or -p no:acme-twin/twin"
    )
    refused = run_rlcore("validate", file)
    assert refused.exit_code == 4 and refused.stderr.startswith("error: ") and refused.stderr.endswith(f"{said}\n")
    assert (f"{file}:2: behaviors.B.coach: " in refused.stderr) == ("coach" in claimed)
    assert run_rlcore("validate", file, "-p", "no:twin").exit_code == 0
    file.write_text("behaviors:\n  B: {trainer_type: walker}\nacme_tracker: {token: me}\n")
    assert run_rlcore("validate", file).exit_code == (0 if "coach" in claimed else 4), "unless it is not used"
