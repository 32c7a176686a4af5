"""Finds the installed plugins from the metadata of distributions; imports no plugin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib import metadata
from typing import TYPE_CHECKING

from rlcore._version import __version__
from rlcore.plugins.contract import contract_problem, declared, located, undeclared_problem
from rlcore.plugins.markers import ENTRY_POINT_GROUP
from rlcore.plugins.plugin import CORE_DISTRIBUTION, PLUGIN_NAME, Plugin, canonical

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

_CORE_MODULE = "rlcore.builtin.plugin"
# "rlcore>=0.1", "rlcore[torch]>=0.1", "rlcore @ ..." but not "rlcore-ppo": cheap, so that `packaging` is only
# imported for requirements that matter.
_ON_RLCORE = re.compile(r"\s*rlcore\s*(?=[\[(<>=!~;@]|$)", re.IGNORECASE)
_REQUIRED = re.compile(r"\s*([A-Za-z0-9][\w.-]*)[^;]*(;.*)?", re.DOTALL)
_OF_AN_EXTRA = re.compile(r"\bextra\s*==")


def installed() -> tuple[Plugin, ...]:
    """Every plugin that an installed distribution announces, sorted by name and distribution."""
    found = [_announced(entry_point) for entry_point in _entry_points()]
    if not any(plugin.essential for plugin in found):
        # A source tree on PYTHONPATH has no metadata of its own.
        found.append(Plugin("core", _CORE_MODULE, CORE_DISTRIBUTION, __version__))
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution)))


def handshake(plugin: Plugin, version: str = __version__) -> str | None:
    """Why this plugin cannot be loaded by the running rlcore, or None. Nothing of the plugin is imported.

    Checks its bounds, because pip only warns when it breaks them, its contract, and that its module is there.
    """
    return _bounds_problem(plugin, version) or _contract_problem(plugin)


def _contract_problem(plugin: Plugin) -> str | None:
    if plugin.essential or not plugin.distribution:
        return None
    module = plugin.module.partition(":")[0].strip()
    if located(module) is None:
        what = f"{plugin.distribution} {plugin.version}"
        return f"{what} has no module {module!r}, which its entry point names; install it again"
    if not plugin.contracts:
        return undeclared_problem(module, plugin.distribution, plugin.version)
    return contract_problem(plugin.contracts, plugin.distribution, plugin.version)


def _bounds_problem(plugin: Plugin, version: str) -> str | None:
    if not plugin.requires:
        return None
    from packaging.requirements import InvalidRequirement, Requirement

    for text in plugin.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            return f"{plugin.distribution} has an unreadable requirement {text!r}"
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            newer = _needs_newer(requirement.specifier, version)
            upgrade = f"'rlcore{requirement.specifier}'" if newer else plugin.distribution
            return (
                f"{plugin.distribution} {plugin.version} needs rlcore{requirement.specifier}, "
                f"this is rlcore {version}; pip install -U {upgrade}"
            )
    return None


def _needs_newer(specifiers: SpecifierSet, version: str) -> bool:
    """Whether a version that does not satisfy ``specifiers`` is too old for one of them, not too new."""
    from packaging.version import InvalidVersion, Version

    for each in specifiers:
        try:
            least = Version(each.version.removesuffix(".*"))
        except InvalidVersion:  # "===anything"
            continue
        if each.operator in (">=", ">", "~=", "==") and Version(version) <= least and not each.contains(version, True):
            return True
    return False


def _entry_points() -> Iterable[metadata.EntryPoint]:
    try:
        # Reads every entry_points.txt and keeps the first of two distributions with one name, as imports do.
        return list(metadata.entry_points(group=ENTRY_POINT_GROUP))
    except Exception:  # one unreadable entry_points.txt fails the call for all of them
        return list(_readable_entry_points())


def _readable_entry_points() -> Iterable[metadata.EntryPoint]:
    seen: set[str] = set()
    for distribution in metadata.distributions():
        try:
            name = canonical(distribution.name)
            entry_points = [entry for entry in distribution.entry_points if entry.group == ENTRY_POINT_GROUP]
        except Exception:  # it may be no plugin at all, so nothing is reported
            continue
        if name not in seen:
            seen.add(name)
            yield from entry_points


def _announced(entry_point: metadata.EntryPoint) -> Plugin:
    distribution = entry_point.dist
    try:
        if distribution is None:
            raise ValueError("no distribution")
        about = distribution.metadata  # every property of a distribution parses its file again
        name, version = str(about["Name"]), str(about["Version"])
        contracts = declared(about["Keywords"])
        requirements = distribution.requires or ()
        requires = tuple(text for text in requirements if _ON_RLCORE.match(text))
        needs = tuple(filter(None, map(_needed, requirements)))
        editable = _editable(distribution)
        every = {str(each.version) for each in metadata.distributions(name=name)}
    except Exception as error:  # a damaged dist-info raises TypeError, KeyError, ValueError... by Python version
        return Plugin(
            entry_point.name, entry_point.value, "unknown", "?", refused=f"unreadable metadata ({type(error).__name__})"
        )
    fits = PLUGIN_NAME.fullmatch(entry_point.name)
    return Plugin(
        entry_point.name,
        entry_point.value,
        name,
        version,
        requires=requires,
        needs=needs,
        contracts=contracts,
        editable=editable,
        hidden=tuple(sorted(every - {version})),
        refused=None if fits else f"the entry point {entry_point.name!r} must match {PLUGIN_NAME.pattern}",
    )


def _needed(requirement: str) -> str:
    """The distribution that a requirement asks for; "" for rlcore, for an extra, and if its marker does not hold."""
    found = _REQUIRED.match(requirement)
    if found is None or _ON_RLCORE.match(requirement) or _OF_AN_EXTRA.search(found[2] or ""):
        return ""
    if found[2]:
        from packaging.markers import InvalidMarker, Marker

        try:
            if not Marker(found[2].removeprefix(";")).evaluate({"extra": ""}):
                return ""
        except InvalidMarker:  # pip would not have installed it
            return ""
    return canonical(found[1])


def _editable(distribution: metadata.Distribution) -> bool:
    text = distribution.read_text("direct_url.json")
    return bool(text and json.loads(text).get("dir_info", {}).get("editable", False))
