"""A plugin that keeps the rules of the status hooks passes their tests; a broken rule is noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlcore.errors import RlcoreError
from rlcore_devkit import StatusSectionConformance, StatusStoreConformance
from rlcore_devkit.fixtures import InstallPlugin

pytestmark = pytest.mark.smoke

GOOD = """
import json
from rlcore import hookimpl
from rlcore.errors import RunStateError
from rlcore import StashKey

STARTS = StashKey()


@hookimpl
def rlcore_run_started(run):
    run.stash[STARTS] = starts(run) + 1


def starts(run):
    return run.stash.get(STARTS, 0)


@hookimpl
def rlcore_report_status(run):
    return {"acme": {"starts": starts(run)}}


@hookimpl
def rlcore_restore_status(run, sections):
    section = sections.get("acme", {"starts": 0})
    if not isinstance(section, dict) or not isinstance(section.get("starts"), int):
        raise RunStateError("the section 'acme' of the checkpoint has no number of starts; use an older checkpoint")
    run.stash[STARTS] = section["starts"]


@hookimpl
def rlcore_write_status(status, directory):
    partial = directory / "acme.tmp"
    partial.write_text(json.dumps(status) + "\\nend")
    partial.replace(directory / "acme.json")
    return True


@hookimpl
def rlcore_read_status(directory):
    path = directory / "acme.json"
    if not path.exists():
        return None
    try:
        text, _, end = path.read_text().rpartition("\\n")
        if end != "end":
            raise ValueError("it is cut off")
        return json.loads(text)
    except ValueError as error:
        raise RunStateError(f"{path}: damaged; restore it from a backup, or delete it") from error
"""

Replace = tuple[str, str]


@pytest.fixture
def tested(installed_plugin: InstallPlugin, tmp_path: Path) -> Callable[..., Any]:
    """``tested(StatusStoreConformance, (old, new), ...)``: the tests of the good plugin with these texts replaced."""

    def make(base: type, *changes: Replace) -> Any:
        source = GOOD
        for old, new in changes:
            assert old in source
            source = source.replace(old, new)
        installed_plugin("acme", "acme-status", "1.0", source)
        conformance = type("Conformance", (base,), {"plugin": "acme-status/acme"})()
        conformance.directory = tmp_path
        conformance.plugins()  # the changed text is a plugin
        return conformance

    return make


def rules(base: type) -> list[str]:
    return [name for name in vars(base) if name.startswith("test_")]


def arguments(rule: str) -> tuple[Any, ...]:
    return ("text",) if "another_form" in rule else ()


@pytest.mark.parametrize("base", [StatusSectionConformance, StatusStoreConformance])
def test_a_plugin_that_keeps_the_rules_passes(tested: Callable[..., Any], base: type) -> None:
    conformance = tested(base)
    directory = conformance.directory
    for rule in rules(base):
        conformance.directory = directory / rule
        getattr(conformance, rule)(*arguments(rule))


SECTION = """
import attrs
from rlcore import ConfigSection
from rlcore.settings import setting

@attrs.frozen(kw_only=True)
class Rules:
    owner: str = setting("ann", "Who answers for the run.")

@hookimpl
def rlcore_config_sections():
    return [ConfigSection(name="acme", target=__name__ + ":Rules", summary="Rules.")]
"""


@pytest.mark.parametrize(("sections", "owner"), [({}, "ann"), ({"acme": {"owner": "bob"}}, "bob")])
def test_a_plugin_finds_its_block_of_the_configuration(
    tested: Callable[..., Any], sections: dict[str, Any], owner: str
) -> None:
    reported = '{"acme": {"starts": starts(run), "owner": run.config.sections["acme"].owner}}'
    conformance = tested(
        StatusSectionConformance,
        ("STARTS = StashKey()", f"{SECTION}\nSTARTS = StashKey()"),
        ('{"acme": {"starts": starts(run)}}', reported),
    )
    type(conformance).sections = sections
    conformance.test_what_it_reports_is_json_and_reporting_changes_nothing()
    assert conformance.plugins().report_status(conformance.run())["acme"]["owner"] == owner


IN_MODULE = (
    ("run.stash[STARTS] = ", "KEPT['starts'] = "),
    ("run.stash.get(STARTS, 0)", "KEPT.get('starts', 0)"),
    ("STARTS = StashKey()", "KEPT = {}"),
)
SECTIONS: list[tuple[str, list[Replace], str]] = [
    ("reports nothing", [('return {"acme": {"starts": starts(run)}}', "return None")], "is_json"),
    ("reports a set", [('{"starts": starts(run)}', "{1, 2}")], "is_json"),
    ("counts reports", [('    return {"acme"', '    rlcore_run_started(run)\n    return {"acme"')], "is_json"),
    ("forgets", [('run.stash[STARTS] = section["starts"]', "pass")], "resumed_run_reports"),
    ("needs its section", [('sections.get("acme", {"starts": 0})', 'sections["acme"]')], "began_without"),
    ("does not look", [("if not isinstance", "if False and not isinstance")], "another_form"),
    ("does not name the section", [("the section 'acme'", "the section")], "another_form"),
    ("changes before it looks", [("    section = ", "    run.stash[STARTS] = 9\n    section = ")], "another_form"),
    ("keeps state in its module", [*IN_MODULE], "independent"),
    (
        "writes under inference",
        [("    section = ", "    (run.directory / 'starts.txt').write_text('')\n    section = ")],
        "inference",
    ),
]


@pytest.mark.parametrize(("changes", "rule"), [case[1:] for case in SECTIONS], ids=[case[0] for case in SECTIONS])
def test_broken_sections_are_noticed(tested: Callable[..., Any], changes: list[Replace], rule: str) -> None:
    (name,) = (each for each in rules(StatusSectionConformance) if rule in each)
    conformance = tested(StatusSectionConformance, *changes)
    with pytest.raises((AssertionError, RlcoreError, pytest.fail.Exception)):
        getattr(conformance, name)(*arguments(name))


WRITTEN = "json.dumps(status)"
OURS = "{key: value for key, value in status.items() if not key.startswith('acme')}"
REMEMBER = ("    return True", "    KEPT[str(directory / 'acme.json')] = status\n    return True")
MEMORY = ("STARTS =", "KEPT = {}\nSTARTS =")
STORES: list[tuple[str, list[Replace], str]] = [
    ("writes while reading", [("    if not path.exists():", "    path.touch()\n    if 0:")], "new_run"),
    ("finds a status always", [("        return None", "        return {}")], "new_run"),
    ("drops unknown sections", [(WRITTEN, f"json.dumps({OURS})")], "was_written"),
    ("turns numbers into floats", [("json.loads(text)", "json.loads(text, parse_int=float)")], "was_written"),
    ("keeps it in memory", [(WRITTEN, "json.dumps(KEPT.setdefault(str(directory), status))"), MEMORY], "newest"),
    (
        "reads what is in memory",
        [("        return json.loads(text)", "        return KEPT[str(path)]"), REMEMBER, MEMORY],
        "another_process",
    ),
    (
        "merges into the older one",
        [(WRITTEN, "json.dumps({**(rlcore_read_status(directory) or {}), **status})")],
        "newest",
    ),
    ("has one file for all runs", [("directory / ", "directory.parent.parent / ")], "kept_apart"),
    (
        "reads a part",
        [("        if end !=", "        if False and end !="), ("return json.loads(text)", "return {}")],
        "damage",
    ),
    ("raises other errors", [("except ValueError as error", "except KeyError as error")], "damage"),
]


@pytest.mark.parametrize(("changes", "rule"), [case[1:] for case in STORES], ids=[case[0] for case in STORES])
def test_a_broken_store_is_noticed(tested: Callable[..., Any], changes: list[Replace], rule: str) -> None:
    (name,) = (each for each in rules(StatusStoreConformance) if rule in each)
    conformance = tested(StatusStoreConformance, *changes)
    with pytest.raises((AssertionError, RlcoreError)):
        getattr(conformance, name)()


def test_core_itself_keeps_the_rules_of_a_store(tmp_path: Path) -> None:
    class Conformance(StatusStoreConformance):
        plugin = "rlcore/core"

    conformance = Conformance()
    for rule in rules(StatusStoreConformance):
        conformance.directory = tmp_path / rule
        getattr(conformance, rule)()
