"""The typed facade in front of pluggy: the rest of rlcore calls hooks through :class:`Plugins` and nothing else.

Registries, status reports and notifications are called implementation by implementation, so that an error has an
owner and one plugin's cannot reach another. Factories go through pluggy, which knows about wrappers; there the
owner of an error is found from its traceback.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from rlcore.errors import PluginError, RlcoreError
from rlcore.plugins import candidates
from rlcore.plugins.defaults import DEFAULTS_NAME, CoreDefaults
from rlcore.plugins.discover import Decision, Selection, decide, require_unobstructed
from rlcore.plugins.dispatch import Dispatch, failed
from rlcore.plugins.loading import load
from rlcore.plugins.lookup import Owned, find
from rlcore.plugins.manager import HookManager, LoadedPlugin
from rlcore.plugins.records import (
    CommandSpec,
    CurriculumSpec,
    EnvironmentSpec,
    Record,
    RecordingFormatSpec,
    RewardProviderSpec,
    StatsWriterSpec,
    TrainerSpec,
)
from rlcore.plugins.registry import Registry
from rlcore.plugins.targets import import_target, require_protocol, require_space

if TYPE_CHECKING:
    from rlcore.curriculum import Curriculum, LessonChange
    from rlcore.environment import BehaviorSpec, Environment
    from rlcore.plugins.run_context import RunContext
    from rlcore.recordings import Recording
    from rlcore.results import EvaluationResult
    from rlcore.rewards import RewardProvider
    from rlcore.settings import BehaviorSettings, EnvironmentSettings, RunConfig
    from rlcore.stats import StatSummary, StatsWriter
    from rlcore.trainer import Trainer

__all__ = ["Owned", "Plugins", "load_plugins"]

R = TypeVar("R", bound=Record)


def load_plugins(
    selection: Selection | None = None, *, strict: bool = False, config_dir: Path | None = None
) -> Plugins:
    """Finds, chooses, checks and imports the plugins of this process.

    A plugin somebody asked for raises PluginError if it cannot be used; one that is merely installed becomes a line
    in ``warnings``. ``strict`` makes every failure fatal. ``config_dir`` is what local files in the configuration's
    ``plugins.local`` are relative to.
    """
    selection = (selection if selection is not None else Selection()).anchored(config_dir)
    decisions = decide(candidates.installed(), selection)
    require_unobstructed(decisions, selection)
    plugins = Plugins(selection, decisions, strict=strict)
    plugins.load()
    return plugins


class Plugins:
    """All plugins of a process."""

    def __init__(
        self,
        selection: Selection | None = None,
        decisions: tuple[Decision, ...] = (),
        *,
        strict: bool = False,
        tolerant: bool = False,
    ) -> None:
        self.selection = selection if selection is not None else Selection(autoload=False)
        self.decisions = decisions
        self.strict = strict
        self.tolerant = tolerant  # for `rlcore plugins`: nothing is fatal, so that what is broken can be shown
        self.broken: dict[str, str] = {}  # label -> message, of plugins that were left out
        self._targets: dict[str, Any] = {}
        self._configured: RunConfig | None = None
        self._manager = HookManager()
        self._manager.register(CoreDefaults(self._make), name=DEFAULTS_NAME)
        self._dispatch = Dispatch(self._manager, strict=strict)
        self._registry = Registry(self._manager, self._dispatch, self._give_up)

    def load(self) -> None:
        """Imports and registers what was decided."""
        load(self._manager, self.decisions, self._left_out)

    def register(self, plugin: object, name: str, distribution: str = "", version: str = "") -> None:
        """Adds a plugin that is an object (a test's, a program's own); it hears of what was configured before."""
        owner = LoadedPlugin(name, distribution, version, why="-p", module=name)
        self._manager.admit(plugin, owner)
        if self._configured is not None:
            self._dispatch.notify("rlcore_configured", only=owner.label, config=self._configured)

    @property
    def loaded(self) -> tuple[LoadedPlugin, ...]:
        return tuple(self._manager.owners.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each installed plugin that was left out."""
        return tuple(self.broken.values())

    @property
    def failures(self) -> list[str]:
        """One line for each way in which notifications failed, for the closing summary."""
        return [text if count == 1 else f"{text} ({count} times)" for text, count in self._dispatch.failures.items()]

    @property
    def hook_calls(self) -> Mapping[str, int]:
        """How often rlcore has called each hook: a run's counts must not grow with its steps."""
        return self._dispatch.calls

    def implemented(self, label: str) -> tuple[str, ...]:
        """The hooks a loaded plugin implements."""
        plugin = self._manager.get_plugin(label)
        callers = self._manager.get_hookcallers(plugin) if plugin is not None else None
        return tuple(sorted(caller.name for caller in callers or ()))

    def answering(self, hook: str) -> tuple[LoadedPlugin, ...]:
        """The plugins that answer a factory hook by themselves (core and wrappers do not count)."""
        return tuple(
            self._manager.owner(implementation.plugin_name)
            for implementation in self._manager.implementations(hook)
            if not implementation.wrapper and implementation.plugin_name != DEFAULTS_NAME
        )

    # ------------------------------------------------------------ registries

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of records there are: core's (trainer, environment and so on), then those that plugins added."""
        return tuple(self._manager.registries)

    def records(self, kind: str) -> tuple[Owned, ...]:
        """All records of a kind, sorted by name."""
        return self._registry.records(kind)

    def brought_by(self, label: str) -> tuple[Record, ...]:
        """All records of one plugin, by kind and name."""
        return tuple(owned.record for kind in self.kinds for owned in self.records(kind) if owned.label == label)

    def record(self, record_class: type[R], reference: str) -> R:
        """The one called NAME or DIST/NAME.

        Nobody's is NotInstalled, with those there are and the nearest; more than one is a PluginError.
        """
        return find(record_class, reference, self.records(record_class.kind), self.decisions, self.warnings)

    def trainer(self, reference: str) -> TrainerSpec:
        """The trainer called NAME or DIST/NAME."""
        return self.record(TrainerSpec, reference)

    def reward_provider(self, reference: str) -> RewardProviderSpec:
        return self.record(RewardProviderSpec, reference)

    def stats_writer(self, reference: str) -> StatsWriterSpec:
        return self.record(StatsWriterSpec, reference)

    def environment(self, reference: str) -> EnvironmentSpec:
        return self.record(EnvironmentSpec, reference)

    def recording_format(self, reference: str | None = None) -> RecordingFormatSpec:
        """The format called NAME or DIST/NAME; without one, the only one there is."""
        records = self.records("recording")
        if reference is None and len(records) > 1:
            choices = " or ".join(owned.reference for owned in records)
            raise PluginError(f"there are several recording formats; say which with --record-format: {choices}")
        if reference is None:
            reference = records[0].reference if records else "minari"
        return self.record(RecordingFormatSpec, reference)

    def curriculum(self, reference: str) -> CurriculumSpec:
        return self.record(CurriculumSpec, reference)

    def command(self, reference: str) -> CommandSpec:
        return self.record(CommandSpec, reference)

    def resolve(self, record: Record, attribute: str = "target") -> Any:
        """Imports what a record names in ``attribute``; PluginError names the record and its owner."""
        reference = getattr(record, attribute)
        if reference not in self._targets:
            self._targets[reference] = import_target(reference, self.described(record))
        return self._targets[reference]

    def described(self, record: Record) -> str:
        """The record with its plugin, distribution and version, for messages."""
        return self._registry.described(record)

    def reference(self, record: Record) -> str:
        """DIST/NAME of a record."""
        return self._registry.reference(record)

    # ------------------------------------------------------------ recordings

    def read_recording(self, path: str | Path, behavior: str, start: Path = Path()) -> Recording:
        """The whole recording that ``path``, relative to ``start``, names; ConfigError if it is missing or unsound."""
        from rlcore.plugins.recording import read_recording

        return read_recording(self, path, behavior, start)

    def recorded_behavior(self, path: str | Path, behavior: str, start: Path = Path()) -> BehaviorSpec:
        """The behavior of the recording that ``path``, relative to ``start``, names, without reading its episodes."""
        from rlcore.plugins.recording import recorded_behavior

        return recorded_behavior(self, path, behavior, start)

    # ------------------------------------------------------------ factories

    def create_trainer(
        self, spec: TrainerSpec, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext
    ) -> Trainer:
        from rlcore.trainer import Trainer

        require_space(spec, behavior)
        made = self._dispatch.first("rlcore_create_trainer", spec=spec, settings=settings, behavior=behavior, run=run)
        require_protocol(made, Trainer, self.described(spec))
        return cast(Trainer, made)

    def create_reward_provider(
        self, spec: RewardProviderSpec, settings: Any, behavior: BehaviorSpec, run: RunContext
    ) -> RewardProvider:
        from rlcore.rewards import RewardProvider

        made = self._dispatch.first(
            "rlcore_create_reward_provider", spec=spec, settings=settings, behavior=behavior, run=run
        )
        require_protocol(made, RewardProvider, self.described(spec))
        return cast(RewardProvider, made)

    def create_stats_writer(self, spec: StatsWriterSpec, settings: Any, run: RunContext) -> StatsWriter:
        from rlcore.stats import StatsWriter

        made = self._dispatch.first("rlcore_create_stats_writer", spec=spec, settings=settings, run=run)
        require_protocol(made, StatsWriter, self.described(spec))
        return cast(StatsWriter, made)

    def create_curriculum(self, spec: CurriculumSpec, blocks: Mapping[str, Any], run: RunContext) -> Curriculum:
        """The curriculum of all parameters in ``blocks``, which hold their settings."""
        from rlcore.curriculum import Curriculum

        made = self._make(spec, "rlcore_curricula", blocks, run)
        require_protocol(made, Curriculum, self.described(spec))
        return cast(Curriculum, made)

    def create_environment(self, spec: EnvironmentSpec, settings: EnvironmentSettings, run: RunContext) -> Environment:
        from rlcore.environment import Environment

        made = self._dispatch.first("rlcore_create_environment", spec=spec, settings=settings, run=run)
        require_protocol(made, Environment, self.described(spec))
        return cast(Environment, made)

    # ------------------------------------------------------------ status

    def report_status(
        self, run: RunContext, parameters: Collection[str] = (), behaviors: Collection[str] = ()
    ) -> dict[str, Any]:
        """The sections of all plugins; each must be JSON, and belong to one plugin.

        ``parameters`` have sections of their own; to those of ``behaviors`` a plugin may add.
        """
        from rlcore.files.plain import plain

        sections: dict[str, Any] = {}
        owners: dict[str, LoadedPlugin] = {}
        for owner, reported in self._dispatch.each("rlcore_report_status", run=run):
            if reported is not None and not isinstance(reported, Mapping):
                kind = type(reported).__name__
                raise PluginError(f"{owner.described}: rlcore_report_status returned a {kind}, not a mapping or None")
            for name, section in (reported or {}).items():
                if name in sections:
                    raise PluginError(
                        f"{owner.described} and {owners[name].described} both report the status section {name!r}"
                    )
                try:
                    # A copy: what is written again when the run ends is what was reported for its last checkpoint.
                    sections[name] = plain(section)
                except (TypeError, RecursionError) as error:
                    raise PluginError(f"{owner.described}: status section {name!r} is not JSON: {error}") from error
                owners[name] = owner
                problem = _section_problem(name, section, parameters, behaviors)
                if problem:
                    raise PluginError(f"{owner.described} reports the status section {name!r}{problem}")
        return sections

    def restore_status(self, run: RunContext, sections: Mapping[str, Any]) -> None:
        for _ in self._dispatch.each("rlcore_restore_status", {"sections": sections}, run=run):
            pass

    def write_status(self, status: Mapping[str, Any], directory: Path) -> None:
        answer = self._dispatch.first_of_own("rlcore_write_status", {"status": status}, directory=directory)
        if answer is not True:
            raise PluginError(
                f"rlcore_write_status answered {answer!r}, so the status may be stored nowhere; a plugin returns True "
                "when it has stored it, None to leave that to others, a wrapper what it was given"
                f"{self._answered_by('write')}"
            )

    def read_status(self, directory: Path) -> Mapping[str, Any] | None:
        from rlcore.files.plain import plain

        status = self._dispatch.first("rlcore_read_status", directory=directory)
        if status is not None and not isinstance(status, Mapping):
            kind = type(status).__name__
            raise PluginError(f"rlcore_read_status answered a {kind} instead of a mapping{self._answered_by('read')}")
        try:
            return None if status is None else cast("Mapping[str, Any]", plain(status))
        except (TypeError, RecursionError) as error:
            raise PluginError(
                f"rlcore_read_status answered what is not JSON: {error}{self._answered_by('read')}"
            ) from error

    def _answered_by(self, doing: str) -> str:
        named = [owner.described for owner in self.answering(f"rlcore_{doing}_status")]
        return f"; it is answered by {', '.join(named)}" if named else ""

    # ------------------------------------------------------------ notifications

    def configured(self, config: RunConfig) -> None:
        """The one notification that may refuse: its ConfigError is passed on, and any other error is a PluginError."""
        self._configured = config
        self._dispatch.notify("rlcore_configured", config=config)

    def run_started(self, run: RunContext) -> None:
        self._dispatch.notify("rlcore_run_started", run=run)

    def summary_written(self, run: RunContext, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        self._dispatch.notify("rlcore_summary_written", run=run, behavior=behavior, step=step, stats=stats)

    def checkpoint_saved(self, run: RunContext, step: int, path: Path) -> None:
        self._dispatch.notify("rlcore_checkpoint_saved", run=run, step=step, path=path)

    def evaluated(self, run: RunContext, step: int, result: EvaluationResult) -> None:
        self._dispatch.notify("rlcore_evaluated", run=run, step=step, result=result)

    def lesson_changed(self, run: RunContext, step: int, change: LessonChange) -> None:
        self._dispatch.notify("rlcore_lesson_changed", run=run, step=step, change=change)

    def run_finished(
        self, run: RunContext, outcome: Literal["done", "interrupted", "failed"], error: BaseException | None
    ) -> None:
        self._dispatch.notify("rlcore_run_finished", run=run, outcome=outcome, error=error)

    # ------------------------------------------------------------ inside

    def _make(self, record: Record, hook: str, *arguments: Any) -> Any:
        """Core's answer to a factory hook; the record's owner is to blame, not core."""
        factory = self.resolve(record)
        try:
            return factory(*arguments)
        except RlcoreError:
            raise
        except (Exception, SystemExit) as error:
            owner = self._registry.owner(record)
            raise failed(owner, hook, error) if owner else error from error

    def _left_out(self, decision: Decision, error: PluginError) -> None:
        """A plugin that cannot be used: fatal where somebody wants it, else one line and nothing of it stays."""
        self._manager.expel(decision.candidate.label)
        if (self.strict or decision.asked) and not self.tolerant:
            raise error
        self.broken[decision.candidate.label] = f"{error}; run rlcore plugins doctor"

    def _give_up(self, label: str, error: PluginError) -> None:
        decision = next((each for each in self.decisions if each.candidate.label == label), None)
        if decision is None:  # an object somebody registered: they want it
            self._manager.expel(label)
            raise error
        self._left_out(decision, error)


def _section_problem(name: Any, section: Any, parameters: Collection[str], behaviors: Collection[str]) -> str:
    """What keeps a plugin from reporting a section of the status; empty if nothing does."""
    if not isinstance(name, str):
        return ", whose name is no text"
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
