"""A plugin that is one file: its siblings, and names that are taken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlcore.config.document import Document
from rlcore.config.load import load_plugins_for
from rlcore.config.reading import document_from_mapping
from rlcore.plugins.call import Plugins, load_plugins
from rlcore.plugins.discover import LOCAL_PREFIX
from rlcore.plugins.select import Choice, Selection
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
    for name in ("walker_hooks", "walker_parts", "walker_rewards"):
        sys.modules.pop(name, None)


def loaded(path: Path) -> Plugins:
    return load_plugins(Selection(autoload=False, choices=(Choice(f"{LOCAL_PREFIX}{path}", True, "-p"),)))


def test_a_local_file_imports_its_siblings_now_and_when_its_targets_are_used(company: Path) -> None:
    record = loaded(company / "walker_hooks.py").reward_provider("bonus")
    assert record.resolve().NAME == "bonus"


def test_a_sibling_hides_no_installed_module(company: Path) -> None:
    (company / "attrs.py").write_text("raise RuntimeError\n")
    (company / "walker_parts.py").write_text("import json, colorsys\nNAME = colorsys.__file__\n")
    (company / "colorsys.py").write_text("raise RuntimeError\n")
    (company / "walker_hooks.py").write_text(HOOKS.replace("name=NAME", "name='bonus'"))
    sys.modules.pop("colorsys", None)
    loaded(company / "walker_hooks.py")
    assert Path(sys.modules["walker_parts"].NAME).parent != company


def test_the_directory_is_added_once(company: Path) -> None:
    before = [*sys.path]
    for _ in range(2):
        loaded(company / "walker_hooks.py")
        sys.modules.pop("walker_hooks")
    assert sys.path == [*before, str(company)]


def test_a_configuration_names_the_file_relative_to_itself(company: Path) -> None:
    data = document_from_mapping({"plugins": {"autoload": False, "local": ["./walker_hooks.py"]}}).data
    plugins = load_plugins_for(Document(str(company / "walker.yaml"), data))
    assert plugins.reward_provider("bonus")


@pytest.mark.xdist_group("local plugins of one name")
@pytest.mark.parametrize("reward", ["first", "second"])
def test_one_test_does_not_see_the_local_plugin_of_another(reward: str, tmp_path: Path, run_rlcore: RunRlcore) -> None:
    (tmp_path / "working" / "same_hooks.py").write_text(
        HOOKS.replace("from walker_parts import NAME", f"NAME = '{reward}'")
    )
    listed = run_rlcore("plugins", "list", "--provides", "-p", "module:same_hooks.py")
    assert (listed.exit_code, listed.stderr) == (0, "")
    assert f"reward:{reward}" in listed.stdout.split()
