"""The typed facade in front of pluggy: the rest of rlcore calls hooks through :class:`Plugins` only.

What plugins answer to the hooks of the status and of summaries is checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

from rlcore.errors import ConfigError, PluginError
from rlcore.plugins.discover import Plugin, import_plugin, installed
from rlcore.plugins.known import RECORDING_ADVICE
from rlcore.plugins.manager import STORES, HookManager, deprecations
from rlcore.plugins.registry import Registry
from rlcore.plugins.select import Selection, decide, not_needed, require_unobstructed, unmatched

if TYPE_CHECKING:
    from rlcore.contracts.curriculum import LessonChange
    from rlcore.contracts.ranks import Launch, Ranks
    from rlcore.contracts.recordings import Recordings
    from rlcore.contracts.results import BehaviorResult, EvaluationResult
    from rlcore.contracts.stats import StatSummary
    from rlcore.plugins.context import RunContext, StopRequests
    from rlcore.settings.blocks import RunConfig

PROCESS_SUMMARY = "rlcore_process_summary"


def load_plugins(
    selection: Selection | None = None, *, strict: bool = False, config_dir: Path | None = None
) -> Plugins:
    """Finds, selects, checks and imports the plugins of this process.

    Raises PluginError if a plugin that was asked for by name cannot be used. Any other plugin that fails is left out,
    and becomes a line in ``warnings``; ``strict`` makes its failure fatal too. Local files in the configuration's
    ``plugins.local`` are relative to ``config_dir``.
    """
    selection = (selection if selection is not None else Selection()).anchored(config_dir)
    found = decide(installed(), selection)
    require_unobstructed(found, selection)
    plugins = Plugins(selection, found, strict=strict)
    plugins.load()
    return plugins


class Plugins(Registry):
    """All plugins of a process, and the calls of their hooks. :func:`load_plugins` creates it.

    Attributes:
        selection: The plugins that were asked for.
        found: The discovered plugins, turned on or off by ``selection``.
        strict: Whether a failure of any plugin is fatal.
        tolerant: Whether nothing is fatal, so that ``rlcore plugins`` can show broken plugins.
        broken: The errors of plugins that were left out, by label.
    """

    def __init__(
        self,
        selection: Selection | None = None,
        found: tuple[Plugin, ...] = (),
        *,
        strict: bool = False,
        tolerant: bool = False,
    ) -> None:
        super().__init__(
            HookManager(strict=strict), selection if selection is not None else Selection(autoload=False), found
        )
        self.strict = strict
        self.tolerant = tolerant
        self._checked: RunConfig | None = None  # the configuration that plugins have checked

    def load(self) -> None:
        """Imports the plugins that are on, lets each add hooks, registers each, and collects the records of all.

        A plugin that fails is left out as a whole. The order of imports and of ``rlcore_addhooks`` does not matter; the
        order of registration is the reverse of that in which hooks are called, see :meth:`HookManager.implementations`.
        Records are collected at once, so that a plugin whose registry fails is left out before any of it is used.
        Raises PluginError for the failure of a plugin that must not be left out.
        """
        imported: list[tuple[Plugin, object]] = []
        for plugin in self.found:
            if plugin.on:
                try:
                    if plugin.refused:
                        raise PluginError(f"{plugin.described}: {plugin.refused}")
                    imported.append((plugin, import_plugin(plugin)))
                except PluginError as error:
                    self._leave_out(plugin, error)
        for step in (self._manager.add_extension_hooks, self._manager.admit):
            for plugin, module in tuple(imported):
                try:
                    step(module, plugin)
                except PluginError as error:
                    imported.remove((plugin, module))
                    self._leave_out(plugin, error)
        if not self.tolerant:
            self._refuse_two_stores()
        for kind in self.kinds:
            self.records(kind)

    def register(self, plugin: object, name: str, distribution: str = "", version: str = "") -> None:
        """Adds an object with hook implementations, such as a test's; calls its ``rlcore_check_config`` if due."""
        owner = Plugin(name, name, distribution, version, why="-p")
        self._manager.admit(plugin, owner)
        try:
            self._refuse_two_stores()
        except PluginError:
            self._manager.expel(owner.label)
            raise
        if self._checked is not None:
            self._manager.require("rlcore_check_config", only=owner.label, config=self._checked)

    @property
    def loaded(self) -> tuple[Plugin, ...]:
        """The plugins that are registered."""
        return tuple(self._manager.owners.values())

    @property
    def registered(self) -> tuple[tuple[Plugin, object], ...]:
        """The objects that :meth:`register` added, each with its plugin."""
        found = {plugin.label for plugin in self.found}
        added = (plugin for plugin in self.loaded if plugin.label not in found)
        return tuple((plugin, self._manager.get_plugin(plugin.label)) for plugin in added)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each plugin that was left out, each unknown name turned off, each distribution
        that is on the path twice, and each deprecated hook."""
        deprecated = (
            f"{plugin.described}: {text}"
            for plugin in self.loaded
            for text in deprecations(self.implemented(plugin.label))
        )
        asked = (*unmatched(self.found, self.selection), *not_needed(self.found, self.selection))
        doubts = (plugin.warning for plugin in self.loaded if plugin.warning)
        return (*self._left_out, *asked, *doubts, *deprecated)

    @property
    def failures(self) -> list[str]:
        """One line for each different failure of a notification, for the closing summary."""
        return [text if count == 1 else f"{text} ({count} times)" for text, count in self._manager.failures.items()]

    @property
    def hook_calls(self) -> Mapping[str, int]:
        """How often rlcore has called each hook; the counts of a run must not grow with its steps."""
        return self._manager.calls

    def implemented(self, label: str) -> tuple[str, ...]:
        """The hooks a loaded plugin implements."""
        plugin = self._manager.get_plugin(label)
        callers = self._manager.get_hookcallers(plugin) if plugin is not None else None
        return tuple(sorted(caller.name for caller in callers or ()))

    def answering(self, hook: str) -> tuple[Plugin, ...]:
        """The plugins that answer a factory hook themselves; wrappers do not count."""
        return self._manager.implementing(hook, wrappers=False)

    @property
    def specifications(self) -> dict[str, tuple[str, Callable[..., Any]]]:
        """The module and the specification of each hook by name: core's, then those that plugins added."""
        return self._manager.specifications

    def recordings(self, what: str) -> Recordings:
        """Return what reads and writes recorded episodes. Raises ConfigError, about ``what``, without such a plugin."""
        found = self._manager.first("rlcore_create_recordings", lambda **_: None, plugins=self)
        if found is None:
            raise ConfigError(f"{what}: no plugin that reads recordings is loaded; {RECORDING_ADVICE}")
        return cast("Recordings", found)

    # ------------------------------------------------------------ status

    def report_status(
        self, run: RunContext, parameters: Collection[str] = (), behaviors: Collection[str] = ()
    ) -> dict[str, Any]:
        """The sections of all plugins; each must be JSON, and belong to one plugin.

        ``parameters`` have sections of their own; a plugin may add to the sections of ``behaviors``. Raises PluginError
        for any other answer.
        """
        from rlcore.contracts.saved_values import plain

        sections: dict[str, Any] = {}
        owners: dict[str, Plugin] = {}
        for owner, reported in self._manager.answers("rlcore_report_status", run=run):
            if reported is not None and not isinstance(reported, Mapping):
                kind = type(reported).__name__
                raise PluginError(f"{owner.described}: rlcore_report_status returned a {kind}, not a mapping or None")
            for name, section in (reported or {}).items():
                earlier = sections.get(name)
                if not (name in behaviors and isinstance(earlier, dict) and isinstance(section, Mapping)):
                    earlier = None
                if name in sections and (earlier is None or not earlier.keys().isdisjoint(section)):
                    raise PluginError(
                        f"{owner.described} and {owners[name].described} both report the status section {name!r}"
                    )
                try:
                    # A copy: what is written again when the run ends is what was reported for its last checkpoint.
                    sections[name] = plain(section) if earlier is None else {**earlier, **plain(section)}
                except (TypeError, RecursionError) as error:
                    raise PluginError(f"{owner.described}: status section {name!r} is not JSON: {error}") from error
                owners[name] = owner
                problem = _section_problem(name, section, parameters, behaviors)
                if problem:
                    raise PluginError(f"{owner.described} reports the status section {name!r}{problem}")
        return sections

    def restore_status(self, run: RunContext, sections: Mapping[str, Any]) -> None:
        """Call ``rlcore_restore_status`` of every plugin with the sections of a status.

        An error of a plugin is raised.
        """
        for _ in self._manager.answers("rlcore_restore_status", {"sections": sections}, run=run):
            pass

    def write_status(self, status: Mapping[str, Any], directory: Path) -> None:
        """Store the training status through ``rlcore_write_status``. Raises PluginError if no answer is True."""
        from rlcore.storage.files.status_file import write_status_file

        hook = "rlcore_write_status"
        answer = self._manager.first(hook, write_status_file, {"status": status}, directory=directory)
        if answer is not True:
            raise PluginError(
                f"{hook} answered {answer!r}, so the status may be stored nowhere; a plugin returns True when it has "
                f"stored it, None to leave that to others, a wrapper what it was given{self._answered_by(hook)}"
            )

    def create_ranks(self, launch: Launch, config: RunConfig, stops: StopRequests) -> Ranks | None:
        """Meet the other processes of the run through ``rlcore_create_ranks``; None if no plugin does so."""
        hook = "rlcore_create_ranks"
        joined = self._manager.first(hook, lambda **_: None, launch=launch, config=config, plugins=self, stops=stops)
        return cast("Ranks | None", joined)

    def read_status(self, directory: Path) -> Mapping[str, Any] | None:
        """Return the training status through ``rlcore_read_status``; None if none is stored.

        Raises PluginError for an answer that is not a JSON mapping.
        """
        from rlcore.contracts.saved_values import plain
        from rlcore.storage.files.status_file import read_status_file

        hook = "rlcore_read_status"
        status = self._manager.first(hook, read_status_file, directory=directory)
        if status is not None and not isinstance(status, Mapping):
            kind = type(status).__name__
            raise PluginError(f"{hook} answered a {kind} instead of a mapping{self._answered_by(hook)}")
        try:
            return None if status is None else cast("Mapping[str, Any]", plain(status))
        except (TypeError, RecursionError) as error:
            raise PluginError(f"{hook} answered what is not JSON: {error}{self._answered_by(hook)}") from error

    # ------------------------------------------------------------ interventions

    def modify_config(
        self, document: Callable[[], dict[str, Any]], changed: Callable[[Plugin, dict[str, Any]], None]
    ) -> None:
        """Call ``changed`` with each plugin, and with the ``document()`` that its ``rlcore_modify_config`` changed.

        Raises PluginError for a hook that returns something.
        """
        hook = "rlcore_modify_config"
        for owner, implementation in self._manager.each(hook):
            data = document()
            answer = self._manager.one(implementation, hook, document=data)
            if answer is not None:
                raise PluginError(
                    f"{owner.described}: {hook} returned a {type(answer).__name__}; change the document in place"
                )
            changed(owner, data)

    def check_config(self, config: RunConfig) -> None:
        """A plugin's ConfigError refuses the configuration; any other error becomes a PluginError."""
        self._checked = config
        self._manager.require("rlcore_check_config", config=config)

    def process_summary(
        self, run: RunContext, behavior: str, step: int, stats: Mapping[str, StatSummary]
    ) -> dict[str, StatSummary]:
        """``stats`` with what plugins add and replace. A plugin that fails is reported, and changes nothing."""
        processed = dict(stats)
        for owner, implementation in self._manager.each(PROCESS_SUMMARY):
            with self._manager.tolerated(owner, PROCESS_SUMMARY):
                shown = MappingProxyType(processed)
                arguments = {"run": run, "behavior": behavior, "step": step, "stats": shown}
                answer = self._manager.one(implementation, PROCESS_SUMMARY, **arguments)
                processed = processed | _checked_statistics(answer, owner.described)
        return processed

    # ------------------------------------------------------------ notifications

    def run_started(self, run: RunContext) -> None:
        """Call ``rlcore_run_started`` of every plugin."""
        self._manager.notify("rlcore_run_started", run=run)

    def summary_written(self, run: RunContext, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        """Call ``rlcore_summary_written`` of every plugin."""
        self._manager.notify("rlcore_summary_written", run=run, behavior=behavior, step=step, stats=stats)

    def checkpoint_saved(self, run: RunContext, step: int, path: Path) -> None:
        """Call ``rlcore_checkpoint_saved`` of every plugin."""
        self._manager.notify("rlcore_checkpoint_saved", run=run, step=step, path=path)

    def checkpoint_removed(self, run: RunContext, step: int, path: Path) -> None:
        """Call ``rlcore_checkpoint_removed`` of every plugin."""
        self._manager.notify("rlcore_checkpoint_removed", run=run, step=step, path=path)

    def evaluated(self, run: RunContext, step: int, result: EvaluationResult) -> None:
        """Call ``rlcore_evaluated`` of every plugin."""
        self._manager.notify("rlcore_evaluated", run=run, step=step, result=result)

    def lesson_changed(self, run: RunContext, step: int, change: LessonChange) -> None:
        """Call ``rlcore_lesson_changed`` of every plugin."""
        self._manager.notify("rlcore_lesson_changed", run=run, step=step, change=change)

    def run_finished(
        self,
        run: RunContext,
        outcome: Literal["done", "interrupted", "failed"],
        error: BaseException | None,
        results: Mapping[str, BehaviorResult],
    ) -> None:
        """Call ``rlcore_run_finished`` of every plugin."""
        self._manager.notify("rlcore_run_finished", run=run, outcome=outcome, error=error, results=results)

    # ------------------------------------------------------------ inside

    def _answered_by(self, hook: str) -> str:
        named = " or ".join(plugin.described for plugin in self._manager.implementing(hook))
        return f"; it is answered by {named}" if named else ""

    def _refuse_two_stores(self) -> None:
        owners = self.answering(STORES)
        if len(owners) > 1:
            both = " and ".join(owner.described for owner in owners)
            off = " or ".join(f"-p no:{owner.label}" for owner in owners)
            what = f"{STORES} is answered by {both}, and only one would store the status"
            raise PluginError(f"{what}; turn one off, for example with {off}")

    def _leave_out(self, plugin: Plugin, error: PluginError) -> None:
        """Removes a plugin that cannot be used. Raises its error if it was asked for by name, and records it if not."""
        self._manager.expel(plugin.label)
        asked = plugin.asked and not (plugin.why == "config" and self.selection.lenient)
        if (self.strict or asked) and not self.tolerant:
            raise error
        self.broken[plugin.label] = error

    def _give_up(self, label: str, error: PluginError) -> None:
        plugin = next((each for each in self.found if each.label == label), None)
        if plugin is None:  # an object that a program registered, so it is wanted
            self._manager.expel(label)
            raise error
        self._leave_out(plugin, error)


def _section_problem(name: Any, section: Any, parameters: Collection[str], behaviors: Collection[str]) -> str:
    """What keeps a plugin from reporting a section of the status; empty if nothing does."""
    if not isinstance(name, str):
        return ", whose name is not text"
    if name == "metadata":
        return ", which is rlcore's own"
    if name in parameters:
        return ", which is an environment parameter's"
    if name not in behaviors:
        return ""
    if not isinstance(section, Mapping):
        return f", which is a behavior's, with a {type(section).__name__} instead of a mapping to add to it"
    own = [key for key in ("checkpoints", "final_checkpoint") if key in section]
    return f": {own[0]!r} is rlcore's own" if own else ""


def _checked_statistics(answer: Any, owner: str) -> dict[str, StatSummary]:
    from rlcore.contracts.stats import StatSummary

    if answer is None:
        return {}
    if not isinstance(answer, Mapping):
        raise PluginError(f"{owner}: {PROCESS_SUMMARY} returned a {type(answer).__name__}, not a mapping or None")
    checked = {}
    for tag, value in answer.items():
        if not isinstance(tag, str) or not tag:
            raise PluginError(f"{owner}: {PROCESS_SUMMARY} returned the tag {tag!r}, which is not text")
        if isinstance(value, bool) or not isinstance(value, Real | StatSummary):
            kind = type(value).__name__
            raise PluginError(
                f"{owner}: {PROCESS_SUMMARY} returned a {kind} for {tag!r}, not a number or a StatSummary"
            )
        checked[tag] = value if isinstance(value, StatSummary) else StatSummary.of([float(value)])
    return checked
