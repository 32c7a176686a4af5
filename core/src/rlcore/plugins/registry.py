"""The records of all plugins, collected once from each, and whose they are."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pluggy

from rlcore.errors import PluginError, one_line
from rlcore.plugins.candidates import canonical
from rlcore.plugins.dispatch import Dispatch
from rlcore.plugins.lookup import Owned
from rlcore.plugins.manager import HookManager, LoadedPlugin
from rlcore.plugins.records import ConfigSection, Record, StatsWriterSpec

# Whose writers may run without being named in the configuration: installing anybody else's package must never start
# sending a run's statistics somewhere.
OWN_DISTRIBUTIONS = ("rlcore", "rlcore-tensorboard")


class Registry:
    """What the registry hooks returned. ``give_up`` is told of a plugin whose records cannot be used."""

    def __init__(self, manager: HookManager, dispatch: Dispatch, give_up: Callable[[str, PluginError], None]) -> None:
        self._manager = manager
        self._dispatch = dispatch
        self._give_up = give_up
        self._records: dict[pluggy.HookImpl, tuple[Owned, ...]] = {}
        self._owned: dict[int, Owned] = {}  # by id(record): two plugins may return equal records

    def records(self, kind: str) -> tuple[Owned, ...]:
        """What the registry hook of this kind returned: one of core's, or of a plugin that has plugins."""
        hook, record_class = self._manager.registries[kind]
        found: list[Owned] = []
        for implementation in self._manager.implementations(hook):
            if implementation not in self._records:
                try:
                    self._records[implementation] = self._collect(hook, record_class, implementation)
                except PluginError as error:
                    self._give_up(implementation.plugin_name, error)
                    continue
            found += self._records[implementation]
        return tuple(sorted(found, key=lambda owned: (owned.record.name, owned.reference)))

    def described(self, record: Record) -> str:
        """The record and its owner, for messages; a plugin may have made the record itself."""
        owned = self._owned.get(id(record))
        return owned.described if owned is not None else f"{record.kind} {record.name!r}"

    def reference(self, record: Record) -> str:
        """DIST/NAME of a record that a registry hook returned."""
        owned = self._owned.get(id(record))
        return owned.reference if owned is not None else record.name

    def owner(self, record: Record) -> LoadedPlugin | None:
        owned = self._owned.get(id(record))
        return LoadedPlugin(owned.plugin, owned.distribution, owned.version) if owned is not None else None

    def _collect(self, hook: str, record_class: type[Record], implementation: pluggy.HookImpl) -> tuple[Owned, ...]:
        owner = self._manager.owner(implementation.plugin_name)
        self._dispatch.calls[hook] += 1
        answer = self._dispatch.one(implementation, hook)
        try:
            records = list(answer) if answer is not None else []  # a generator runs, and may raise, only here
        except (Exception, SystemExit) as error:
            raise PluginError(f"{owner.described} failed in {hook}: {one_line(error)}") from error
        names: set[str] = set()
        for record in records:
            if not isinstance(record, record_class):
                raise PluginError(f"{owner.described}: {hook} must return {record_class.__name__}s, not {record!r}")
            if record.name in names:
                raise PluginError(f"{owner.described}: {hook} returned two records named {record.name!r}")
            names.add(record.name)
        _refuse_core_sections(record_class, names, owner)
        found = tuple(Owned.by(_consented(record, owner), owner) for record in records)
        self._owned.update((id(owned.record), owned) for owned in found)
        return found


def _consented(record: Record, owner: LoadedPlugin) -> Record:
    if isinstance(record, StatsWriterSpec) and canonical(owner.distribution) not in OWN_DISTRIBUTIONS:
        return attrs.evolve(record, default_on=False)
    return record


def _refuse_core_sections(record_class: type[Record], names: set[str], owner: LoadedPlugin) -> None:
    if record_class is not ConfigSection or not names:
        return
    from rlcore.settings import RunConfig

    taken = sorted(names & {field.name for field in attrs.fields(RunConfig)})
    if taken:
        raise PluginError(f"{owner.described}: the configuration section {taken[0]!r} is core's own")
