"""A plugin that has plugins finds their records as core finds its own."""

from __future__ import annotations

from typing import ClassVar

import attrs
import pytest

from rlcore.errors import NotInstalled, PluginError
from rlcore.plugins import Record, load_plugins
from rlcore.testing.fixtures import InstallPlugin

BASE = """
from rlcore import hookimpl
from rlcore.plugins import hookspec
class Specs:
    @hookspec
    def rlcore_opponents(self): "Opponents."
@hookimpl
def rlcore_addhooks(manager):
    manager.add_hookspecs(Specs)
"""
USER = """
import attrs
from rlcore import hookimpl
@hookimpl
def rlcore_opponents():
    import {tests} as shared
    return [shared.OPPONENT]
"""


@attrs.frozen(kw_only=True)
class OpponentSpec(Record):
    kind: ClassVar[str] = "opponent"


OPPONENT = OpponentSpec(name="past", target="acme:Past")


@pytest.fixture
def registry(installed_plugin: InstallPlugin, monkeypatch: pytest.MonkeyPatch) -> InstallPlugin:
    """Installs a plugin with a registry; call it to install one that brings an opponent."""
    import sys
    from types import ModuleType

    shared = ModuleType("shared_opponents")
    shared.OPPONENT = OPPONENT  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shared_opponents", shared)
    installed_plugin("base", "acme-base", "1", BASE)
    return lambda name: installed_plugin(name, f"acme-{name}", "2", USER.format(tests="shared_opponents"))


def test_a_record_is_found_by_its_name_and_by_its_distribution(registry: InstallPlugin) -> None:
    registry("one")
    plugins = load_plugins()
    (owned,) = plugins.records_of("rlcore_opponents", OpponentSpec)
    assert (owned.record, owned.reference) == (OPPONENT, "acme-one/past")
    for reference in ("past", "acme-one/past"):
        assert plugins.record_of("rlcore_opponents", OpponentSpec, reference, "opponent_type") is OPPONENT


def test_an_unknown_name_is_told_with_the_nearest(registry: InstallPlugin) -> None:
    registry("one")
    with pytest.raises(NotInstalled) as caught:
        load_plugins().record_of("rlcore_opponents", OpponentSpec, "pats", "opponent_type")
    assert str(caught.value) == "unknown opponent 'pats'; allowed: past; did you mean 'past'?"


def test_a_name_of_two_plugins_is_to_be_written_in_full(registry: InstallPlugin) -> None:
    registry("one")
    registry("two")
    with pytest.raises(PluginError, match=r"; write opponent_type: acme-one/past or acme-two/past$"):
        load_plugins().record_of("rlcore_opponents", OpponentSpec, "past", "opponent_type")


def test_where_nobody_brings_one_that_is_said(registry: InstallPlugin) -> None:
    with pytest.raises(NotInstalled, match=r"^unknown opponent 'past'; no opponent is installed"):
        load_plugins().record_of("rlcore_opponents", OpponentSpec, "past", "opponent_type")
