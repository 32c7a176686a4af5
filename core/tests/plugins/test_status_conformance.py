"""A plugin that keeps the rules of the status hooks passes their tests; a broken rule is noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore.errors import RlcoreError
from rlcore_devkit import StatusSectionConformance, StatusStoreConformance
from rlcore_devkit.fixtures import InstallPlugin

pytestmark = pytest.mark.smoke

DATA = Path(__file__).parent / "data"
GOOD = (DATA / "good_status_plugin.txt").read_text(encoding="utf-8")
BROKEN = yaml.safe_load((DATA / "broken_status_plugins.yaml").read_text(encoding="utf-8"))
CASES = [
    pytest.param(base, case["replaced"], case["noticed by"], id=name)
    for key, base in (("sections", StatusSectionConformance), ("stores", StatusStoreConformance))
    for name, case in BROKEN[key].items()
]


@pytest.fixture
def tested(installed_plugin: InstallPlugin, tmp_path: Path) -> Callable[..., Any]:
    """``tested(StatusStoreConformance, [{"old": ..., "new": ...}])``: the good plugin's tests, with texts replaced."""

    def make(base: type, replaced: Any = ()) -> Any:
        source = GOOD
        for each in replaced:
            assert each["old"] in source
            source = source.replace(each["old"], each["new"])
        installed_plugin("acme", "acme-status", "1.0", source)
        conformance = type("Conformance", (base,), {"plugin": "acme-status/acme"})()
        conformance.directory = tmp_path
        conformance.plugins()  # the changed text is a plugin
        return conformance

    return make


def rules(base: type) -> list[str]:
    return [name for name in vars(base) if name.startswith("test_")]


def run_rule(conformance: Any, rule: str) -> None:
    getattr(conformance, rule)(*(("text",) if "another_form" in rule else ()))


@pytest.mark.parametrize("base", [StatusSectionConformance, StatusStoreConformance])
def test_a_plugin_that_keeps_the_rules_passes(tested: Callable[..., Any], base: type, tmp_path: Path) -> None:
    conformance = tested(base)
    for rule in rules(base):
        conformance.directory = tmp_path / rule
        run_rule(conformance, rule)


def test_core_itself_keeps_the_rules_of_a_store(tmp_path: Path) -> None:
    conformance: Any = type("Conformance", (StatusStoreConformance,), {"plugin": "rlcore/core"})()
    for rule in rules(StatusStoreConformance):
        conformance.directory = tmp_path / rule
        run_rule(conformance, rule)


@pytest.mark.parametrize(("base", "replaced", "rule"), CASES)
def test_a_broken_plugin_is_noticed(tested: Callable[..., Any], base: type, replaced: Any, rule: str) -> None:
    (name,) = (each for each in rules(base) if rule in each)
    with pytest.raises((AssertionError, RlcoreError, pytest.fail.Exception)):
        run_rule(tested(base, replaced), name)


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
    key = {"old": "STARTS = StashKey()", "new": f"{SECTION}\nSTARTS = StashKey()"}
    own = '"owner": run.config.sections["acme"].owner}'
    reported = {"old": '{"starts": starts(run)}', "new": f'{{"starts": starts(run), {own}'}
    conformance = tested(StatusSectionConformance, [key, reported])
    type(conformance).sections = sections
    conformance.test_what_it_reports_is_json_and_reporting_changes_nothing()
    assert conformance.plugins().report_status(conformance.run())["acme"]["owner"] == owner
