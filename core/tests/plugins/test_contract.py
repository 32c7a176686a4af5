"""The contract between rlcore and plugins: its number is compared before imports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import CONTRACT, PluginError, load_plugins, selection_from
from rlcore.plugins.contract import KEYWORD, declared
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

NONE = "from rlcore import hookimpl\n@hookimpl\ndef rlcore_trainers():\n    return []\n"
EXPLODES = "raise RuntimeError('imported before it was refused')\n"
KEYWORDS = yaml.safe_load((Path(__file__).parent / "data/keywords.yaml").read_text(encoding="utf-8"))


HAS = f"rlcore has contract {CONTRACT}"
PORT = "pip install -U acme-old, or port it: the page 'Porting a plugin' has the steps"


@pytest.mark.parametrize(
    ("keyword", "of"),
    [
        ("rlcore-contract-3", f"rlcore before 0.1, and this {HAS}; {PORT}"),
        (f"{KEYWORD}{CONTRACT + 1}", f"contract {CONTRACT + 1} of rlcore, and this {HAS}; pip install -U rlcore"),
    ],
)
def test_a_plugin_of_another_contract_is_refused_before_import(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore, keyword: str, of: str
) -> None:
    installed = installed_plugin("old", "acme-old", "3.2", EXPLODES, contract=None)
    with (installed.directory / "acme_old-3.2.dist-info/METADATA").open("a", encoding="utf-8") as metadata:
        metadata.write(f"Keywords: rlcore-plugin,{keyword}\n")
    expected = f"plugin 'old' (acme-old 3.2): acme-old 3.2 is written for {of}"
    with pytest.raises(PluginError, match=f"^{re.escape(expected)}$"):
        load_plugins(selection_from(None, {}, ["old"], False))
    assert load_plugins().warnings == (f"{expected}; run rlcore plugins doctor",)
    listed = run_rlcore("plugins", "list")
    assert expected in listed.stderr and re.search(r"^old +acme-old 3.2 +refused ", listed.stdout, re.MULTILINE)


@pytest.mark.parametrize("case", KEYWORDS, ids=str)
def test_contracts_are_read_from_keywords_of_every_build_backend(case: dict[str, Any]) -> None:
    assert declared(case["keywords"]) == tuple(case["contracts"])


def test_an_undeclared_package_is_tried(installed_plugin: InstallPlugin) -> None:
    installed_plugin("tiny", "acme-tiny", "1", NONE, contract=None)
    assert "tiny" in [plugin.name for plugin in load_plugins(strict=True).loaded]
