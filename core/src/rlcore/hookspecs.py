"""Every hook that rlcore calls: when, how often, with which arguments, and what the answer means.

This module is the reference documentation; the docs are rendered from it and a test compares the two. The form of
most names says how the hook is called:

* a plural noun (``rlcore_trainers``) is a *registry*: no arguments, returns records, called at most once per loading
  of plugins; None is refused, because it means that ``return`` was forgotten;
* ``rlcore_create_*``, ``rlcore_write_*`` and ``rlcore_read_*`` are *factories*: the first answer that is not None
  wins; core's own answer comes last, and an implementation marked ``wrapper=True`` may decorate any answer;
* a past participle (``rlcore_run_started``) is a *notification*: its return value is ignored, implementations are
  called one by one, and the error of one neither stops the run nor reaches the others (with ``--strict-plugins``
  the run saves a checkpoint and ends);
* ``rlcore_modify_*``, ``rlcore_check_*`` and ``rlcore_process_*`` are *interventions*: every implementation may change
  or refuse something; the text of the hook says what its error does;
* ``rlcore_report_status`` and ``rlcore_restore_status`` are called in every plugin, one by one, and
  ``rlcore_addhooks`` before all other hooks.

A command loads plugins once, and so does each ``Run`` of a program that passes no ``plugins``: "once per loading".

Local plugins are called first, then installed ones from z to a. ``tryfirst``, ``trylast`` and ``wrapper`` of pluggy
change this order.

An implementation may name any subset of a hook's arguments. Default values are not allowed, in specifications and
implementations alike (pluggy 1.6 and 1.7 treat them differently). No hook is called per environment step.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs
from pluggy import HookimplMarker, HookspecMarker, PluginManager

from rlcore.records import (
    BehaviorSection,
    BoundaryPartSpec,
    CommandSpec,
    ConfigSection,
    CurriculumSpec,
    EnvironmentSpec,
    EvaluationSection,
    ExecutorSpec,
    ExporterSpec,
    KeyHints,
    Preset,
    Record,
    RewardProviderSpec,
    RunOptionSpec,
    StatsWriterSpec,
    TrainerSpec,
)

if TYPE_CHECKING:
    from rlcore.contracts.behavior_spec import BehaviorSpec
    from rlcore.contracts.curriculum import LessonChange, ParameterSource
    from rlcore.contracts.environment import Environment
    from rlcore.contracts.ranks import Launch, Ranks
    from rlcore.contracts.recordings import Recordings
    from rlcore.contracts.results import BehaviorResult, EvaluationResult
    from rlcore.contracts.rewards import RewardProvider
    from rlcore.contracts.stats import StatSummary, StatsWriter
    from rlcore.contracts.trainer import Trainer
    from rlcore.plugins.context import RunContext
    from rlcore.plugins.registry import Registry
    from rlcore.plugins.stops import StopRequests
    from rlcore.settings.blocks import BehaviorSettings, EnvironmentSettings, RunConfig

F = TypeVar("F", bound=Callable[..., Any])

# The entry-point group, which is also pluggy's project name.
ENTRY_POINT_GROUP = "rlcore"

hookspec = HookspecMarker(ENTRY_POINT_GROUP)
"""The decorator of hook specifications, for plugins that define hooks of their own (``rlcore_addhooks``)."""
hookimpl = HookimplMarker(ENTRY_POINT_GROUP)
"""The decorator of hook implementations: ``@hookimpl`` before a function with the name of a hook."""

HookKind = Literal["registry", "factory", "status", "intervention", "notification", "extension"]
"""The kind of a hook, which decides how its implementations are called."""


@attrs.frozen
class HookInfo:
    """One hook. Only factories may be wrapped; the implementations of all other hooks are called one by one.

    Attributes:
        name: The name of the hook.
        kind: The kind of the hook; the page of hooks explains the kinds.
        since: The version of rlcore that added the hook.
        deprecated: What to implement instead of a deprecated hook, which is still called; None for the others.
        removed_in: The version of rlcore that will no longer have a deprecated hook, at least two minor versions later.
    """

    name: str
    kind: HookKind
    since: str = "0.1"
    deprecated: str | None = None
    removed_in: str | None = None


_HOOKS: list[HookInfo] = []  # filled by the decorators of the hooks


def registry_of(*record_classes: type[Record]) -> Callable[[F], F]:
    """Specify a registry hook: one without arguments that returns records of ``record_classes``.

    A plugin that has plugins may specify one for its own class of records. rlcore checks and finds these records like
    core's own (:meth:`rlcore.Plugins.record`), and ``rlcore plugins list --provides``, ``info`` and ``doctor``
    include them.
    """

    def mark(function: F) -> F:
        function.rlcore_registry = record_classes  # type: ignore[attr-defined]
        return hookspec(function)

    return mark


def _hook(kind: HookKind, **about: Any) -> Callable[[F], F]:
    """Specify a hook of rlcore's own; ``about`` has the other fields of its :class:`HookInfo`."""

    def mark(function: F) -> F:
        function.rlcore_hook = HookInfo(function.__name__, kind, **about)  # type: ignore[attr-defined]
        _HOOKS.append(function.rlcore_hook)  # type: ignore[attr-defined]
        return hookspec(firstresult=kind == "factory")(function)

    return mark


def _registry(*record_classes: type[Record]) -> Callable[[F], F]:
    return lambda function: registry_of(*record_classes)(_hook("registry")(function))


# ---------------------------------------------------------------- registries


@_registry(TrainerSpec)
def rlcore_trainers() -> Iterable[TrainerSpec]:
    """The trainers that this plugin provides, for ``trainer_type``.

    Called once per loading of plugins, before the configuration is checked. Must not import torch or numpy.
    """


@_registry(RewardProviderSpec)
def rlcore_reward_providers() -> Iterable[RewardProviderSpec]:
    """The rewards that this plugin provides, for the keys of ``reward_signals``.

    Called once per loading of plugins, before the configuration is checked. Must not import torch or numpy.
    """


@_registry(StatsWriterSpec)
def rlcore_stats_writers() -> Iterable[StatsWriterSpec]:
    """The statistics writers that this plugin provides, for the keys of ``stats``.

    Called once per loading of plugins, before the configuration is checked. Must not import torch or numpy.
    """


@_registry(EnvironmentSpec)
def rlcore_environments() -> Iterable[EnvironmentSpec]:
    """The kinds of environment that this plugin provides, for ``environment.type``.

    Called once per loading of plugins, before the configuration is checked. Must not import torch or numpy.
    """


@_registry(ExecutorSpec)
def rlcore_executors() -> Iterable[ExecutorSpec]:
    """The ways of running workers that this plugin provides, for ``environment.workers.executor``.

    Called once per loading of plugins, before the configuration is checked. Must not import torch or numpy.
    """


@_registry(CurriculumSpec)
def rlcore_curricula() -> Iterable[CurriculumSpec]:
    """The curricula that this plugin provides, for ``curriculum.type``.

    Called once per loading of plugins, before the configuration is checked. Must not import torch or numpy.
    """


@_registry(ExporterSpec)
def rlcore_exporters() -> Iterable[ExporterSpec]:
    """The exporters of policies that this plugin provides, for the keys of ``export`` and ``rlcore export --format``.

    Called once per loading of plugins, before the configuration is checked. Must not import torch or numpy.
    """


@_registry(BoundaryPartSpec)
def rlcore_boundary_parts() -> Iterable[BoundaryPartSpec]:
    """Work of every training between two steps while this plugin is on: parts in the order of a boundary.

    Called once per loading of plugins, before the configuration is checked. Must not import torch or numpy.
    """


@_registry(CommandSpec, RunOptionSpec)
def rlcore_commands() -> Iterable[CommandSpec | RunOptionSpec]:
    """The commands that this plugin adds to ``rlcore``, and the options that it adds to ``rlcore run``.

    Called once per loading of plugins. A command or an option of core's cannot be replaced. For a command line with an
    option that is not core's own, ``rlcore run`` loads the installed plugins, and those that ``-p`` and RLCORE_PLUGINS
    name, a first time before it reads the configuration.
    """


@_registry(ConfigSection, BehaviorSection, EvaluationSection, Preset, KeyHints)
def rlcore_config_sections() -> Iterable[ConfigSection | BehaviorSection | EvaluationSection | Preset | KeyHints]:
    """The parts of the configuration file that belong to this plugin.

    A :class:`rlcore.ConfigSection` is a top-level block, a :class:`rlcore.BehaviorSection` a key of a behavior, such as
    ``self_play``, a :class:`rlcore.EvaluationSection` keys of the ``evaluation`` block, such as ``opponents``. A plugin
    cannot take a block or a key of core's. A :class:`rlcore.Preset` has values for keys that the file leaves out; the
    file names it with ``preset``. :class:`rlcore.KeyHints` say what to write instead of keys that belong to
    no plugin. Called once per loading of plugins, before the configuration is checked.
    """


# ---------------------------------------------------------------- factories


@_hook("factory")
def rlcore_create_trainer(
    spec: TrainerSpec, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext
) -> Trainer | None:
    """Create the trainer of one behavior.

    Called once per behavior, after the environment was made and before the first step; ``rlcore evaluate`` creates the
    trainers of the policies that it plays. Core's own answer imports
    ``spec.target`` and calls it with ``settings``, ``behavior`` and ``run``, by keyword. A wrapper may return another
    trainer that wraps the one that it received. To give the inner trainer another ``BehaviorSpec`` or other settings,
    do not wrap: return None, or a trainer around ``run.plugins.create(spec, settings=settings, behavior=other, run=run,
    without="my-plugin")``, for which all plugins but this one are asked. ``behavior.take(slots)`` is that of some
    slots, :class:`rlcore.TrainerWrapper` a base for trainers around trainers; one that works in a run of
    several ranks says so with ``learns_in_ranks``.
    """


@_hook("factory")
def rlcore_create_reward_provider(
    spec: RewardProviderSpec, settings: Any, behavior: BehaviorSpec, run: RunContext
) -> RewardProvider | None:
    """Create one reward provider of one behavior. ``settings`` is its checked block under ``reward_signals``.

    Called once per behavior and reward, while a trainer that learns from rewards is made. Core's own answer calls the
    target with ``settings``, ``behavior`` and ``run``, by keyword.
    """


@_hook("factory")
def rlcore_create_stats_writer(spec: StatsWriterSpec, settings: Any, run: RunContext) -> StatsWriter | None:
    """Create one statistics writer. ``settings`` is its checked block under ``stats``, or None if it has no settings.

    Called once per selected writer, before the first step. Core's own answer calls the target with ``settings`` and
    ``run``, by keyword.
    """


@_hook("factory")
def rlcore_create_environment(
    spec: EnvironmentSpec, settings: EnvironmentSettings, run: RunContext
) -> Environment | None:
    """Create the environment. ``settings`` is the ``environment`` block.

    Called once per run, before the trainers are created, unless they learn from recorded data. Called again for the
    environment of evaluations: when a run with an ``evaluation`` block starts, or without this block at the first
    ``Run.evaluate()``; when an evaluation plays so many episodes that it needs another ``num_envs``; and once in
    ``rlcore evaluate``. Core's own answer calls the target with ``settings`` and ``run``, by keyword.
    """


@_hook("factory")
def rlcore_create_ranks(launch: Launch, config: RunConfig, plugins: Registry, stops: StopRequests) -> Ranks | None:
    """Meet the other processes of a run that ``torchrun`` started, and return the exchange between them.

    Called once per run in each of several processes, before anything is created. ``launch`` says which of them this one
    is. Raise :class:`rlcore.ConfigError` for a run that several processes do not support, and
    :class:`rlcore.RanksFailed` if another one does not come, or if ``stops.first`` is not None meanwhile.
    Core has no answer of its own: without one of a plugin, the run is refused.
    """


@_hook("factory")
def rlcore_create_parameter_source(plugins: Registry) -> ParameterSource | None:
    """Create what chooses the environment parameters of episodes, by the curricula of all ``plugins``.

    Called once for each training and each evaluation with ``environment_parameters``. Core has no answer of its own:
    without one of a plugin, such a run is refused.
    """


@_hook("factory")
def rlcore_create_recordings(plugins: Registry) -> Recordings | None:
    """Create what reads recorded episodes and records them, with all formats that ``plugins`` have.

    Called once for each recording that a trainer, a reward or a run without an environment asks for, and once in
    ``rlcore evaluate --record``. Core has no answer of its own: without one of a plugin, there are no recordings.
    """


# ---------------------------------------------------------------- status that survives beside the weights


@_hook("status")
def rlcore_report_status(run: RunContext) -> Mapping[str, Mapping[str, Any]] | None:
    """State that this plugin keeps across restarts: ``{section name: JSON data}``.

    Called once per checkpoint, before it is written: the sections are part of the checkpoint, and of the training
    status written after it. ``rlcore_checkpoint_saved`` is called later, so state that a plugin changes there is
    in its report for the next checkpoint. Two plugins must not report the same section, and no plugin may report a
    section of rlcore's. Under the name of a behavior, plugins may add keys to the section of that behavior.
    """


@_hook("status")
def rlcore_restore_status(run: RunContext, sections: Mapping[str, Any]) -> None:
    """Restore what this plugin reported. ``sections`` are those of all plugins, from the checkpoint of the resume.

    Called once, on ``--resume`` and ``--inference``, after trainers and environment were restored and before the
    first step. ``training_status.json`` is not read, and ``rlcore_read_status`` is not called. An error stops the
    run, because the run must not continue with only a part of its state.
    """


@_hook("factory")
def rlcore_write_status(status: Mapping[str, Any], directory: Path) -> bool | None:
    """Store the whole training status; return True when done. ``directory`` is the run's ``run_logs``.

    Called once after each checkpoint, and again after its exports if there are any, before
    ``rlcore_checkpoint_saved``; and again when the training is done. The status is a view of the newest checkpoint: a
    resumed run does not read it. Core's own answer writes ``training_status.json`` atomically.

    A plugin that implements this hook implements ``rlcore_read_status`` too, or it is refused; a wrapper need not. Two
    plugins that implement it cannot both be on.
    """


@_hook("factory")
def rlcore_read_status(directory: Path) -> Mapping[str, Any] | None:
    """Read what ``rlcore_write_status`` stored; None if this plugin has nothing there.

    Called once by ``rlcore status``, once by ``rlcore.read_run``, and once by a new run for the run that
    ``checkpoint_settings.initialize_lessons_from`` names. A resumed run reads its checkpoint instead. If a plugin
    returns None, rlcore asks the next plugin, and finally reads ``training_status.json``. An error stops the command;
    raise :class:`rlcore.RunStateError` with a message that states the fix.
    """


# ---------------------------------------------------------------- interventions


@_hook("intervention")
def rlcore_modify_config(document: dict[str, Any]) -> None:
    """Change the parsed configuration before it is checked: add defaults of a company, or secrets.

    ``document`` is the file with the options of the command line, as nested dicts and lists; change it in place. Each
    behavior already has what ``default_settings`` and the preset of the file give it, so that ``setdefault`` keeps all
    that the user wrote. A key that a plugin adds to ``default_settings`` is given to the behaviors that do not have the
    key after the hook; to overrule the user, change each behavior. Plugins are called one after another, local ones
    first, then installed ones from z to a, and each gets the changes of those before it: of several that use
    ``setdefault``, the first decides. A mistake in a changed key is reported with the name of the plugin. What was
    changed is in the written ``configuration.yaml``, except fields declared with ``setting(..., secret=True)``.

    Called once for each configuration that is read, by ``rlcore run``, ``validate``, ``evaluate`` and ``Run``, but not
    for a ``RunConfig`` that a program made. A resume, and ``rlcore evaluate``, read the ``configuration.yaml`` of the
    run, in which earlier changes are and secrets are missing: fill in what is missing (``setdefault``) and do not add
    to what is there. Plugins are chosen before, so the ``plugins`` block cannot be changed. A
    :class:`rlcore.ConfigError` refuses the configuration. Any other exception ends the command as an error of
    the plugin.
    """


@_hook("intervention")
def rlcore_check_config(config: RunConfig) -> str | None:
    """Check the complete configuration, and refuse it by raising :class:`rlcore.ConfigError`.

    Return what only a run can check, such as ``"environment.id 'Maze-v0': no installed package is known to have it"``,
    which ``rlcore validate`` shows; None if everything was checked.

    Called once per run, ``--inference`` included, before anything is created, and once by ``rlcore validate``; not by
    ``rlcore evaluate``. A plugin that is registered later is called when it is registered. Any other exception also
    ends the command, as an error of the plugin, because nothing was checked then.
    """


@_hook("intervention")
def rlcore_process_summary(
    run: RunContext, behavior: str, step: int, stats: Mapping[str, StatSummary]
) -> Mapping[str, StatSummary | float] | None:
    """Return statistics to add to a summary, or to replace in it, by tag; None for no change.

    A number becomes a summary of one value. ``stats`` has the changes of the plugins called before; curricula get the
    statistics without changes.

    Called once per summary of each behavior, before the statistics writers and ``rlcore_summary_written``. An error is
    treated like that of a notification, and the changes of this plugin are left out.
    """


# ---------------------------------------------------------------- notifications


@_hook("notification")
def rlcore_run_started(run: RunContext) -> None:
    """Environment, trainers and writers are created, a resumed state is restored, and the first step is next.

    Called once per run that starts.
    """


@_hook("notification")
def rlcore_summary_written(run: RunContext, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
    """A summary of one behavior was passed to the statistics writers.

    Called once per summary of each behavior: for every multiple of ``summary_freq`` agent steps, at ``max_steps``, and
    when ``evaluation.stop_at`` ends the run. ``step`` is the multiple that was crossed, else the step that was reached.
    """


@_hook("notification")
def rlcore_evaluated(run: RunContext, step: int, result: EvaluationResult) -> None:
    """The policies were evaluated over whole episodes. ``result.score`` decides which policies are the best.

    Called once per evaluation: within a run, by ``Run.evaluate()``, and by ``rlcore evaluate``, which starts no run.
    ``step`` counts the run's agent steps, over all behaviors.
    """


@_hook("notification")
def rlcore_checkpoint_saved(run: RunContext, step: int, path: Path) -> None:
    """A checkpoint was written, renamed into place and verified. ``path`` is its directory.

    Called once per checkpoint, the last one of a run included, after the training status was written.
    ``run.hold_checkpoint(step)`` keeps the checkpoint until it is released, for example during an upload.
    """


@_hook("notification")
def rlcore_checkpoint_removed(run: RunContext, step: int, path: Path) -> None:
    """A checkpoint beyond ``keep_checkpoints`` was deleted. ``path`` is where it was.

    Called once per checkpoint that a run deletes, after ``rlcore_checkpoint_saved`` of the newer one. Not called for
    the policies of the best evaluation, for a checkpoint that is written again, and for runs that are replaced.
    """


@_hook("notification")
def rlcore_lesson_changed(run: RunContext, step: int, change: LessonChange) -> None:
    """A curriculum moved a parameter to another lesson, forward or back. Episodes that start from now on use it.

    Called once per change, within the environment step in which the episode that caused it ended. ``step`` counts the
    run's agent steps, over all behaviors.
    """


@_hook("notification")
def rlcore_run_finished(
    run: RunContext,
    outcome: Literal["done", "interrupted", "environment ended", "failed"],
    error: BaseException | None,
    results: Mapping[str, BehaviorResult],
) -> None:
    """The run is over. Its last checkpoint and ``result.json`` are written, unless writing them failed.

    ``results`` has the steps, episodes and mean reward of each behavior, and the values of its last updates.

    Called once per run for which ``rlcore_run_started`` was called, however the run ended.
    """


@_hook("notification")
def rlcore_status_printed(directory: Path, configuration: Mapping[str, Any], status: Mapping[str, Any]) -> None:
    """``rlcore status`` printed how far the behaviors of a run are. Print more of it with :func:`rlcore.echo`.

    ``directory`` is that of the run, ``configuration`` its configuration without secrets, and ``status`` the training
    status of its newest intact checkpoint, empty before the first one. All three may have been edited.

    Called once by ``rlcore status``, and with ``--watch`` once each time; not with ``--json``, which has the status.
    """


# ---------------------------------------------------------------- plugins that have plugins


@_hook("extension")
def rlcore_addhooks(manager: PluginManager) -> None:
    """Add hook specifications of this plugin's own: ``manager.add_hookspecs(module)``.

    Called once per loading of plugins, when all are imported and before any other hook. Names must begin with
    ``rlcore_``. ``rlcore.registry_of(ItsRecord)`` declares a registry hook; ``ItsRecord`` derives from
    ``rlcore.Record``. ``run.plugins.record(ItsRecord, name)`` returns the record with this name.
    """


HOOKS: tuple[HookInfo, ...] = tuple(_HOOKS)
"""All hooks of rlcore, in the order of this module."""
