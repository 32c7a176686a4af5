"""The facade in front of pluggy: the rest of rlcore calls hooks through :class:`Plugins` only.

What plugins answer to the hooks of the status and of summaries is checked here.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rlcore import hookspecs
from rlcore.errors import ConfigError, PluginError, did_you_mean
from rlcore.plugins.discover import Plugin, canonical, import_plugin, installed
from rlcore.plugins.failures import blamed
from rlcore.plugins.manager import STORES, HookManager
from rlcore.plugins.process_state import noticing
from rlcore.plugins.registry import Registry
from rlcore.plugins.select import PluginSwitch, Selection, decide, needs, obstacles, require_unobstructed, unmatched
from rlcore.records import ConfigSection, EvaluationSection, Record

if TYPE_CHECKING:
    from rlcore.contracts.ranks import Launch, Ranks
    from rlcore.contracts.stats import StatSummary
    from rlcore.plugins.context import RunContext
    from rlcore.plugins.stops import StopRequests
    from rlcore.settings.blocks import RunConfig

log = logging.getLogger(__name__)

ENV_REQUIRE = "RLCORE_REQUIRE"  # distributions without which no command and no program runs
PROCESS_SUMMARY = "rlcore_process_summary"


def load_plugins(
    selection: Selection | None = None, *, strict: bool = False, config_dir: Path | None = None
) -> Plugins:
    """Finds, selects, checks and imports the plugins of this process.

    Raises PluginError if a plugin that was asked for by name cannot be used. Any other plugin that fails is left out,
    and becomes a line in ``warnings``; ``strict`` makes its failure fatal too. Local files in the configuration's
    ``plugins.local`` are relative to ``config_dir``.
    """
    selection = (selection or Selection()).anchored(config_dir)
    decided = decide(installed(), selection)
    require_unobstructed(decided, selection)
    plugins = Plugins(selection, decided, strict=strict)
    plugins.load()
    require_distributions(plugins, os.environ.get(ENV_REQUIRE, ""))
    return plugins


def require_distributions(plugins: Plugins, required: str) -> None:
    """Raise PluginError unless all plugins of each distribution in ``required``, separated by commas, are active.

    A company's checks refuse what they know only while they are loaded: a plugin that is off, refused or broken would
    let everything pass.
    """
    loaded = {plugin.label for plugin in plugins.loaded}
    by_distribution: dict[str, list[Plugin]] = {}
    for plugin in plugins.found:
        by_distribution.setdefault(canonical(plugin.distribution), []).append(plugin)
    for name in map(str.strip, required.split(",")):
        if not name:
            continue
        of_distribution = by_distribution.get(canonical(name))
        if not of_distribution:
            known = sorted({plugin.distribution for plugin in plugins.found if plugin.distribution})
            hint = did_you_mean(name, known)
            raise PluginError(f"{ENV_REQUIRE} asks for {name!r}, of which no plugin is installed{hint}; install it")
        for plugin in of_distribution:
            if plugin.label in loaded:
                continue
            off = needs(plugin) or f"is turned off ({plugin.why}); turn it on with -p {plugin.label}"
            reason = plugins.broken.get(plugin.label) or f"{plugin.described} {off}"
            raise PluginError(f"{ENV_REQUIRE} asks for {name!r}, whose hooks are not active: {reason}")


class Plugins(Registry):
    """All plugins of a process, and the calls of their hooks. :func:`load_plugins` creates it.

    Attributes:
        selection: The plugins that were asked for.
        found: The discovered plugins, turned on or off by ``selection``.
        strict: Whether a failure of any plugin is fatal.
        tolerant: Whether nothing is fatal, so that ``rlcore plugins`` can show broken plugins.
        broken: The errors of plugins that were left out, by label.
        listeners: Functions of this process that get the name and the arguments of each notification. They are no
            plugins, so that a run is the same with them.
    """

    def __init__(
        self,
        selection: Selection | None = None,
        found: tuple[Plugin, ...] = (),
        *,
        strict: bool = False,
        tolerant: bool = False,
    ) -> None:
        selection = selection or Selection(autoload=False)
        manager = HookManager(hookspecs, strict=strict)
        super().__init__(manager, selection, found, strict=strict, tolerant=tolerant)
        self.listeners: list[Callable[[str, Mapping[str, Any]], None]] = []
        self._noticed: list[str] = []  # changes of the process by imports
        self._checked: RunConfig | None = None  # the configuration that plugins have checked

    @classmethod
    def inspect(cls, name: str | None = None, selection: Selection | None = None) -> tuple[Plugins, tuple[Plugin, ...]]:
        """Return the plugins that are on, loaded even where some are broken or clash, and those that ``name`` means.

        ``name`` is NAME, DIST/NAME, ``module:acme.hooks`` or the name of a record; None means all. By default, all
        installed plugins are on, and a local one that ``name`` means. Raises PluginError if no plugin has the name.
        """
        switch = PluginSwitch(name, True, "-p") if name else None
        if selection is None:
            selection = Selection()
            if switch is not None and switch.local:
                selection = Selection(switches=(switch,))
        plugins = cls(selection, decide(installed(), selection), tolerant=True)
        plugins.load()
        if switch is None:
            return plugins, plugins.found
        matching = [plugin for plugin in plugins.found if switch.matches(plugin)]
        if not matching:
            records = [record for kind in plugins.kinds for record in plugins.records(kind)]
            owners = [record.plugin for record in records if record.name == name]
            matching = [plugin for plugin in plugins.found if plugin in owners]
        if not matching:
            names = sorted(plugin.name for plugin in plugins.found)
            hint = did_you_mean(switch.reference, names)
            raise PluginError(f"plugin {name!r} is not installed; installed: {', '.join(names)}{hint}")
        return plugins, tuple(matching)

    def load(self) -> None:
        """Imports the plugins that are on, lets each add hooks, registers each, and collects the records of all.

        A plugin that fails is left out as a whole. The order of imports and of ``rlcore_addhooks`` does not matter; the
        order of registration is the reverse of that in which hooks are called, see :meth:`HookManager.implementations`.
        Records are collected at once, so that a plugin whose registry fails is left out before any of it is used.
        Raises PluginError for the failure of a plugin that must not be left out.
        """
        usable = [plugin for plugin in self.found if plugin.on]
        dependents = Counter(name for plugin in usable for name in plugin.needs)
        # What others require comes first: it may watch what their imports change (watch_process).
        in_order = sorted(usable, key=lambda plugin: -dependents[canonical(plugin.distribution)])
        modules: dict[Plugin, object] = {}
        for plugin in in_order:
            with self._leaving_out(plugin):
                modules[plugin] = self._imported(plugin)
        # pluggy calls the plugins in the order of their registration, which must not depend on who requires whom.
        for plugin in usable:
            if plugin in modules:
                with self._leaving_out(plugin):
                    self._manager.admit(modules[plugin], plugin)
        if not self.tolerant:
            self._refuse_two_stores()
        for kind in self.kinds:
            self.records(kind)

    def _imported(self, plugin: Plugin) -> object:
        """Import a plugin, and let it add hooks."""
        if plugin.refused:
            raise PluginError(f"{plugin.described}: {plugin.refused}")
        # Imports that change the process change runs that use nothing of the plugin.
        with noticing(plugin.described, self._noticed.append):
            module = import_plugin(plugin)
        self._manager.add_extension_hooks(module, plugin)
        return module

    def leave_out_unusable_sections(self, given: Collection[str]) -> None:
        """Leave out the plugins with a section that no configuration could have, with a warning for each.

        The settings class of the section cannot be imported or fails with its defaults, or two plugins have a section
        of one name. ``given`` are the blocks of the configuration: about these, the error is raised. So is the error
        of a plugin that was asked for by name.
        """
        kinds = {ConfigSection.kind: "target"}
        if EvaluationSection.kind in given:
            kinds[EvaluationSection.kind] = "settings"
        for kind, attribute in kinds.items():
            records = self.records(kind)
            for record in records:
                rivals = [rival for rival in records if rival.name == record.name]
                wanted = record if len(rivals) == 1 else self._wanted(rivals)
                try:
                    if record is not wanted:
                        raise PluginError(self.clash(rivals))
                    _require_usable(record, attribute)
                except PluginError as error:
                    if record.plugin is None or (record.name in given and wanted in (None, record)):
                        raise
                    with self._leaving_out(record.plugin):
                        raise
                    log.warning("%s; the plugin is left out; run rlcore plugins doctor", error)

    def _wanted(self, rivals: Sequence[Record]) -> Record | None:
        """The only one of several records that the run used, or whose plugin was asked for by name."""
        first = rivals[0]
        used = self.selection.meant(first.kind, first.name)
        wanted = [rival for rival in rivals if rival.reference == used]
        if not wanted:
            wanted = [rival for rival in rivals if rival.plugin is not None and rival.plugin.asked]
        return wanted[0] if len(wanted) == 1 else None

    def register(self, plugin: object, name: str, distribution: str = "", version: str = "") -> None:
        """Adds an object with hook implementations, such as a test's; calls its ``rlcore_check_config`` if due."""
        owner = Plugin(name, name, distribution, version, why="-p")
        self._manager.admit(plugin, owner)
        try:
            self._refuse_two_stores()
        except PluginError:
            self._manager.expel(owner.label)
            raise
        if self._checked is not None:  # a check that comes late must not let a configuration pass
            self._manager.require("rlcore_check_config", only=owner.label, config=self._checked)

    @property
    def loaded(self) -> tuple[Plugin, ...]:
        """The plugins that are registered."""
        return tuple(self._manager.owners.values())

    @property
    def registered(self) -> tuple[tuple[Plugin, object], ...]:
        """The objects that :meth:`register` added, each with its plugin."""
        discovered = {plugin.label for plugin in self.found}
        added = []
        for plugin in self.loaded:
            if plugin.label not in discovered:
                added.append((plugin, self._manager.get_plugin(plugin.label)))
        return tuple(added)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each plugin that was left out, each unknown name, each name that two plugins or records have,
        each distribution that is on the path twice, and each deprecated hook."""
        names = list(unmatched(self.found, self.selection))
        for message, rivals, _ in self.obstacles():
            if len(rivals) > 1:
                names.append(message)
        names += self._of_default_names
        lines = [*self._left_out, *self._noticed, *names]
        lines += [plugin.warning for plugin in self.loaded if plugin.warning]
        for plugin in self.loaded:
            lines += [f"{plugin.described}: {text}" for text in self.deprecations(plugin)]
        return tuple(lines)

    def obstacles(self) -> Iterator[tuple[str, tuple[Plugin, ...], bool]]:
        """Problems of the choice of plugins: a message, the plugins that it concerns, and whether it is fatal.

        Plugins are missing, or several that are on have one name.
        """
        return obstacles(self.found, self.selection)

    def deprecations(self, plugin: Plugin) -> list[str]:
        """One line for each deprecated hook that a plugin implements: what to use instead, and until when."""
        implemented = self.implemented(plugin.label)
        return [
            f"{hook.name} is deprecated: {hook.deprecated}; rlcore {hook.removed_in} will no longer call it"
            for hook in hookspecs.HOOKS
            if hook.deprecated is not None and hook.name in implemented
        ]

    @property
    def failures(self) -> list[str]:
        """One line for each different failure of a notification, for the closing summary."""
        lines = []
        for text, count in self._manager.failures.items():
            lines.append(text if count == 1 else f"{text} ({count} times)")
        return lines

    @property
    def hook_calls(self) -> Mapping[str, int]:
        """How often rlcore has called each hook; the counts of a run must not grow with its steps."""
        return self._manager.calls

    def count_calls(self, calls: Counter[str]) -> None:
        """Count the calls of each hook in ``calls`` from now on, those of hooks that plugins added included."""
        self._manager.count_calls(calls)

    def implemented(self, label: str) -> tuple[str, ...]:
        """The hooks a loaded plugin implements."""
        plugin = self._manager.get_plugin(label)
        if plugin is None:
            return ()
        callers = self._manager.get_hookcallers(plugin) or ()
        return tuple(sorted(caller.name for caller in callers))

    def answering(self, hook: str) -> tuple[Plugin, ...]:
        """The plugins that answer a factory hook themselves; wrappers do not count."""
        return self._manager.implementing(hook, wrappers=False)

    @property
    def specifications(self) -> dict[str, Callable[..., Any]]:
        """The specification of each hook by name: core's, then those that plugins added."""
        return self._manager.specifications

    # ------------------------------------------------------------ hooks

    def notify(self, hook: str, **arguments: Any) -> None:
        """Call a notification, such as ``rlcore_run_started``, of every plugin, and before them the listeners."""
        for listen in self.listeners:
            listen(hook, arguments)
        self._manager.notify(hook, **arguments)

    def create_ranks(self, launch: Launch, config: RunConfig, stops: StopRequests) -> Ranks | None:
        """Meet the other processes of the run through ``rlcore_create_ranks``; None if no plugin does so."""
        hook = "rlcore_create_ranks"
        arguments: dict[str, Any] = {"launch": launch, "config": config, "plugins": self, "stops": stops}
        answer = self._manager.create(hook, lambda **_: None, **arguments)
        ranks: Ranks | None = answer.value
        return ranks

    def modify_config(
        self, document: Callable[[], dict[str, Any]], changed: Callable[[Plugin, dict[str, Any]], None]
    ) -> None:
        """Call ``changed`` with each plugin, and with the ``document()`` that its ``rlcore_modify_config`` changed.

        Raises PluginError for a hook that returns something.
        """
        hook = "rlcore_modify_config"
        for owner, implementation in self._manager.begin_call(hook):
            data = document()
            answer = self._manager.call_one(implementation, hook, document=data)
            if answer is not None:
                kind = type(answer).__name__
                raise PluginError(f"{owner.described}: {hook} returned a {kind}; change the document in place")
            changed(owner, data)

    def check_config(self, config: RunConfig) -> list[str]:
        """A plugin's ConfigError refuses the configuration; any other error becomes a PluginError.

        Returns what plugins could not check, a sentence of each.
        """
        self._checked = config
        answers = self._manager.require("rlcore_check_config", config=config)
        return list(map(str, answers))

    def process_summary(
        self, run: RunContext, behavior: str, step: int, stats: Mapping[str, StatSummary]
    ) -> dict[str, StatSummary]:
        """``stats`` with what plugins add and replace. A plugin that fails is reported, and changes nothing."""
        processed = dict(stats)
        for owner, implementation in self._manager.begin_call(PROCESS_SUMMARY):
            with self._manager.tolerated(owner, PROCESS_SUMMARY):
                arguments = {"run": run, "behavior": behavior, "step": step, "stats": MappingProxyType(processed)}
                answer = self._manager.call_one(implementation, PROCESS_SUMMARY, **arguments)
                processed = processed | _checked_statistics(answer, owner.described)
        return processed

    # ------------------------------------------------------------ status

    def report_status(
        self, run: RunContext, parameters: Collection[str] = (), behaviors: Collection[str] = ()
    ) -> dict[str, Any]:
        """The sections of all plugins; each must be JSON, and belong to one plugin.

        ``parameters`` have sections of their own; a plugin may add to the sections of ``behaviors``. Raises PluginError
        for any other answer.
        """
        hook = "rlcore_report_status"
        sections: dict[str, Any] = {}
        # Whose each section is, and whose each key of a behavior's section: one owner can have it.
        owners: dict[tuple[str, ...], str] = {("metadata",): "rlcore"}
        for name in parameters:
            owners[name,] = "rlcore"
        for name in behaviors:
            for key in ("checkpoints", "final_checkpoint"):
                owners[name, key] = "rlcore"
        for owner, implementation in self._manager.begin_call(hook):
            answer = self._manager.call_one(implementation, hook, run=run)
            reported = _json_mapping(answer, f"{owner.described}: {hook}") or {}
            for name, section in reported.items():
                places: list[tuple[str, ...]] = [(name,)]
                if name in behaviors:
                    if not isinstance(section, Mapping):
                        problem = f"the status section of behavior {name!r} is not a mapping"
                        raise PluginError(f"{owner.described}: {problem}")
                    places = [(name, key) for key in section]
                    section = {**sections.get(name, {}), **section}
                for place in places:
                    if place in owners:
                        rivals = f"{owner.described} and {owners[place]}"
                        raise PluginError(f"{rivals} both report the status section {'.'.join(place)!r}")
                    owners[place] = owner.described
                sections[name] = section
        return sections

    def restore_status(self, run: RunContext, sections: Mapping[str, Any]) -> None:
        """Call ``rlcore_restore_status`` of every plugin with the sections of a status.

        An error of a plugin is raised.
        """
        hook = "rlcore_restore_status"
        for _, implementation in self._manager.begin_call(hook):
            copy = deepcopy(dict(sections))  # no plugin sees what another one changes
            self._manager.call_one(implementation, hook, run=run, sections=copy)

    def write_status(self, status: Mapping[str, Any], directory: Path) -> None:
        """Store the training status through ``rlcore_write_status``. Raises PluginError if no answer is True."""
        from rlcore.plugins.core import write_status_file

        def write(**_: Any) -> bool:
            return write_status_file(status, directory)  # whatever a plugin did to its copy

        copy = deepcopy(dict(status))
        answer = self._manager.create(STORES, write, status=copy, directory=directory).value
        if answer is not True:
            raise PluginError(
                f"{STORES} answered {answer!r}, so the status may be stored nowhere; a plugin returns True when it has "
                f"stored it, None to leave that to others, a wrapper what it was given{self._answered_by(STORES)}"
            )

    def read_status(self, directory: Path) -> Mapping[str, Any] | None:
        """Return the training status through ``rlcore_read_status``; None if none is stored.

        Raises PluginError for an answer that is not a JSON mapping.
        """
        from rlcore.plugins.core import read_status_file

        hook = "rlcore_read_status"
        status = self._manager.create(hook, read_status_file, directory=directory).value
        return _json_mapping(status, hook, self._answered_by(hook))

    # ------------------------------------------------------------ inside

    def _answered_by(self, hook: str) -> str:
        plugins = " or ".join(plugin.described for plugin in self._manager.implementing(hook))
        return f"; it is answered by {plugins}" if plugins else ""

    def _refuse_two_stores(self) -> None:
        owners = self.answering(STORES)
        if len(owners) > 1:
            names = " and ".join(owner.described for owner in owners)
            off = " or ".join(f"-p no:{owner.label}" for owner in owners)
            problem = f"{STORES} is answered by {names}, and only one would store the status"
            raise PluginError(f"{problem}; turn one off, for example with {off}")


def _require_usable(record: Record, attribute: str) -> None:
    """Raise PluginError if the settings class of a record cannot be imported, or fails with its defaults.

    A class that refuses its defaults, as SettingError does, has every run give the block.
    """
    import attrs

    from rlcore.settings.fields import FieldInfo

    cls = record.resolve(attribute)
    for field in FieldInfo.fields_of(cls).values():
        if field.default is attrs.NOTHING:  # every run gives the block
            return
    doing = f"in its settings class {cls.__name__}"
    with blamed(record.described, doing), suppress(ConfigError, ValueError, TypeError):
        cls()


def _json_mapping(answer: Any, what: str, answered_by: str = "") -> dict[str, Any] | None:
    """A copy of an answer that must be a JSON mapping or None."""
    from rlcore.contracts.states import json_values

    try:
        copy = json_values(answer)
    except (TypeError, RecursionError) as error:
        raise PluginError(f"{what} answered what is not JSON: {error}{answered_by}") from error
    if copy is None or isinstance(copy, dict):
        return copy
    raise PluginError(f"{what} answered a {type(answer).__name__} instead of a mapping{answered_by}")


def _checked_statistics(answer: Any, owner: str) -> dict[str, StatSummary]:
    from rlcore.contracts.stats import StatSummary

    if not isinstance(answer, Mapping | None):
        raise PluginError(f"{owner}: {PROCESS_SUMMARY} returned a {type(answer).__name__}, not a mapping or None")
    checked = {}
    for tag, value in (answer or {}).items():
        is_tag = isinstance(tag, str) and tag
        is_statistic = isinstance(value, Real | StatSummary) and not isinstance(value, bool)
        if not is_tag or not is_statistic:
            raise PluginError(
                f"{owner}: {PROCESS_SUMMARY} returned {tag!r}: {value!r}; a tag is text, and its value a number or a "
                "StatSummary"
            )
        if not isinstance(value, StatSummary):
            value = StatSummary.of([float(value)])
        checked[tag] = value
    return checked
