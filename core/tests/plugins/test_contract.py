"""The contract between rlcore and plugins: its number is compared before imports, and what moved is answered."""

from __future__ import annotations

import datetime
import importlib
import re
import sys
import tomllib
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import rlcore
from rlcore import CONTRACT, PluginError, Plugins, Record, RunContext, TrainerSpec, load_plugins, selection_from
from rlcore.plugins.contract import KEYWORD, Contract, contracts, declared, renamed, successor
from rlcore.plugins.failures import failure
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore

HEAD = "from rlcore import TrainerSpec, hookimpl\n"
NONE = HEAD + "@hookimpl\ndef rlcore_trainers():\n    return []\n"
EXPLODES = "raise RuntimeError('imported before it was refused')\n"
RECORDED = Path(__file__).parent / "data"
HISTORY = RECORDED / "history"  # of a rlcore with three contracts
DATA = yaml.safe_load((RECORDED / "old_names.yaml").read_text(encoding="utf-8"))


@cache
def hooks() -> Collection[str]:
    """The hooks of the core, and of plugins that add hooks."""
    return load_plugins().specifications


CLASSES = {"Plugins": Plugins, "RunContext": RunContext}  # those whose members have moved


def is_public(name: str) -> bool:
    """Whether plugins may use a name now: one of rlcore itself, a hook, or a member of a class."""
    package, _, last = name.rpartition(".")
    if not package:
        return name in hooks()
    return (package == "rlcore" and last in {*rlcore.__all__, "__version__"}) or hasattr(CLASSES.get(package), last)


def exists(name: str) -> bool:
    """Whether the successor of a name exists: public, or a module or a name in a module of a plugin."""
    if is_public(name) or name == "rlcore":
        return True
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found is not None and parts[0] != "rlcore"
    return False


def is_answered(name: str) -> bool:
    """Whether there is an answer about ``name``, and the successor that it names exists."""
    answer = successor(name)
    new = re.search(r" was renamed to (\S+) in contract", answer or "")
    return answer is not None and (new is None or exists(new[1]))


# ---------------------------------------------------------------- the table


@pytest.fixture
def _history(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of a later rlcore, which has a third contract."""
    text = (HISTORY / "contracts.toml").read_text(encoding="utf-8")
    table = tuple(Contract(**each) for each in tomllib.loads(text)["contract"])
    monkeypatch.setattr("rlcore.plugins.contract.contracts", lambda: table)


def unanswered(recorded: Path) -> list[str]:
    """The names and hooks of a contract that are neither there nor answered.

    ``recorded`` is ``tests/docs/data/public_names.txt`` as it was when the contract ended. Members of classes are not
    compared.
    """
    text = recorded.read_text(encoding="utf-8")
    names = re.findall(r"^(?:class |hook )?((?:[a-z_]\w*\.)*\w+)(?=[(: ]|$)", text, re.MULTILINE)
    return [name for name in names if not exists(name) and not is_answered(name)]


def test_the_table_has_the_contracts_after_the_first_and_no_name_that_is_public_now() -> None:
    assert [each.number for each in contracts()] == list(range(2, CONTRACT + 1))
    assert not [name for each in contracts() for name in unanswered(RECORDED / f"contract-{each.number - 1}.txt")]
    for each in contracts():
        assert isinstance(each.date, datetime.date)
        assert not [old for old in each.moved if not is_answered(old)]
        assert not [old for old in (*each.moved, *each.removed) if is_public(old)]


@pytest.mark.usefixtures("_history")
def test_a_recorded_name_without_an_answer_is_found() -> None:
    assert unanswered(HISTORY / "contract-1.txt") == ["rlcore_plugin_loaded"]


# ---------------------------------------------------------------- before anything is imported


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


@pytest.mark.parametrize("case", DATA["keywords of distributions"], ids=str)
def test_contracts_are_read_from_keywords_of_every_build_backend(case: dict[str, Any]) -> None:
    assert declared(case["keywords"]) == tuple(case["contracts"])


def test_an_undeclared_package_is_tried(installed_plugin: InstallPlugin) -> None:
    installed_plugin("tiny", "acme-tiny", "1", NONE, contract=None)
    assert "tiny" in [plugin.name for plugin in load_plugins(strict=True).loaded]


# ---------------------------------------------------------------- errors


STEPS = "; the page 'Porting a plugin' has the steps"


@pytest.mark.usefixtures("_history")
@pytest.mark.parametrize("case", DATA["in an error that it raises"], ids=str)
def test_an_error_about_an_old_name_names_its_successor(case: dict[str, str | None]) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        exec(str(case["code"]), {})
    assert renamed(caught.value) == ("" if case["said"] is None else f"; {case['said']}{STEPS}")
    assert str(failure("plugin 'x' (local)", "to load", caught.value)).endswith(renamed(caught.value))


@pytest.mark.usefixtures("_history")
def test_a_target_and_a_hook_of_an_earlier_contract_are_answered(installed_plugin: InstallPlugin) -> None:
    record: Record = TrainerSpec(name="x", target="rlcore.config:RewardSettings", settings="a:b")
    expected = "rlcore.config.RewardSettings was renamed to rlcore.RewardSettings in contract 3" + STEPS
    with pytest.raises(PluginError, match=f"rlcore.config has no 'RewardSettings'; {re.escape(expected)}$"):
        record.resolve()
    source = HEAD + "@hookimpl\ndef rlcore_configured(config):\n    pass\n"
    installed_plugin("old", "acme-old", "1", source)
    with pytest.raises(
        PluginError, match="unknown hook 'rlcore_configured'; rlcore_configured was renamed to rlcore_check"
    ):
        load_plugins(selection_from(None, {}, ["old"], False))
    assert "acme_old_old_hooks" in sys.modules
