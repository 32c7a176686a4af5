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
        found: list[Record] = []
        for implementation in self._manager.implementations(hook):
            if implementation not in self._collected:
                with self._leaving_out(self._manager.owner(implementation.plugin_name)):
                    self._collected[implementation] = self._collect(hook, implementation)
            collected = self._collected.get(implementation, ())
            found += (record for record in collected if isinstance(record, record_class))
        return tuple(sorted(found, key=lambda record: (record.name, record.reference)))

    def records_of(self, label: str) -> tuple[Record, ...]:
        """All records of one plugin, by kind and name."""
        every = [record for kind in self.kinds for record in self.records(kind)]
        return tuple(record for record in every if record.plugin and record.plugin.label == label)

    def record(self, record_class: type[R], reference: str) -> R:
        """Return the record of this class called NAME or DIST/NAME, or called so when it was in another distribution.

        A NAME that several plugins provide means the one that the run used, see :attr:`Selection.records`, or the one
        that the name means by default, see :data:`rlcore.plugins.known.DEFAULTS`.

        Raises NotInstalled if no plugin provides it, with the allowed names and the nearest. Raises PluginError if
        several do.
        """
        written = reference
        if "/" not in reference:
            reference = self.selection.meant(record_class.kind, reference)
        source, _, name = reference.rpartition("/")
        records = self.records(record_class.kind)
        matches = [record for record in records if record.name == name]
        if source:
            matches = [record for record in matches if _is_of(source, record)]
        if not matches:
            self._unknown(record_class, reference, records, used=written != reference)
        if len(matches) > 1:
            meant = _default_of(matches)
            if meant is None:
                raise PluginError(self.clash(matches))
            return cast(R, meant)
        return cast(R, matches[0])

    @staticmethod
    def clash(rivals: Sequence[Record]) -> str:
        """Return the message about a name that several records have; a file cannot say which block it means."""
        first = rivals[0]
        owners = " and ".join(record.plugin.described for record in rivals if record.plugin is not None)
        references = [record.reference for record in rivals]
        if isinstance(first, ConfigSection | BehaviorSection) or len(set(references)) < len(references):
            off = (f"-p no:{record.plugin.label}" for record in rivals if record.plugin is not None)
            advice = f"turn one of them off with {' or '.join(off)}"
        else:
            advice = f"write {first.key or first.kind}: {' or '.join(references)}"
        return f"{first.called or first.kind} {first.name!r} is provided by {owners}; {advice}"

    def record_of_kind(self, kind: str, reference: str) -> Record:
        """The record of a kind called NAME or DIST/NAME; raises like :meth:`record`.

        Raises NotInstalled if no plugin has the kind.
        """
        registered = self._manager.registries.get(kind)
        if registered is None:
            package = first_package(kind)
            advice = f"; {pip_install(package)}, or turn it on if it is installed" if package else ""
            problem = f"unknown {kind} {reference!r}; no plugin that is on has any{advice}"
            raise NotInstalled(problem, package, self.absent)
        return self.record(registered[1], reference)

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
            hooks = [
                hook for hook in hooks_written(by_label[label]) if self._manager.kind(hook) not in ("", "registry")
            ]
            idle = f"; not active: {', '.join(hooks)}" if hooks else ""
            lines.append(f"{error}{idle}; run rlcore plugins doctor")
        return tuple(lines)

    @property
    def _of_default_names(self) -> tuple[str, ...]:
        """A warning for each name that means one record by default, and that another plugin has too."""
        found = []
        for kind, name in DEFAULTS:
            if kind not in self.kinds:
                continue
            rivals = [record for record in self.records(kind) if record.name == name]
            meant = _default_of(rivals) if len(rivals) > 1 else None
            if meant is None:
                continue
            others = [record for record in rivals if record is not meant]
            owners = " and ".join(each.plugin.described for each in others if each.plugin)
            what = f"{meant.called or kind} {name!r} means {meant.reference}, although {owners} has one too"
            found.append(f"{what}; write {' or '.join(each.reference for each in others)} for the other")
        return tuple(found)

    @property
    def absent(self) -> str:
        """The plugins that are off, and those that were left out, for a message about a name that is unknown."""
        return "; ".join(filter(None, (plugins_off(self.found), *self._left_out)))

    def needed(self, name: str, kind: str = "") -> str:
        """Return the line about the plugin with a record called ``name`` that is off because a library is missing.

        It says what to install; it is empty if there is no such plugin. Without ``kind``, any kind counts.
        """
        packages = {package for (of, each), package in PACKAGES.items() if each == name and kind in ("", of)}
        for plugin in self.found:
            lacking = plugin.state == f"needs {plugin.lacks}"
            if lacking and (plugin.lacks in packages or plugin.name == name):
                return f"{name!r} {needs(plugin)}"
        return ""

    def _unknown(
        self, record_class: type[Record], reference: str, records: Sequence[Record], used: bool = False
    ) -> NoReturn:
        """Raise NotInstalled. ``used``: the name is a bare one, and means this record because the run used it."""
        kind = record_class.kind
        word = record_class.called or record_class.kind
        source, _, name = reference.rpartition("/")
        if line := self.needed(name, kind):
            raise NotInstalled(f"{word} {line}")
        names = sorted({record.name for record in records})
        allowed = [record.reference for record in records] if source else names
        parts = [f"unknown {word} {reference!r}"]
        if used:
            parts.append(f"the run used it under the name {name!r}, and no other takes its place unasked")
        else:
            parts.append(f"allowed: {', '.join(allowed)}" if names else f"no {word} is installed")
        package = PACKAGES.get((kind, name)) or (None if names else first_package(kind))
        present = {canonical(plugin.distribution) for plugin in self.found}
        if package and package.partition("[")[0] in present:
            package = None  # it is installed, but off or broken
        if package:
            parts.append(pip_install(package))
        if source and canonical(source) not in present and not any(_is_of(source, record) for record in records):
            parts.append(f"nothing called {source!r} is installed")
        off = [plugin for plugin in self.found if not plugin.on]
        off = [plugin for plugin in off if _provides(plugin, kind, name)] or off
        note = "; ".join(filter(None, (plugins_off(off), *self._left_out)))
        hint = "" if used else did_you_mean(reference, allowed)
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
        is_trainer = isinstance(spec, TrainerSpec)
        if isinstance(spec, TrainerSpec):
            _require_space(spec, arguments["behavior"])
        if not spec.hook:
            return spec.create(**arguments)
        run: Any = arguments["run"]
        noted = getattr(run, "factories", None)  # tests of plugins may give another object as the run
        if noted is not None:
            now = self._manager.implementing(spec.hook)
            noted.check(spec.hook, run.purpose == "train", now, self.found, self.selection)

        answer = self._manager.create(spec.hook, _call_target, without=without, spec=spec, **arguments)
        if answer.makers:
            named = " or ".join(dict.fromkeys(plugin.described for plugin in answer.makers))
            spec.require(answer.value, f"{named}: {spec.hook}")
            note_maker(spec.kind, f"{spec.kind} {spec.name!r} of {named}", answer.value)
        if noted is not None:
            through_blocks = self._acting_through_blocks(arguments["settings"], answer) if is_trainer else ()
            noted.add(spec.hook, [plugin for plugin in answer.took_part if plugin not in through_blocks])
        return answer.value

    def _acting_through_blocks(self, settings: BehaviorSettings, answer: Answer) -> list[Plugin | None]:
        """The plugins that need not be noted as having taken part in the trainer of a behavior.

        Whoever's block the behavior has: a measurement does without the block if the plugin is absent, and training
        refuses it. And whoever's block it does not have, and did not make the trainer: it only passed the trainer on.
        """
        found = []
        for record in self.records(BehaviorSection.kind):
            if settings.sections.get(record.name) is not None or record.plugin not in answer.makers:
                found.append(record.plugin)
        return found

    def parameter_source(self) -> ParameterSource:
        """Return what chooses environment parameters. Raises ConfigError without such a plugin."""
        found = self._manager.create("rlcore_create_parameter_source", lambda **_: None, plugins=self).value
        if found is None:
            advice = or_turn_on(*PARAMETERS)
            raise ConfigError(f"no plugin that chooses them is loaded; {advice}", key=("environment_parameters",))
        return cast("ParameterSource", found)

    def recordings(self, what: str) -> Recordings:
        """Return what reads and writes recorded episodes. Raises ConfigError, about ``what``, without such a plugin."""
        found = self._manager.create("rlcore_create_recordings", lambda **_: None, plugins=self).value
        if found is None:
            advice = or_turn_on(*RECORDINGS)
            raise ConfigError(f"{what}: no plugin that reads recordings is loaded; {advice}")
        return cast("Recordings", found)


def _call_target(spec: Record, **arguments: Any) -> Any:
    """Core's own answer to the factory hooks of records."""
    return spec.create(**arguments)


def _consented(record: Record, owner: Plugin) -> Record:
    """The record of a writer is ``default_on`` only in rlcore's distributions and in plugins that the user named."""
    of_rlcore = canonical(owner.distribution) in OWN_DISTRIBUTIONS
    named = owner.asked and not owner.required_by
    if isinstance(record, StatsWriterSpec) and not (of_rlcore or named):
        return attrs.evolve(record, default_on=False)
    return record


def _refuse_core_keys(records: Sequence[Record], owner: Plugin) -> None:
    for record in records:
        if isinstance(record, ConfigSection | BehaviorSection):
            from rlcore.settings import BehaviorSettings, RunConfig

            block = RunConfig if isinstance(record, ConfigSection) else BehaviorSettings
            if record.name in {field.name for field in attrs.fields(block)}:
                raise PluginError(f"{owner.described}: the {record.called} {record.name!r} is core's own")


def _default_of(rivals: Sequence[Record]) -> Record | None:
    """The record that a name means by default, so that an installed plugin cannot end runs that never named it."""
    owner = DEFAULTS.get((rivals[0].kind, rivals[0].name))
    found = [each for each in rivals if each.plugin and canonical(each.plugin.distribution) == owner]
    return found[0] if len(found) == 1 else None


def plugins_off(found: Sequence[Plugin], how: str = "-p ") -> str:
    """Return the plugins that are off and how to turn them on, for a message about a name that is unknown."""
    off = [plugin for plugin in found if plugin.state == "off"]
    if not off:
        return ""
    advice = f"{how}{off[0].name} turns it on" if len(off) == 1 else f"{how}NAME turns one on"
    return f"turned off: {', '.join(plugin.described for plugin in off)}; {advice}"


def _provides(plugin: Plugin, kind: str, name: str) -> bool:
    """Whether a plugin that is off is known to provide a record, without importing it."""
    package, _, _ = PACKAGES.get((kind, name), "").partition("[")
    return canonical(plugin.distribution) == package or plugin.name == name


def _is_of(source: str, record: Record) -> bool:
    return record.plugin is not None and canonical(source) == canonical(record.plugin.source)


def _require_space(spec: TrainerSpec, behavior: BehaviorSpec) -> None:
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
