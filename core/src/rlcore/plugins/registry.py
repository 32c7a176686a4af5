"""The records of plugins: collected once from each, found by NAME or DIST/NAME, and made into what they describe.

Every record refers to its plugin. A name that no record has is answered with what to install or to turn on. An object
is made by a factory hook; core's own answer is the record's target, imported and called. Every object is checked
against its protocol, so that an error names the plugin that created it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import attrs
import pluggy

from rlcore.errors import NotInstalled, PluginError, UnsupportedSpace, did_you_mean
from rlcore.plugins.discover import Plugin, canonical
from rlcore.plugins.failures import blamed, failure
from rlcore.plugins.known import OWN_DISTRIBUTIONS, PACKAGES, first_package
from rlcore.plugins.manager import HookManager
from rlcore.plugins.select import Selection
from rlcore.records import (
    BehaviorSection,
    ConfigSection,
    CurriculumSpec,
    EnvironmentSpec,
    ExecutorSpec,
    ExporterSpec,
    Record,
    RewardProviderSpec,
    StatsWriterSpec,
    TrainerSpec,
)

if TYPE_CHECKING:
    from rlcore.contracts.curriculum import Curriculum
    from rlcore.contracts.environment import BehaviorSpec, Environment
    from rlcore.contracts.policy import Exporter
    from rlcore.contracts.rewards import RewardProvider
    from rlcore.contracts.stats import StatsWriter
    from rlcore.contracts.trainer import Trainer
    from rlcore.plugins.context import RunContext
    from rlcore.settings.blocks import BehaviorSettings, EnvironmentSettings, ExportSettings

R = TypeVar("R", bound=Record)


class Registry:
    """The methods of :class:`rlcore.Plugins` that find records, and create what they describe.

    Each method that creates something raises PluginError if the object does not fit its protocol, or if its plugin
    raises.
    """

    def __init__(self, manager: HookManager, selection: Selection, found: tuple[Plugin, ...]) -> None:
        self._manager = manager
        self.selection = selection
        self.found = found
        self.broken: dict[str, PluginError] = {}
        self._collected: dict[pluggy.HookImpl, tuple[Record, ...]] = {}

    # ------------------------------------------------------------ records

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds of records: core's (trainer, environment and so on), then those that plugins added."""
        return tuple(self._manager.registries)

    def records(self, kind: str) -> tuple[Record, ...]:
        """All records of a kind, sorted by name. A plugin whose records cannot be used is left out."""
        hook, record_class = self._manager.registries[kind]
        found: list[Record] = []
        for implementation in self._manager.implementations(hook):
            if implementation not in self._collected:
                try:
                    self._collected[implementation] = self._collect(hook, implementation)
                except PluginError as error:
                    self._give_up(implementation.plugin_name, error)
                    continue
            found += (record for record in self._collected[implementation] if isinstance(record, record_class))
        return tuple(sorted(found, key=lambda record: (record.name, record.reference)))

    def records_of(self, label: str) -> tuple[Record, ...]:
        """All records of one plugin, by kind and name."""
        every = (record for kind in self.kinds for record in self.records(kind))
        return tuple(record for record in every if record.plugin is not None and record.plugin.label == label)

    def record(self, record_class: type[R], reference: str) -> R:
        """Return the record of this class called NAME or DIST/NAME, or called so when it was in another distribution.

        Raises NotInstalled if no plugin provides it, with the allowed names and the nearest. Raises PluginError if
        several do.
        """
        source, _, name = reference.rpartition("/")
        records = self.records(record_class.kind)
        matches = [record for record in records if record.name == name and (not source or _is_of(source, record))]
        matches = matches or [record for record in records if source and _was_of(source, name, record)]
        if len(matches) == 1:
            return cast(R, matches[0])
        if not matches:
            self._unknown(record_class, reference, records)
        if record_class is BehaviorSection:
            raise PluginError(section_clash(matches))
        choices = [record.reference for record in matches]
        if len(set(choices)) < len(choices):
            advice = "turn one of the plugins off with -p no:DIST/PLUGIN"
        else:
            advice = f"write {record_class.key or record_class.kind}: {' or '.join(choices)}"
        owners = " and ".join(record.plugin.described for record in matches if record.plugin is not None)
        raise PluginError(f"{_word(record_class)} {reference!r} is provided by {owners}; {advice}")

    def record_of_kind(self, kind: str, reference: str) -> Record:
        """The record of a kind called NAME or DIST/NAME; raises like :meth:`record`.

        Raises NotInstalled if no plugin has the kind.
        """
        registered = self._manager.registries.get(kind)
        if registered is None:
            package = first_package(kind)
            raise NotInstalled(f"unknown {kind} {reference!r}; no plugin that is on has any", package, self.absent)
        _, record_class = registered
        return self.record(record_class, reference)

    def trainer(self, reference: str) -> TrainerSpec:
        """Return the record of the trainer called NAME or DIST/NAME; errors as for :meth:`record`."""
        return self.record(TrainerSpec, reference)

    def reward_provider(self, reference: str) -> RewardProviderSpec:
        """Return the record of the reward provider called NAME or DIST/NAME; errors as for :meth:`record`."""
        return self.record(RewardProviderSpec, reference)

    def stats_writer(self, reference: str) -> StatsWriterSpec:
        """Return the record of the statistics writer called NAME or DIST/NAME; errors as for :meth:`record`."""
        return self.record(StatsWriterSpec, reference)

    def environment(self, reference: str) -> EnvironmentSpec:
        """Return the record of the environment called NAME or DIST/NAME; errors as for :meth:`record`."""
        return self.record(EnvironmentSpec, reference)

    def executor(self, reference: str) -> ExecutorSpec:
        """Return the record of the executor called NAME or DIST/NAME; errors as for :meth:`record`."""
        return self.record(ExecutorSpec, reference)

    def curriculum(self, reference: str) -> CurriculumSpec:
        """Return the record of the curriculum called NAME or DIST/NAME; errors as for :meth:`record`."""
        return self.record(CurriculumSpec, reference)

    def exporter(self, reference: str) -> ExporterSpec:
        """Return the record of the exporter called NAME or DIST/NAME; errors as for :meth:`record`."""
        return self.record(ExporterSpec, reference)

    def _collect(self, hook: str, implementation: pluggy.HookImpl) -> tuple[Record, ...]:
        classes = self._manager.record_classes(hook)
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
        names: set[tuple[str, str]] = set()
        for record in records:
            if not isinstance(record, classes):
                wanted = " or ".join(f"{each.__name__}s" for each in classes)
                raise PluginError(f"{owner.described}: {hook} must return {wanted}, not {record!r}")
            if (record.kind, record.name) in names:
                raise PluginError(f"{owner.described}: {hook} returned two records named {record.name!r}")
            names.add((record.kind, record.name))
        _refuse_core_keys(records, owner)
        return tuple(attrs.evolve(_consented(record, owner), plugin=owner) for record in records)

    def _give_up(self, label: str, error: PluginError) -> None:
        """Leave the plugin out whose records cannot be used, or raise its error."""
        raise NotImplementedError

    @property
    def _left_out(self) -> tuple[str, ...]:
        return tuple(f"{error}; run rlcore plugins doctor" for error in self.broken.values())

    @property
    def absent(self) -> str:
        """The plugins that are off, and those that were left out, for a message about a name that is unknown."""
        return "; ".join(filter(None, (plugins_off(self.found), *self._left_out)))

    def _unknown(self, record_class: type[R], reference: str, records: Sequence[Record]) -> NoReturn:
        kind, word = record_class.kind, _word(record_class)
        source, _, name = reference.rpartition("/")
        names = sorted({record.name for record in records})
        allowed = [record.reference for record in records] if source else names
        parts = [f"unknown {word} {reference!r}"]
        parts.append(f"allowed: {', '.join(allowed)}" if names else f"no {word} is installed")
        package = PACKAGES.get((kind, name)) or (None if names else first_package(kind))
        present = {canonical(plugin.distribution) for plugin in self.found}
        if package in present:
            package = None  # it is installed, but off or broken
        if package:
            parts.append(f"pip install {package}")
        if source and canonical(source) not in present and not any(_is_of(source, record) for record in records):
            parts.append(f"nothing called {source!r} is installed")
        off = [plugin for plugin in self.found if not plugin.on]
        off = [plugin for plugin in off if _provides(plugin, kind, name)] or off
        note = "; ".join(filter(None, (plugins_off(off), *self._left_out)))
        raise NotInstalled("; ".join(parts) + did_you_mean(reference, allowed), package, note)

    # ------------------------------------------------------------ what they describe

    def create_trainer(
        self,
        spec: TrainerSpec,
        settings: BehaviorSettings,
        behavior: BehaviorSpec,
        run: RunContext,
        *,
        without: str | None = None,
    ) -> Trainer:
        """The trainer of ``behavior``.

        ``without`` is the name of a plugin that is not asked: one that answers ``rlcore_create_trainer`` itself, with a
        trainer around this one. ``behavior`` and ``settings`` may differ from those that the plugin received.
        """
        from rlcore.contracts.trainer import Trainer

        require_space(spec, behavior)
        hook = "rlcore_create_trainer"
        with self._manager.leaving_out(without):
            return cast(Trainer, self._create(hook, Trainer, spec, settings=settings, behavior=behavior, run=run))

    def create_reward_provider(
        self, spec: RewardProviderSpec, settings: Any, behavior: BehaviorSpec, run: RunContext
    ) -> RewardProvider:
        """Create a reward provider with ``rlcore_create_reward_provider``, and check it. Raises PluginError."""
        from rlcore.contracts.rewards import RewardProvider

        hook = "rlcore_create_reward_provider"
        created = self._create(hook, RewardProvider, spec, settings=settings, behavior=behavior, run=run)
        return cast(RewardProvider, created)

    def create_stats_writer(self, spec: StatsWriterSpec, settings: Any, run: RunContext) -> StatsWriter:
        """Create a statistics writer with ``rlcore_create_stats_writer``, and check it. Raises PluginError."""
        from rlcore.contracts.stats import StatsWriter

        created = self._create("rlcore_create_stats_writer", StatsWriter, spec, settings=settings, run=run)
        return cast(StatsWriter, created)

    def create_curriculum(self, spec: CurriculumSpec, settings: Mapping[str, Any], run: RunContext) -> Curriculum:
        """The curriculum of all environment parameters in ``settings``, which holds the block of each."""
        from rlcore.contracts.curriculum import Curriculum

        return cast(Curriculum, self._called(Curriculum, spec, settings=settings, run=run))

    def create_exporter(self, spec: ExporterSpec, settings: ExportSettings, run: RunContext) -> Exporter:
        """Create an exporter, and check it. Raises PluginError."""
        from rlcore.contracts.policy import Exporter

        return cast(Exporter, self._called(Exporter, spec, settings=settings, run=run))

    def create_environment(self, spec: EnvironmentSpec, settings: EnvironmentSettings, run: RunContext) -> Environment:
        """Create an environment with ``rlcore_create_environment``, and check it. Raises PluginError."""
        from rlcore.contracts.environment import Environment

        created = self._create("rlcore_create_environment", Environment, spec, settings=settings, run=run)
        return cast(Environment, created)

    def _called(self, protocol: type, spec: Record, **arguments: Any) -> object:
        """The answer of the record's target, for which there is no hook."""
        created = call_target(spec, f"{type(spec).__name__}.target", **arguments)
        require_protocol(created, protocol, spec.described)
        return created

    def _create(self, hook: str, protocol: type, spec: Record, **arguments: Any) -> object:
        """The first answer to a factory hook, which must fit ``protocol``; plugins that took part are noted.

        Raises PluginError if one is missing that took part when the checkpoint of the run was saved.
        """
        from rlcore.plugins.context import RunContext

        run = arguments["run"]
        if isinstance(run, RunContext):  # tests of plugins may give something else
            now = self._manager.implementing(hook)
            run.factories.check(hook, run.purpose == "train", now, self.found, self.selection)

        def target_called(spec: Record, **given: Any) -> object:
            return call_target(spec, hook, **given)

        created, took_part, makers = self._manager.create(hook, target_called, spec=spec, **arguments)
        named = " or ".join(dict.fromkeys(plugin.described for plugin in makers))
        require_protocol(created, protocol, f"{named}: {hook}" if named else spec.described)
        if isinstance(run, RunContext):
            # A measurement does without a block of a behavior whose plugin is absent, and training refuses the block.
            blocks = arguments["settings"].sections if hook == "rlcore_create_trainer" else {}
            claimed = [name for name, block in blocks.items() if block is not None]
            owners = [run.plugins.record(BehaviorSection, name).plugin for name in claimed]
            run.factories.add(hook, [plugin for plugin in took_part if plugin not in owners])
        return created


def _consented(record: Record, owner: Plugin) -> Record:
    """The record of a writer is ``default_on`` only in rlcore's distributions and in plugins that the user named."""
    own = canonical(owner.distribution) in OWN_DISTRIBUTIONS
    if isinstance(record, StatsWriterSpec) and not own and (not owner.asked or owner.required_by):
        return attrs.evolve(record, default_on=False)
    return record


def _refuse_core_keys(records: Sequence[Record], owner: Plugin) -> None:
    for record in records:
        if isinstance(record, ConfigSection | BehaviorSection):
            from rlcore.settings import BehaviorSettings, RunConfig

            of_run = isinstance(record, ConfigSection)
            if record.name in {field.name for field in attrs.fields(RunConfig if of_run else BehaviorSettings)}:
                what = "configuration section" if of_run else "key of a behavior"
                raise PluginError(f"{owner.described}: the {what} {record.name!r} is core's own")


def section_clash(rivals: Sequence[Record]) -> str:
    """Return the message about sections of one name: a file has only one block of that name, so nothing can run."""
    owners = " and ".join(record.plugin.described for record in rivals if record.plugin is not None)
    off = " or ".join(f"-p no:{record.plugin.label}" for record in rivals if record.plugin is not None)
    what = rivals[0].called or "configuration section"
    return f"the {what} {rivals[0].name!r} is claimed by {owners}; turn one of them off with {off}"


def plugins_off(found: Sequence[Plugin], how: str = "-p ") -> str:
    """Return the plugins that are off and how to turn them on, for a message about a name that is unknown."""
    off = [plugin for plugin in found if not plugin.on]
    if not off:
        return ""
    advice = f"{how}{off[0].name} turns it on" if len(off) == 1 else f"{how}NAME turns one on"
    return f"turned off: {', '.join(plugin.described for plugin in off)}; {advice}"


def _provides(plugin: Plugin, kind: str, name: str) -> bool:
    """Whether a plugin that is off is known to provide a record, without importing it."""
    return canonical(plugin.distribution) == PACKAGES.get((kind, name)) or plugin.name == name


def _is_of(source: str, record: Record) -> bool:
    return record.plugin is not None and canonical(source) == canonical(record.plugin.source)


def _was_of(source: str, name: str, record: Record) -> bool:
    distribution, _, former = (record.formerly or "").rpartition("/")
    return former == name and canonical(source) == canonical(distribution)


def _word(record_class: type[Record]) -> str:
    return record_class.called or record_class.kind


def call_target(record: Record, hook: str, **arguments: Any) -> Any:
    """Core's answer to a factory hook: the record's target called with ``arguments``. The record is to blame."""
    target = record.resolve()
    with blamed(record.described, f"in {hook}"):
        return target(**arguments)


def require_space(spec: TrainerSpec, behavior: BehaviorSpec) -> None:
    """UnsupportedSpace if the behavior's actions are not of a kind that the trainer's record declares."""
    if behavior.continuous and behavior.discrete:
        kind = "hybrid"
    else:
        kind = "continuous" if behavior.continuous else "discrete"
    if kind not in spec.spaces:
        raise UnsupportedSpace(
            f"behavior {behavior.name!r} has {kind} actions and trainer {spec.name!r} learns "
            f"{' or '.join(sorted(spec.spaces))} ones only; choose another trainer_type"
        )


def require_protocol(value: object, protocol: type, described: str) -> None:
    """PluginError naming what ``value`` lacks of a protocol class."""
    members = {
        name
        for name, member in vars(protocol).items()
        if (callable(member) or isinstance(member, property)) and not name.startswith("_")
    }
    members |= set(getattr(protocol, "__annotations__", {}))
    try:
        missing = sorted(member for member in members if not hasattr(value, member))
    except (Exception, SystemExit) as error:  # a property may raise anything
        raise failure(f"{described} returned a {type(value).__name__} that", "in a property", error) from error
    if missing:
        from rlcore.plugins.contract import PORTING, added

        new = [*filter(None, (added(f"{protocol.__name__}.{member}") for member in missing))]
        hint = "; ".join(["", *new, PORTING]) if len(new) == len(missing) else ""
        raise PluginError(
            f"{described} returned a {type(value).__name__}, which is not a {protocol.__name__}: "
            f"it lacks {', '.join(missing)}{hint}"
        )
