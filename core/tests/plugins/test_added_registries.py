"""A plugin that has plugins finds their records as core finds its own."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import ClassVar

import attrs
import pytest

from rlcore import NotInstalled, Record, load_plugins
from rlcore_devkit.fixtures import InstallPlugin

pytestmark = pytest.mark.smoke

BASE = """
from rlcore import hookimpl
from rlcore.hookspecs import registry_of
from shared_umpires import UmpireSpec
class Specs:
    @registry_of(UmpireSpec)
    def rlcore_umpires(self): "Umpires."
@hookimpl
def rlcore_addhooks(manager):
    manager.add_hookspecs(Specs)
"""
USER = """
from rlcore import hookimpl
@hookimpl
def rlcore_umpires():
    import shared_umpires
    return [shared_umpires.UmpireSpec(name="past", target="acme:Past")]
"""


@attrs.frozen(kw_only=True)
class UmpireSpec(Record):
    kind: ClassVar[str] = "umpire"
    key: ClassVar[str] = "umpire_type"


@pytest.fixture
def registry(installed_plugin: InstallPlugin, monkeypatch: pytest.MonkeyPatch) -> InstallPlugin:
    """Installs a plugin with a registry; call it to install one that brings an umpire."""
    shared = ModuleType("shared_umpires")
    shared.UmpireSpec = UmpireSpec  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shared_umpires", shared)
    installed_plugin("base", "acme-base", "1", BASE)
    return lambda name: installed_plugin(name, f"acme-{name}", "2", USER)


def test_a_record_is_found_by_its_name_and_by_its_distribution(registry: InstallPlugin) -> None:
    with pytest.raises(NotInstalled, match=r"^unknown umpire 'past'; no umpire is installed"):
        load_plugins().record(UmpireSpec, "past")
    registry("one")
    plugins = load_plugins()
    (record,) = plugins.records("umpire")
    assert (record.name, record.target, record.reference) == ("past", "acme:Past", "acme-one/past")
    for reference in ("past", "acme-one/past"):
        assert plugins.record(UmpireSpec, reference) is record


def test_two_registries_of_one_kind_are_refused(registry: InstallPlugin, installed_plugin: InstallPlugin) -> None:
    installed_plugin("other", "acme-other", "1", BASE.replace("rlcore_umpires", "rlcore_rivals"))
    (warning,) = load_plugins().warnings
    assert "plugin 'other' (acme-other 1): the hook 'rlcore_rivals' is a registry of 'umpire' records" in warning
    assert "rlcore_umpires is one already; call the kind something else" in warning
