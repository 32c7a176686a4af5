"""A plugin without the libraries of its extra is listed with what to install, and never used or imported unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlcore import ConfigError, PluginError, StatsWriterSpec, load_plugins, selection_from
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

HOOKS = """
from rlcore import CommandSpec, ConfigSection, StatsWriterSpec, hookimpl

@hookimpl
def rlcore_stats_writers():
    return [StatsWriterSpec(name="lake", target="acme:Lake", default_on=True)]
"""
REQUIRES = ("rlcore>=0.1", 'acme-client>=2; extra == "lake"', 'attrs; extra == "river"')
NEEDS = "needs acme-water[lake]; pip install 'acme-water[lake]'"


@pytest.fixture(autouse=True)
def _installed(installed_plugin: InstallPlugin) -> None:
    installed_plugin("lake", "acme-water", "1.0", "raise SystemExit('imported')", requires=REQUIRES)
    installed_plugin("river", "acme-rivers", "1.0", HOOKS.replace("lake", "river"), requires=REQUIRES)


def test_it_is_listed_with_what_to_install(run_rlcore: RunRlcore) -> None:
    listed = run_rlcore("plugins", "list", "--provides")
    assert listed.exit_code == 0 and "warning" not in listed.stderr
    (line,) = [line for line in listed.stdout.splitlines() if line.startswith("lake ")]
    assert "needs acme-water[lake]" in line
    rows = json.loads(run_rlcore("plugins", "list", "--json").stdout)["plugins"]
    states = {row["name"]: row["state"] for row in rows}
    assert states["lake"] == "needs acme-water[lake]"
    assert states["river"] == "on"  # its library is there, and the other extra of its distribution is another plugin's


def test_the_doctor_says_what_to_install(run_rlcore: RunRlcore) -> None:
    said = run_rlcore("plugins", "doctor", "lake")
    assert (said.exit_code, said.stdout.splitlines()[1:]) == (
        0,
        ["  warning: needs acme-water[lake]; nothing else of it was checked"],
    )


def test_it_is_not_used_by_default_nor_because_another_requires_its_distribution(
    installed_plugin: InstallPlugin,
) -> None:
    installed_plugin("shore", "acme-shore", "1.0", "", requires=("rlcore>=0.1", "acme-water"))
    plugins = load_plugins(selection_from(None, {}, (), False, used=("acme-water/lake",)))
    assert {"shore", "river"} <= {plugin.name for plugin in plugins.loaded}
    assert "lake" not in {plugin.name for plugin in plugins.loaded}
    assert not [line for line in plugins.warnings if "lake" in line or "shore" in line]


@pytest.mark.parametrize("name", ["lake", "acme-water/lake"])
def test_asked_for_by_a_configuration_it_says_what_to_install(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_plugins().record(StatsWriterSpec, name)
    assert str(caught.value) == f"statistics writer 'lake' {NEEDS}"


def test_asked_for_by_its_own_name_it_says_what_to_install(run_rlcore: RunRlcore) -> None:
    with pytest.raises(PluginError) as caught:
        load_plugins(selection_from(None, {}, ("lake",), False))
    assert str(caught.value) == f"plugin 'lake' (acme-water 1.0): {NEEDS}"
    said = run_rlcore("lake")
    assert said.exit_code == 2 and f"'lake' {NEEDS}" in said.stderr


def test_a_block_of_its_own_says_what_to_install(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    (tmp_path / "working/walk.yaml").write_text("behaviors: {Walker: {trainer_type: ppo}}\nlake: {depth: 3}\n")
    said = run_rlcore("validate", "walk.yaml")
    assert (said.exit_code, said.stdout) == (2, f"walk.yaml:2: lake: 'lake' {NEEDS}\n")


def test_a_distribution_that_must_be_active_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCORE_REQUIRE", "acme-water")
    with pytest.raises(PluginError, match=r"hooks are not active: plugin 'lake' .* needs acme-water"):
        load_plugins()
