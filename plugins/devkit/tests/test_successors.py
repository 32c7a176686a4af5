"""Successors of the names in earlier contracts, as ``rlcore plugins doctor`` says it."""

from __future__ import annotations

import datetime
import importlib
import re
import tomllib
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import rlcore
from rlcore import CONTRACT, Plugins, RunContext, load_plugins
from rlcore.plugins.failures import failure
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore
from rlcore_devkit.successors import Contract, contracts, renamed, successor

HEAD = "from rlcore import TrainerSpec, hookimpl\n"
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
    return (package == "rlcore" and last in {*dir(rlcore), "__version__"}) or hasattr(CLASSES.get(package), last)


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
    monkeypatch.setattr("rlcore_devkit.successors.contracts", lambda: table)


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


# ---------------------------------------------------------------- errors


STEPS = "; the page 'Porting a plugin' has the steps"


@pytest.mark.usefixtures("_history")
@pytest.mark.parametrize("case", DATA, ids=str)
def test_an_error_about_an_old_name_names_its_successor(case: dict[str, str | None]) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        exec(str(case["code"]), {})
    assert renamed(caught.value) == ("" if case["said"] is None else f"; {case['said']}{STEPS}")
    assert renamed(failure("plugin 'x' (local)", "to load", caught.value)) == renamed(caught.value)


@pytest.mark.usefixtures("_history")
def test_the_doctor_answers_a_target_a_hook_and_an_import_of_an_earlier_contract(
    installed_plugin: InstallPlugin, run_rlcore: RunRlcore
) -> None:
    records = "[TrainerSpec(name='x', target='rlcore.config:RewardSettings', settings='json:loads', summary='old')]"
    source = f"{HEAD}@hookimpl\ndef rlcore_trainers():\n    from rlcore.config import setting\n    return {records}\n"
    installed_plugin("target", "acme-target", "1", source.replace("    from rlcore.config import setting\n", ""))
    installed_plugin("hook", "acme-hook", "1", HEAD + "@hookimpl\ndef rlcore_configured(config):\n    pass\n")
    installed_plugin("import", "acme-import", "1", source)
    said = {name: run_rlcore("plugins", "doctor", name).stdout for name in ("target", "hook", "import")}
    renamed_settings = "rlcore.config.RewardSettings was renamed to rlcore.RewardSettings in contract 3" + STEPS
    assert f"rlcore.config has no 'RewardSettings'; {renamed_settings}\n" in said["target"]
    assert "unknown hook 'rlcore_configured'" in said["hook"]
    assert "; rlcore_configured was renamed to rlcore_check_config in contract " in said["hook"]
    assert "; rlcore.config.setting was renamed to rlcore.setting in contract 3" + STEPS in said["import"]
