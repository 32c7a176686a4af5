"""The records of plugins: collected once from each, found by NAME or DIST/NAME, and made into what they describe.

Every record refers to its plugin. A name that no record has is answered with what to install or to turn on. An object
is made by the factory hook of its kind of records; core's own answer is the record's target, imported and called. Every
object is checked against its protocol, so that an error names the plugin that created it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import attrs
import pluggy

from rlcore.errors import ConfigError, NotInstalled, PluginError, UnsupportedSpace, did_you_mean
from rlcore.plugins.discover import Plugin, canonical, hooks_written
from rlcore.plugins.failures import failure, note_maker
from rlcore.plugins.installing import or_turn_on, pip_install
from rlcore.plugins.known import DEFAULTS, OWN_DISTRIBUTIONS, PACKAGES, PARAMETERS, RECORDINGS, first_package
from rlcore.plugins.manager import Answer, HookManager
from rlcore.plugins.select import Selection, needs
from rlcore.records import BehaviorSection, ConfigSection, Record, StatsWriterSpec, TrainerSpec

if TYPE_CHECKING:
    from rlcore.contracts.behavior_spec import BehaviorSpec
    from rlcore.contracts.curriculum import ParameterSource
    from rlcore.contracts.recordings import Recordings
    from rlcore.settings.blocks import BehaviorSettings

R = TypeVar("R", bound=Record)


class Registry:
    """The records of the plugins of a process, and what they describe: what plugins use, as ``run.plugins``."""

    def __init__(
        self, manager: HookManager, selection: Selection, found: tuple[Plugin, ...], *, strict: bool, tolerant: bool
    ) -> None:
        self._manager = manager
        self.selection = selection
        self.found = found
        self.strict = strict
        self.tolerant = tolerant
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
        records: list[Record] = []
        for implementation in self._manager.implementations(hook):
            if implementation not in self._collected:
                owner = self._manager.owner(implementation.plugin_name)
                with self._leaving_out(owner):
                    self._collected[implementation] = self._collect(hook, implementation)
            for record in self._collected.get(implementation, ()):
                if isinstance(record, record_class):
                    records.append(record)
        return tuple(sorted(records, key=lambda record: (record.name, record.reference)))

    def records_of(self, label: str) -> tuple[Record, ...]:
        """All records of one plugin, by kind and name."""
        records = []
        for kind in self.kinds:
            for record in self.records(kind):
                if record.plugin and record.plugin.label == label:
                    records.append(record)
        return tuple(records)

    def record(self, record_class: type[R], reference: str) -> R:
        """Return the record of this class called NAME or DIST/NAME, or called so when it was in another distribution.

        A NAME that several plugins provide means the one that the run used, see :attr:`Selection.records`, or the one
        that the name means by default, see :data:`rlcore.plugins.known.DEFAULTS`.

        Raises NotInstalled if no plugin provides it, with the allowed names and the nearest. Raises PluginError if
        several do.
        """
        written = reference
        if "/" not in reference:  # a package that was installed since must not change what a run's names mean
            reference = self.selection.meant(record_class.kind, reference)
        source, _, name = reference.rpartition("/")
        records = self.records(record_class.kind)
        matches = [record for record in records if record.name == name]
        if source:
            matches = [record for record in matches if _is_of(source, record)]
        if not matches:
            self._unknown(record_class, reference, records, used=written != reference)
        if len(matches) == 1:
            return cast(R, matches[0])
        meant = _default_of(matches)
        if meant is None:
            raise PluginError(self.clash(matches))
        return cast(R, meant)

    @staticmethod
    def clash(rivals: Sequence[Record]) -> str:
        """Return the message about a name that several records have; a file cannot say which block it means."""
        first = rivals[0]
        plugins = [record.plugin for record in rivals if record.plugin is not None]
        owners = " and ".join(plugin.described for plugin in plugins)
        references = [record.reference for record in rivals]
        same_reference = len(set(references)) < len(references)
        if isinstance(first, ConfigSection | BehaviorSection) or same_reference:
            off = " or ".join(f"-p no:{plugin.label}" for plugin in plugins)
            advice = f"turn one of them off with {off}"
        else:
            advice = f"write {first.key or first.kind}: {' or '.join(references)}"
        return f"{first.called or first.kind} {first.name!r} is provided by {owners}; {advice}"

    def record_of_kind(self, kind: str, reference: str) -> Record:
        """The record of a kind called NAME or DIST/NAME; raises like :meth:`record`.

        Raises NotInstalled if no plugin has the kind.
        """
        registry = self._manager.registries.get(kind)
        if registry is None:
            package = first_package(kind)
            advice = f"; {pip_install(package)}, or turn it on if it is installed" if package else ""
            problem = f"unknown {kind} {reference!r}; no plugin that is on has any{advice}"
            raise NotInstalled(problem, package, self.absent)
        _, record_class = registry
        return self.record(record_class, reference)

    def _collect(self, hook: str, implementation: pluggy.HookImpl) -> tuple[Record, ...]:
        classes = self._manager.record_classes(hook)
        owner = self._manager.owner(implementation.plugin_name)
        self._manager.calls[hook] += 1
        answer = self._manager.call_one(implementation, hook)
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
                expected = " or ".join(f"{cls.__name__}s" for cls in classes)
                raise PluginError(f"{owner.described}: {hook} must return {expected}, not {record!r}")
            name = (record.kind, record.name)
            if name in names:
                raise PluginError(f"{owner.described}: {hook} returned two records named {record.name!r}")
            names.add(name)
        _refuse_core_keys(records, owner)
        return tuple(attrs.evolve(_consented(record, owner), plugin=owner) for record in records)

    # ------------------------------------------------------------ plugins that are left out

    @contextmanager
    def _leaving_out(self, plugin: Plugin) -> Iterator[None]:
        """Remove a plugin that cannot be used, because of an error of the block.

        The error is raised if the plugin was asked for by name, and recorded if not.
        """
        try:
            yield
        except PluginError as error:
            self._manager.expel(plugin.label)
            asked = plugin.asked and not (plugin.why == "config" and self.selection.lenient)
            registered = plugin not in self.found  # by a program, so it is wanted
            if registered or ((self.strict or asked) and not self.tolerant):
                raise
            self.broken[plugin.label] = error

    @property
    def _left_out(self) -> tuple[str, ...]:
        """One line for each plugin that was left out, with its hooks that now check and change nothing."""
        lines = []
        by_label = {plugin.label: plugin for plugin in self.found}
        for label, error in self.broken.items():
            hooks = []
            for hook in hooks_written(by_label[label]):
                # A registry that is missing shows where its records are named; other hooks go missing silently.
                if self._manager.kind(hook) not in ("", "registry"):
                    hooks.append(hook)
            inactive = f"; not active: {', '.join(hooks)}" if hooks else ""
            lines.append(f"{error}{inactive}; run rlcore plugins doctor")
        return tuple(lines)

    @property
    def _of_default_names(self) -> tuple[str, ...]:
        """A warning for each name that means one record by default, and that another plugin has too."""
        lines = []
        for kind, name in DEFAULTS:
            if kind not in self.kinds:
                continue
            rivals = [record for record in self.records(kind) if record.name == name]
            meant = _default_of(rivals) if len(rivals) > 1 else None
            if meant is None:
                continue
            others = [record for record in rivals if record is not meant]
            owners = " and ".join(other.plugin.described for other in others if other.plugin)
            references = " or ".join(other.reference for other in others)
            warning = f"{meant.called or kind} {name!r} means {meant.reference}, although {owners} has one too"
            lines.append(f"{warning}; write {references} for the other")
        return tuple(lines)

    @property
    def absent(self) -> str:
        """The plugins that are off, and those that were left out, for a message about a name that is unknown."""
        off = plugins_off(self.found)
        return "; ".join(filter(None, (off, *self._left_out)))

    def needed(self, name: str, kind: str = "") -> str:
        """Return the line about the plugin with a record called ``name`` that is off because a library is missing.

        It says what to install; it is empty if there is no such plugin. Without ``kind``, any kind counts.
        """
        packages = set()
        for (package_kind, record_name), package in PACKAGES.items():
            if record_name == name and kind in ("", package_kind):
                packages.add(package)
        for plugin in self.found:
            is_lacking = plugin.state == f"needs {plugin.lacks}"
            if is_lacking and (plugin.lacks in packages or plugin.name == name):
                return f"{name!r} {needs(plugin)}"
        return ""

    def _unknown(
        self, record_class: type[Record], reference: str, records: Sequence[Record], used: bool = False
    ) -> NoReturn:
        """Raise NotInstalled. ``used``: the name is a bare one, and means this record because the run used it."""
        kind = record_class.kind
        word = record_class.called or kind
        source, _, name = reference.rpartition("/")
        lacking = self.needed(name, kind)
        if lacking:
            raise NotInstalled(f"{word} {lacking}")
        names = sorted({record.name for record in records})
        allowed = [record.reference for record in records] if source else names
        parts = [f"unknown {word} {reference!r}"]
        if used:
            parts.append(f"the run used it under the name {name!r}, and no other takes its place unasked")
        elif names:
            parts.append(f"allowed: {', '.join(allowed)}")
        else:
            parts.append(f"no {word} is installed")

        package = PACKAGES.get((kind, name))
        if package is None and not names:
            package = first_package(kind)
        present = {canonical(plugin.distribution) for plugin in self.found}
        if package and package.partition("[")[0] in present:
            package = None  # it is installed, but off or broken
        if package:
            parts.append(pip_install(package))
        if source:
            sources = {canonical(record.plugin.source) for record in records if record.plugin is not None}
            if canonical(source) not in present | sources:
                parts.append(f"nothing called {source!r} is installed")
        hint = "" if used else did_you_mean(reference, allowed)

        off = [plugin for plugin in self.found if not plugin.on]
        providers = [plugin for plugin in off if _provides(plugin, kind, name)]
        advice = plugins_off(providers or off)
        note = "; ".join(filter(None, (advice, *self._left_out)))
        raise NotInstalled("; ".join(parts) + hint, package, note)

    # ------------------------------------------------------------ what they describe

    def create(self, spec: Record, *, without: str | None = None, **arguments: Any) -> Any:
        """Create what ``spec`` describes: the first answer to the hook of its kind, or its target called.

        ``arguments`` are those of the hook, or of the target: ``settings`` and ``run``, and ``behavior`` for trainers
        and rewards. ``settings`` and ``behavior`` may differ from those that a plugin received. ``without`` is the name
        of a plugin that is not asked: one that answers ``rlcore_create_trainer`` itself, with a trainer around this
        one.

        Raises PluginError if the object does not fit its protocol, if its plugin raises, and if a plugin is missing
        that took part when the checkpoint of the run was saved. Raises UnsupportedSpace for actions that a trainer does
        not declare.
        """
        if isinstance(spec, TrainerSpec):
            _require_space(spec, arguments["behavior"])
        if not spec.hook:
            return spec.create(**arguments)
        run: Any = arguments["run"]
        factories = getattr(run, "factories", None)  # tests of plugins may give another object as the run
        if factories is not None:
            present = self._manager.implementing(spec.hook)
            factories.check(spec.hook, run.purpose == "train", present, self.found, self.selection)

        answer = self._manager.create(spec.hook, _call_target, without=without, spec=spec, **arguments)
        if answer.makers:
            makers = " or ".join(dict.fromkeys(plugin.described for plugin in answer.makers))
            spec.require(answer.value, f"{makers}: {spec.hook}")
            note_maker(spec.kind, f"{spec.kind} {spec.name!r} of {makers}", answer.value)
        if factories is not None:
            took_part = list(answer.took_part)
            if isinstance(spec, TrainerSpec):
                through_blocks = self._acting_through_blocks(arguments["settings"], answer)
                took_part = [plugin for plugin in took_part if plugin not in through_blocks]
            factories.add(spec.hook, took_part)
        return answer.value

    def _acting_through_blocks(self, settings: BehaviorSettings, answer: Answer) -> list[Plugin | None]:
        """The plugins that need not be noted as having taken part in the trainer of a behavior.

        Whoever's block the behavior has: a measurement does without the block if the plugin is absent, and training
        refuses it. And whoever's block it does not have, and did not make the trainer: it only passed the trainer on.
        """
        plugins = []
        for record in self.records(BehaviorSection.kind):
            has_block = settings.sections.get(record.name) is not None
            if has_block or record.plugin not in answer.makers:
                plugins.append(record.plugin)
        return plugins

    def parameter_source(self) -> ParameterSource:
        """Return what chooses environment parameters. Raises ConfigError without such a plugin."""
        hook = "rlcore_create_parameter_source"
        source = self._manager.create(hook, lambda **_: None, plugins=self).value
        if source is None:
            advice = or_turn_on(*PARAMETERS)
            raise ConfigError(f"no plugin that chooses them is loaded; {advice}", key=("environment_parameters",))
        return cast("ParameterSource", source)

    def recordings(self, what: str) -> Recordings:
        """Return what reads and writes recorded episodes. Raises ConfigError, about ``what``, without such a plugin."""
        hook = "rlcore_create_recordings"
        recordings = self._manager.create(hook, lambda **_: None, plugins=self).value
        if recordings is None:
            advice = or_turn_on(*RECORDINGS)
            raise ConfigError(f"{what}: no plugin that reads recordings is loaded; {advice}")
        return cast("Recordings", recordings)


def _call_target(spec: Record, **arguments: Any) -> Any:
    """Core's own answer to the factory hooks of records."""
    return spec.create(**arguments)


def _consented(record: Record, owner: Plugin) -> Record:
    """The record of a writer is ``default_on`` only in rlcore's distributions and in plugins that the user named."""
    if not isinstance(record, StatsWriterSpec) or canonical(owner.distribution) in OWN_DISTRIBUTIONS:
        return record
    # A writer may send statistics to another machine: installing its package is not a request to do so.
    is_named = owner.asked and not owner.required_by
    return record if is_named else attrs.evolve(record, default_on=False)


def _refuse_core_keys(records: Sequence[Record], owner: Plugin) -> None:
    for record in records:
        if not isinstance(record, ConfigSection | BehaviorSection):
            continue
        from rlcore.settings import BehaviorSettings, RunConfig

        block = RunConfig if isinstance(record, ConfigSection) else BehaviorSettings
        if record.name in attrs.fields_dict(block):
            raise PluginError(f"{owner.described}: the {record.called} {record.name!r} is core's own")


def _default_of(rivals: Sequence[Record]) -> Record | None:
    """The record that a name means by default, so that an installed plugin cannot end runs that never named it."""
    first = rivals[0]
    owner = DEFAULTS.get((first.kind, first.name))
    meant = []
    for record in rivals:
        if record.plugin and canonical(record.plugin.distribution) == owner:
            meant.append(record)
    return meant[0] if len(meant) == 1 else None


def plugins_off(found: Sequence[Plugin], how: str = "-p ") -> str:
    """Return the plugins that are off and how to turn them on, for a message about a name that is unknown."""
    off = [plugin for plugin in found if plugin.state == "off"]
    if not off:
        return ""
    names = ", ".join(plugin.described for plugin in off)
    advice = f"{how}{off[0].name} turns it on" if len(off) == 1 else f"{how}NAME turns one on"
    return f"turned off: {names}; {advice}"


def _provides(plugin: Plugin, kind: str, name: str) -> bool:
    """Whether a plugin that is off is known to provide a record, without importing it."""
    requirement = PACKAGES.get((kind, name), "")
    package, _, _ = requirement.partition("[")
    return canonical(plugin.distribution) == package or plugin.name == name


def _is_of(source: str, record: Record) -> bool:
    return record.plugin is not None and canonical(source) == canonical(record.plugin.source)


def _require_space(spec: TrainerSpec, behavior: BehaviorSpec) -> None:
    """UnsupportedSpace if the behavior's actions are not of a kind that the trainer's record declares."""
    if behavior.space in spec.spaces:
        return
    spaces = " or ".join(sorted(spec.spaces))
    raise UnsupportedSpace(
        f"behavior {behavior.name!r} has {behavior.space} actions and trainer {spec.name!r} learns {spaces} ones only; "
        "choose another trainer_type"
    )
