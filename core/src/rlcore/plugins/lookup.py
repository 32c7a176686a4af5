"""Finds a record by NAME or DIST/NAME, and says what to do when there is none, or more than one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, TypeVar, cast

import attrs

from rlcore.errors import NotInstalled, PluginError, did_you_mean
from rlcore.plugins.candidates import canonical
from rlcore.plugins.discover import Decision
from rlcore.plugins.manager import LoadedPlugin
from rlcore.plugins.records import Record

# Which of our packages brings what: for a user with a bare core, the only thing worth knowing.
_PACKAGES = {
    ("trainer", "ppo"): "rlcore-ppo",
    ("trainer", "sac"): "rlcore-sac",
    ("trainer", "bc"): "rlcore-offline",
    ("trainer", "iql"): "rlcore-offline",
    ("environment", "gymnasium"): "rlcore-gymnasium",
    ("writer", "tensorboard"): "rlcore-tensorboard",
    ("recording", "minari"): "rlcore-offline",
    ("curriculum", "lessons"): "rlcore-curriculum",
    ("curriculum", "adr"): "rlcore-curriculum",
    ("curriculum", "learning_progress"): "rlcore-curriculum",
    ("curriculum", "prioritized_levels"): "rlcore-curriculum",
}


@attrs.frozen
class Owned:
    """A record and whose it is."""

    record: Record
    plugin: str
    distribution: str
    version: str
    label: str  # of the plugin: what -p takes

    @classmethod
    def by(cls, record: Record, owner: LoadedPlugin) -> Owned:
        return cls(record, owner.name, owner.distribution, owner.version, owner.label)

    @property
    def reference(self) -> str:
        """DIST/NAME; for a plugin that is not installed, PLUGIN/NAME."""
        return f"{self.distribution or self.plugin}/{self.record.name}"

    @property
    def described(self) -> str:
        source = f"{self.distribution} {self.version}" if self.distribution else "local"
        return f"{self.record.kind} {self.record.name!r} of plugin {self.plugin!r} ({source})"


R = TypeVar("R", bound=Record)


def find(
    record_class: type[R],
    reference: str,
    records: Sequence[Owned],
    decisions: Sequence[Decision],
    warnings: Sequence[str],
) -> R:
    """The record that ``reference`` names. Nobody's is NotInstalled, more than one is a PluginError."""
    source, _, name = reference.rpartition("/")
    matches = [owned for owned in records if owned.record.name == name and (not source or _brings(source, owned))]
    if len(matches) == 1:
        return cast(R, matches[0].record)
    if not matches:
        _unknown(record_class, reference, records, decisions, warnings)
    choices = [owned.reference for owned in matches]
    if len(set(choices)) < len(choices):
        advice = "turn one of the plugins off with -p no:DIST/PLUGIN"
    else:
        advice = f"write {record_class.key or record_class.kind}: {' or '.join(choices)}"
    owners = " and ".join(f"plugin {o.plugin!r} ({o.distribution or 'local'} {o.version})".replace(" )", ")")
                          for o in matches)  # fmt: skip
    raise PluginError(f"{_word(record_class)} {reference!r} is brought by {owners}; {advice}")


def _unknown(
    record_class: type[Record],
    reference: str,
    records: Sequence[Owned],
    decisions: Sequence[Decision],
    warnings: Sequence[str],
) -> NoReturn:
    kind, word = record_class.kind, _word(record_class)
    source, _, name = reference.rpartition("/")
    names = sorted({owned.record.name for owned in records})
    allowed = [owned.reference for owned in records] if source else names
    parts = [f"unknown {word} {reference!r}"]
    parts.append(f"allowed: {', '.join(allowed)}" if names else f"no {word} is installed")
    package = _PACKAGES.get((kind, name)) or (None if names else _first_package(kind))
    known = {canonical(decision.candidate.distribution) for decision in decisions}
    if package in known:
        package = None  # it is here, and turned off or broken
    if package:
        parts.append(f"pip install {package}")
    if source and canonical(source) not in known and not any(_brings(source, owned) for owned in records):
        parts.append(f"nothing called {source!r} is installed")
    off = [decision.candidate for decision in decisions if not decision.on]
    if off:
        parts.append(f"turned off: {', '.join(candidate.described for candidate in off)}; -p NAME turns one on")
    parts += warnings
    raise NotInstalled("; ".join(parts) + did_you_mean(reference, allowed), package)


def _brings(source: str, owned: Owned) -> bool:
    return canonical(source) == canonical(owned.distribution or owned.plugin)


def _word(record_class: type[Record]) -> str:
    return record_class.called or record_class.kind


def _first_package(kind: str) -> str | None:
    return next((package for (of, _), package in _PACKAGES.items() if of == kind), None)
