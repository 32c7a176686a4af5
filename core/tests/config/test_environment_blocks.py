"""A class that :class:`rlcore.EnvironmentSpec` names for the environment block, and modules that the block names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from rlcore import PluginError, RunConfig, config_from_mapping
from rlcore.config.plugins_block import local_references, plugin_settings, with_modules_beside
from rlcore.config.reading import document_from_mapping, read_document
from rlcore.settings import EnvironmentSettings, setting


def test_the_class_of_a_block_must_derive_from_that_of_every_environment(
    load: Callable[..., RunConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    @attrs.frozen(kw_only=True)
    class Alone:
        walls: int = setting(1, "How many.")

    monkeypatch.setattr("fake.WalledLike", Alone)
    with pytest.raises(PluginError, match="class Alone is not of EnvironmentSettings, from which it must derive"):
        load("behaviors: {B: {}}\nenvironment: {type: walled}\n")


def test_a_type_without_a_class_has_the_settings_of_every_environment(plugins: Any) -> None:
    config = config_from_mapping({"behaviors": {"B": {}}, "environment": {"type": "grid"}}, plugins)
    assert type(config.environment) is EnvironmentSettings


# ---------------------------------------------------------------- modules beside the file


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A folder with two modules, and one that has the name of an installed module."""
    for name in ("mine_here", "wraps_here", "json"):
        (tmp_path / f"{name}.py").write_text("raise AssertionError\n")
    return tmp_path


@pytest.mark.parametrize(
    ("block", "names"),
    [
        ("environment: {id: 'mine_here:Half-v0'}", ["mine_here"]),
        ("environment: {wrappers: ['wraps_here:Half', {name: 'mine_here:Half'}, {name: 'wraps_here:A'}]}",
         ["wraps_here", "mine_here"]),
        ("evaluation: {environment: {options: {wrappers: ['mine_here:Half']}}}", ["mine_here"]),
        ("environment: {id: 'mine_here:Half-v0'}\nplugins: {local: [./mine_here.py, ./other.py]}", []),
        ("environment: {id: 'json:Half-v0', wrappers: ['absent_here:Half', TimeLimit]}", []),
        ("environment: {id: 'mine_here.inner:Half-v0', options: {note: mine_here, text: 'mine_here: Half'}}", []),
        ("environment: 3\nevaluation: {environment: [1]}", []),
        ("environment: {id: 'mine_here:Half-v0'}\nplugins: 3", None),
    ],
)  # fmt: skip
def test_a_file_beside_the_configuration_is_a_local_plugin_if_the_environment_names_it(
    beside: Path, block: str, names: list[str] | None
) -> None:
    file = beside / "config.yaml"
    file.write_text(block)
    document = read_document(file)
    before = document.data.get("plugins")
    plugins = with_modules_beside(document).data.get("plugins")
    if names is None or not names:
        assert plugins == before
    else:
        given = before["local"] if before else []
        assert plugins["local"] == [*given, *(str(beside / f"{name}.py") for name in names)]
        assert local_references(document) == tuple(plugins["local"])
    assert not {"mine_here", "wraps_here"} & sys.modules.keys()


def test_data_without_a_file_finds_modules_in_the_working_directory(
    beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(beside)
    document = document_from_mapping({"environment": {"id": "mine_here:Half-v0"}})
    assert plugin_settings(document).local == [str(beside / "mine_here.py")]
