"""A plugin that is one file or module: where it is looked for, its siblings, and names that are taken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlcore import (
    Document,
    PluginError,
    PluginSettings,
    RewardProviderSpec,
    document_from_mapping,
    load_plugins_for,
    selection_from,
)
from rlcore.plugins.call import Plugins, load_plugins
from rlcore_devkit.fixtures import RunRlcore

HOOKS = """
from walker_parts import NAME
from rlcore import RewardProviderSpec, hookimpl

@hookimpl
def rlcore_reward_providers():
    return [RewardProviderSpec(name=NAME, target="walker_rewards:Bonus", settings="walker_rewards:Settings")]
"""


@pytest.fixture
def company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a plugin and the modules that it needs, as a company keeps them beside its configurations."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    directory = tmp_path / "company"
    directory.mkdir()
    (directory / "walker_hooks.py").write_text(HOOKS)
    (directory / "walker_parts.py").write_text("NAME = 'bonus'\n")
    (directory / "walker_rewards.py").write_text("import walker_parts\nSettings = Bonus = walker_parts\n")
    yield directory
    for name in ("walker_hooks", "walker_parts", "walker_rewards", "mine", "theirs"):
        sys.modules.pop(name, None)


def load(*references: str, config_dir: Path | None = None, local: tuple[str, ...] = ()) -> Plugins:
    config = PluginSettings(autoload=False, local=list(local))
    return load_plugins(selection_from(config, {}, references, False), config_dir=config_dir)


def test_a_local_file_imports_its_siblings_now_and_when_its_targets_are_used(company: Path) -> None:
    record = load(f"module:{company / 'walker_hooks.py'}").record(RewardProviderSpec, "walker_hooks/bonus")
    assert record.resolve().NAME == "bonus"


def test_a_sibling_hides_no_installed_module(company: Path) -> None:
    (company / "attrs.py").write_text("raise RuntimeError\n")
    (company / "walker_parts.py").write_text("import json, colorsys\nNAME = colorsys.__file__\n")
    (company / "colorsys.py").write_text("raise RuntimeError\n")
    (company / "walker_hooks.py").write_text(HOOKS.replace("name=NAME", "name='bonus'"))
    sys.modules.pop("colorsys", None)
    load(f"module:{company / 'walker_hooks.py'}")
    assert Path(sys.modules["walker_parts"].NAME).parent != company


def test_a_configuration_names_the_file_relative_to_itself(company: Path) -> None:
    data = document_from_mapping({"plugins": {"autoload": False, "local": ["./walker_hooks.py"]}}).data
    plugins = load_plugins_for(Document(str(company / "walker.yaml"), data))
    assert plugins.record(RewardProviderSpec, "bonus")
    assert ("walker_hooks", "config") in [(plugin.name, plugin.why) for plugin in plugins.loaded]


def test_looking_at_a_configuration_imports_only_files_that_the_command_line_names(
    company: Path, run_rlcore: RunRlcore
) -> None:
    file = company / "walker.yaml"
    mine = company / "mine.py"
    theirs = company / "theirs.py"
    mine.write_text("")
    theirs.write_text("raise RuntimeError\n")
    file.write_text("behaviors: {}\nplugins: {autoload: false, local: [./theirs.py, ./mine.py]}\n")
    looked = run_rlcore("validate", file, "-p", f"module:{mine}")
    warnings = [line.partition(": plugins: ")[2] for line in looked.stderr.splitlines()]
    what = "./theirs.py was not imported: looking at a configuration runs no code that it names"
    assert warnings == [f"{what}; --allow-local imports it"] and "mine" in sys.modules
    assert run_rlcore("validate", file, "--allow-local").exit_code == 4


def test_a_file_that_is_missing_or_hides_an_installed_module_is_refused(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("")
    with pytest.raises(PluginError, match="'json' is not a free module name"):
        load(local=("json.py",), config_dir=tmp_path)
    with pytest.raises(PluginError, match=r"FileNotFoundError: no file .*hooks_that_are_absent\.py"):
        load(local=("hooks_that_are_absent.py",), config_dir=tmp_path)
