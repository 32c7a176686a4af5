"""What is installed, read from metadata alone: nothing of a plugin is imported here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib import metadata

import attrs

from rlcore._version import __version__
from rlcore.plugins.markers import ENTRY_POINT_GROUP

PLUGIN_NAME = re.compile(r"[a-z][a-z0-9-]*")
LOCAL_PREFIX = "module:"
CORE_DISTRIBUTION = "rlcore"
_CORE_MODULE = "rlcore.builtin.plugin"
# "rlcore>=0.1", "rlcore[torch]>=0.1", "rlcore @ ..." but not "rlcore-ppo": cheap, so that `packaging` is only
# imported for requirements that matter.
_ON_RLCORE = re.compile(r"\s*rlcore\s*(?=[\[(<>=!~;@]|$)", re.IGNORECASE)


@attrs.frozen
class Candidate:
    """A plugin as its distribution announces it, or a module that is not installed (``distribution`` is empty)."""

    name: str
    module: str  # "acme_ppo.hooks"; for a local file, its path
    distribution: str = ""
    version: str = ""
    requires: tuple[str, ...] = ()  # the distribution's requirements on rlcore
    editable: bool = False
    problem: str | None = None  # its metadata cannot be used

    @property
    def label(self) -> str:
        """Unique among candidates, and what ``-p`` takes: ``acme-ppo/ppo`` or ``module:acme.hooks``."""
        return f"{self.distribution}/{self.name}" if self.distribution else f"{LOCAL_PREFIX}{self.module}"

    @property
    def described(self) -> str:
        return described(self.name, self.distribution, self.version)

    @property
    def essential(self) -> bool:
        """rlcore's own defaults: without them there is nothing to plug into."""
        return canonical(self.distribution) == CORE_DISTRIBUTION


def described(name: str, distribution: str, version: str) -> str:
    """How every message names a plugin."""
    return f"plugin {name!r} ({distribution} {version})" if distribution else f"plugin {name!r} (local)"


def canonical(distribution: str) -> str:
    """A distribution name as pip compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def installed() -> tuple[Candidate, ...]:
    """Every announced plugin, sorted by name and distribution: the order of discovery is the file system's."""
    found = [_candidate(entry_point) for entry_point in _entry_points()]
    if not any(candidate.essential for candidate in found):
        # A source tree on PYTHONPATH has no metadata of its own.
        found.append(Candidate("core", _CORE_MODULE, CORE_DISTRIBUTION, __version__))
    return tuple(sorted(found, key=lambda candidate: (candidate.name, candidate.distribution)))


def handshake(candidate: Candidate, version: str = __version__) -> str | None:
    """Why this candidate does not fit the running rlcore, or None. pip only warns when it breaks such a bound."""
    if candidate.problem:
        return candidate.problem
    if not candidate.requires:
        return None
    from packaging.requirements import InvalidRequirement, Requirement

    for text in candidate.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            return f"{candidate.distribution} has an unreadable requirement {text!r}"
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            return (
                f"{candidate.distribution} {candidate.version} needs rlcore{requirement.specifier}, "
                f"this is rlcore {version}; pip install -U {candidate.distribution}"
            )
    return None


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
        except Exception:  # not ours to report: it need not be a plugin at all
            continue
        if name not in seen:
            seen.add(name)
            yield from entry_points


def _candidate(entry_point: metadata.EntryPoint) -> Candidate:
    distribution = entry_point.dist
    try:
        if distribution is None:
            raise ValueError("no distribution")
        name, version = str(distribution.name), str(distribution.version)
        requires = tuple(text for text in distribution.requires or () if _ON_RLCORE.match(text))
        editable = _editable(distribution)
    except Exception as error:  # a damaged dist-info raises TypeError, KeyError, ValueError... by Python version
        return Candidate(
            entry_point.name, entry_point.value, "unknown", "?", problem=f"unreadable metadata ({type(error).__name__})"
        )
    problem = None
    if not PLUGIN_NAME.fullmatch(entry_point.name):
        problem = f"the entry point {entry_point.name!r} must match {PLUGIN_NAME.pattern}"
    return Candidate(entry_point.name, entry_point.value, name, version, requires, editable, problem)


def _editable(distribution: metadata.Distribution) -> bool:
    text = distribution.read_text("direct_url.json")
    return bool(text and json.loads(text).get("dir_info", {}).get("editable", False))
