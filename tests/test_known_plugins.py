"""``rlcore.plugins.known`` agrees with the plugins of this repository, and no other module of the core names them."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import pytest
from workspace import CORE, PLUGINS

from rlcore import Plugins, load_plugins
from rlcore.plugins.known import OWN_DISTRIBUTIONS, PACKAGES

NAMES = {member.name for member in PLUGINS}
# Without keys that belong to the section of another key.
RECORDS = {each: package for each, package in PACKAGES.items() if each != ("evaluation", "score_against")}
DEFAULTS = {"encoder", "schedule", "replay_sampler"}  # kinds of rlcore-torch: the core knows one of its names


@pytest.fixture(scope="module")
def loaded() -> Plugins:
    return load_plugins()


def provided(loaded: Plugins, kinds: Iterable[str]) -> set[tuple[tuple[str, str], str]]:
    """The records of members with what to install: the distribution, with the extra of the plugin if it has one."""
    packages = {
        (member.name, plugin): f"{member.name}[{plugin}]" if plugin in member.extras_of_plugins else member.name
        for member in PLUGINS
        for plugin in member.plugins
    }
    return {
        ((kind, record.name), packages[record.plugin.distribution, record.plugin.name])
        for kind in kinds
        for record in loaded.records(kind)
        if record.plugin is not None and record.plugin.distribution in NAMES
    }


def test_every_known_record_is_provided_by_its_package(loaded: Plugins) -> None:
    assert set(RECORDS.items()) <= provided(loaded, loaded.kinds)


def test_every_record_of_a_kind_of_cores_is_known(loaded: Plugins) -> None:
    kinds = {kind for kind, _ in RECORDS} - DEFAULTS
    assert provided(loaded, kinds) == {(each, package) for each, package in RECORDS.items() if each[0] in kinds}


def test_writers_may_be_on_by_default_in_distributions_of_this_repository_only() -> None:
    assert set(OWN_DISTRIBUTIONS) <= {CORE.name} | NAMES


def test_no_other_module_of_the_core_names_a_package_of_this_repository() -> None:
    naming = set()
    for path in sorted(CORE.package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words = set(node.value.replace("/", " ").replace(",", " ").replace(";", " ").split())
                if words & NAMES:
                    naming.add(path.relative_to(CORE.package).as_posix())
    assert naming == {"plugins/known.py"}
