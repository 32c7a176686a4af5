"""The records of all plugins, collected once from each; every record refers to its plugin."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pluggy

from rlcore.errors import PluginError
from rlcore.plugins.dispatch import Dispatch
from rlcore.plugins.failures import failure
from rlcore.plugins.known import OWN_DISTRIBUTIONS
from rlcore.plugins.manager import HookManager
from rlcore.plugins.plugin import Plugin, canonical
from rlcore.records import BehaviorSection, ConfigSection, Record, StatsWriterSpec


class Registry:
    """The records that registry hooks returned. ``give_up`` is called with a plugin whose records cannot be used."""

    def __init__(self, manager: HookManager, dispatch: Dispatch, give_up: Callable[[str, PluginError], None]) -> None:
        self._manager = manager
        self._dispatch = dispatch
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
        self._dispatch.calls[hook] += 1
        answer = self._dispatch.one(implementation, hook)
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
