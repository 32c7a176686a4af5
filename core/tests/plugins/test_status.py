"""Status hooks: sections of plugins, where the status is kept, and the conformance tests of both."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from rlcore import PluginError, Plugins, RlcoreError, RunStateError, hookimpl, load_plugins, selection_from
from rlcore_devkit import StatusSectionConformance, StatusStoreConformance
from rlcore_devkit.fixtures import InstallPlugin

pytestmark = pytest.mark.smoke

RUN: Any = SimpleNamespace()


def reporting(**sections: Any) -> object:
    class Reports:
        @hookimpl
        def rlcore_report_status(self) -> Any:
            return sections

    return Reports()


def keeping(stored: Any, read: Any = None) -> object:
    """A store that answers ``stored`` to every status, and ``read()`` to every question for one."""

    class Keeps:
        @hookimpl
        def rlcore_write_status(self, status: Any) -> Any:
            return stored(status) if callable(stored) else stored

        @hookimpl
        def rlcore_read_status(self) -> Any:
            return read and read()

    return Keeps()


def test_every_plugins_section_is_reported_as_it_was_then(plugins: Plugins) -> None:
    counts = {"a": [1]}
    plugins.register(reporting(elo=counts), "elo")
    plugins.register(reporting(lessons=[2]), "lessons")
    plugins.register(type("Silent", (), {})(), "silent")
    reported = plugins.report_status(RUN)
    counts["a"].append(2)
    assert reported == {"elo": {"a": [1]}, "lessons": [2]}


def test_an_error_while_restoring_stops_the_run(plugins: Plugins) -> None:
    class Restores:
        @hookimpl
        def rlcore_restore_status(self, sections: Any) -> None:
            sections["absent"]

    plugins.register(Restores(), "one", "acme-one", "1")
    with pytest.raises(PluginError, match=r"\(acme-one 1\) failed in rlcore_restore_status: KeyError: 'absent'"):
        plugins.restore_status(RUN, {})


def test_the_default_status_is_a_file_and_a_plugin_may_keep_it_elsewhere(plugins: Plugins, tmp_path: Path) -> None:
    status = {"Walker": {"checkpoints": []}, "elo": {"a": 1}}
    assert plugins.read_status(tmp_path) is None
    plugins.write_status(status, tmp_path)
    assert plugins.read_status(tmp_path) == status
    kept: list[Any] = []
    plugins.register(keeping(lambda status: kept.append(status) or True, lambda: kept[-1] if kept else None), "store")
    assert plugins.read_status(tmp_path) == status
    plugins.write_status({"new": 1}, tmp_path)
    assert plugins.read_status(tmp_path) == {"new": 1}


def test_cores_own_failure_to_write_is_not_blamed_on_a_plugin(plugins: Plugins, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunStateError, match="Not a directory"):
        plugins.write_status({}, tmp_path / "file")


@pytest.mark.parametrize("answer", [False, 0, "stored"])
def test_a_status_that_nobody_says_is_stored_is_no_success(plugins: Plugins, tmp_path: Path, answer: Any) -> None:
    plugins.register(keeping(answer, lambda: [{"lesson_num": 1}]), "store", "acme-store", "1")
    with pytest.raises(PluginError, match=rf"answered {answer!r}, so the .*; it is answered by .*\(acme-store 1\)"):
        plugins.write_status({}, tmp_path)
    with pytest.raises(PluginError, match=r"answered a list instead of a mapping; .*\(acme-store 1\)"):
        plugins.read_status(tmp_path)


def test_two_stores_of_the_status_refuse_to_start_and_a_mirror_may_wrap_one(installed_plugin: InstallPlugin) -> None:
    read = "@hookimpl\ndef rlcore_read_status():\n    return None\n"
    store = "from rlcore import hookimpl\n{read}@hookimpl{how}\ndef rlcore_write_status(status):\n    {answer}\n"
    for name in ("one", "two"):
        installed_plugin(name, f"acme-{name}", "1", store.format(read=read, how="", answer="return True"))
    installed_plugin("three", "acme-three", "1", store.format(read="", how="(wrapper=True)", answer="return (yield)"))
    with pytest.raises(PluginError) as caught:
        load_plugins()
    assert str(caught.value) == (
        "rlcore_write_status is answered by plugin 'two' (acme-two 1) and plugin 'one' (acme-one 1), and only one "
        "would store the status; turn one off, for example with -p no:acme-two/two or -p no:acme-one/one"
    )
    plugins = load_plugins(selection_from(None, {}, ["no:one"], False), strict=True)
    with pytest.raises(PluginError, match=r"plugin 'late' .* and only one would store the status"):
        plugins.register(sys.modules["acme_one_one_hooks"], "late")
    assert [plugin.name for plugin in plugins.answering("rlcore_write_status")] == ["two"]


# ---------------------------------------------------------------- conformance

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
