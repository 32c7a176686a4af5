"""The records of all plugins: collected once from each, and found by NAME or DIST/NAME.

Every record refers to its plugin. A name that no record has is answered with what to install or to turn on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar, cast

import attrs
import pluggy

from rlcore.errors import NotInstalled, PluginError, did_you_mean
from rlcore.plugins.discover import Plugin, canonical
from rlcore.plugins.failures import failure
from rlcore.plugins.known import OWN_DISTRIBUTIONS, first_package, package_of
from rlcore.plugins.manager import HookManager
from rlcore.records import BehaviorSection, ConfigSection, Record, StatsWriterSpec

R = TypeVar("R", bound=Record)


class Registry:
    """The records that registry hooks returned. ``give_up`` is called with a plugin whose records cannot be used."""

    def __init__(self, manager: HookManager, give_up: Callable[[str, PluginError], None]) -> None:
        self._manager = manager
        self._give_up = give_up
        self._records: dict[pluggy.HookImpl, tuple[Record, ...]] = {}

    def records(self, kind: str) -> tuple[Record, ...]:
        """All records of a kind, of core's registry hooks or of one that a plugin added, sorted by name."""
        hook, record_class = self._manager.registries[kind]
        found: list[Record] = []
        for implementation in self._manager.implementations(hook):
            if implementation not in self._records:
                try:
                    self._records[implementation] = self._collect(hook, record_class, implementation)
                except PluginError as error:
                    self._give_up(implementation.plugin_name, error)
                    continue
            found += self._records[implementation]
        return tuple(sorted(found, key=lambda record: (record.name, record.reference)))

    def _collect(self, hook: str, record_class: type[Record], implementation: pluggy.HookImpl) -> tuple[Record, ...]:
        owner = self._manager.owner(implementation.plugin_name)
        self._manager.calls[hook] += 1
        answer = self._manager.one(implementation, hook)
        if answer is None:
            raise PluginError(
                f"{owner.described}: {hook} returned None, so its return is missing; return [] for no records"
            )
        try:
            records = list(answer)  # a generator runs only here
        except (Exception, SystemExit) as error:
            raise failure(owner.described, f"in {hook}", error) from error
        names: set[str] = set()
        for record in records:
            if not isinstance(record, record_class):
                raise PluginError(f"{owner.described}: {hook} must return {record_class.__name__}s, not {record!r}")
            if record.name in names:
                raise PluginError(f"{owner.described}: {hook} returned two records named {record.name!r}")
            names.add(record.name)
        _refuse_core_keys(record_class, names, owner)
        return tuple(attrs.evolve(_consented(record, owner), plugin=owner) for record in records)


def _consented(record: Record, owner: Plugin) -> Record:
    """The record of a writer is ``default_on`` only in rlcore's distributions and in plugins that the user named."""
    own = canonical(owner.distribution) in OWN_DISTRIBUTIONS
    if isinstance(record, StatsWriterSpec) and not own and (not owner.asked or owner.required_by):
        return attrs.evolve(record, default_on=False)
    return record


def _refuse_core_keys(record_class: type[Record], names: set[str], owner: Plugin) -> None:
    if record_class not in (ConfigSection, BehaviorSection) or not names:
        return
    from rlcore.settings import BehaviorSettings, RunConfig

    of_run = record_class is ConfigSection
    taken = sorted(names & {field.name for field in attrs.fields(RunConfig if of_run else BehaviorSettings)})
    if taken:
        what = "configuration section" if of_run else "key of a behavior"
        raise PluginError(f"{owner.described}: the {what} {taken[0]!r} is core's own")


def find(
    record_class: type[R],
    reference: str,
    records: Sequence[Record],
    found: Sequence[Plugin],
    left_out: Sequence[str],
) -> R:
    """The one of ``records`` that ``reference`` names, or named when the record was in another distribution.

    NotInstalled if there is none; ``found`` are all plugins, on or off, and ``left_out`` the lines about broken ones,
    for its message. PluginError if there are several.
    """
    source, _, name = reference.rpartition("/")
    matches = [record for record in records if record.name == name and (not source or _is_of(source, record))]
    matches = matches or [record for record in records if source and _was_of(source, name, record)]
    if len(matches) == 1:
        return cast(R, matches[0])
    if not matches:
        _unknown(record_class, reference, records, found, left_out)
    if record_class is BehaviorSection:
        raise PluginError(section_clash(matches))
    choices = [record.reference for record in matches]
    if len(set(choices)) < len(choices):
        advice = "turn one of the plugins off with -p no:DIST/PLUGIN"
    else:
        advice = f"write {record_class.key or record_class.kind}: {' or '.join(choices)}"
    owners = " and ".join(record.plugin.described for record in matches if record.plugin is not None)
    raise PluginError(f"{_word(record_class)} {reference!r} is provided by {owners}; {advice}")


def section_clash(rivals: Sequence[Record]) -> str:
    """Return the message about sections of one name: a file has only one block of that name, so nothing can run."""
    owners = " and ".join(record.plugin.described for record in rivals if record.plugin is not None)
    off = " or ".join(f"-p no:{record.plugin.label}" for record in rivals if record.plugin is not None)
    what = rivals[0].called or "configuration section"
    return f"the {what} {rivals[0].name!r} is claimed by {owners}; turn one of them off with {off}"


def plugins_off(found: Sequence[Plugin]) -> str:
    """Return the plugins that are off and how to turn them on, for a message about a name that is unknown."""
    off = [plugin for plugin in found if not plugin.on]
    if not off:
        return ""
    advice = f"-p {off[0].name} turns it on" if len(off) == 1 else "-p NAME turns one on"
    return f"turned off: {', '.join(plugin.described for plugin in off)}; {advice}"


def _unknown(
    record_class: type[Record],
    reference: str,
    records: Sequence[Record],
    found: Sequence[Plugin],
    left_out: Sequence[str],
) -> NoReturn:
    kind, word = record_class.kind, _word(record_class)
    source, _, name = reference.rpartition("/")
    names = sorted({record.name for record in records})
    allowed = [record.reference for record in records] if source else names
    parts = [f"unknown {word} {reference!r}"]
    parts.append(f"allowed: {', '.join(allowed)}" if names else f"no {word} is installed")
    package = package_of(kind, name) or (None if names else first_package(kind))
    present = {canonical(plugin.distribution) for plugin in found}
    if package in present:
        package = None  # it is installed, but off or broken
    if package:
        parts.append(f"pip install {package}")
    if source and canonical(source) not in present and not any(_is_of(source, record) for record in records):
        parts.append(f"nothing called {source!r} is installed")
    off = [plugin for plugin in found if not plugin.on]
    off = [plugin for plugin in off if _provides(plugin, kind, name)] or off
    note = "; ".join(filter(None, (plugins_off(off), *left_out)))
    raise NotInstalled("; ".join(parts) + did_you_mean(reference, allowed), package, note)


def _provides(plugin: Plugin, kind: str, name: str) -> bool:
    """Whether a plugin that is off is known to provide a record, without importing it."""
    return canonical(plugin.distribution) == package_of(kind, name) or plugin.name == name


def _is_of(source: str, record: Record) -> bool:
    return record.plugin is not None and canonical(source) == canonical(record.plugin.source)


def _was_of(source: str, name: str, record: Record) -> bool:
    distribution, _, former = (record.formerly or "").rpartition("/")
    return former == name and canonical(source) == canonical(distribution)


def _word(record_class: type[Record]) -> str:
    return record_class.called or record_class.kind
