"""Starts a training, new or resumed, from its configuration."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import attrs

from rlcore.config.collected import located
from rlcore.config.document import Document
from rlcore.contracts.environment import SavesState
from rlcore.errors import EnvironmentFailed, PluginError
from rlcore.plugins.call import Plugins
from rlcore.ranks.parts import PARTS, latest_episode, number_of_ranks, scatter_state
from rlcore.ranks.ranks import OneRank, Ranks
from rlcore.run.closing import CLOSE_ENVIRONMENT, CLOSE_WRITER, close_at_exit
from rlcore.run.control import Control
from rlcore.run.evaluate import Evaluator
from rlcore.run.evaluations import RunEvaluation
from rlcore.run.export import RunExports, make_exporters
from rlcore.run.notifications import NoNotifications, Notifications
from rlcore.run.run_data import models_of_run, status_of_run
from rlcore.run.setup import fresh_start, make_writers, plugin_files, run_context, with_seed
from rlcore.run.state import RunState
from rlcore.run.summaries import RunSummaries
from rlcore.run.timers import Timers
from rlcore.run.training import Training, outcome_of
from rlcore.settings import RunConfig
from rlcore.storage.directory import RunDirectory
from rlcore.storage.fingerprint import ANOTHER_CONFIGURATION, described
from rlcore.storage.store import RunStore

log = logging.getLogger(__name__)


@attrs.frozen
class Start:
    """The parts that a training is started with."""

    config: RunConfig
    document: Document  # the places of the values of the configuration, for errors
    plugins: Plugins
    directory: RunDirectory
    store: RunStore
    timers: Timers
    offline: bool  # whether trainers learn from recorded data; no environment is created then
    control: Control
    ranks: Ranks = attrs.field(factory=OneRank)

    def training(self) -> Training:
        """Create the run directory, environment, trainers and writers, and restore a resumed run.

        An error closes what was opened. Environments are closed last: the process may be ended because one hangs, and
        the directory must be in order then.
        """
        files: Callable[[], list[str]] = list
        reported = False

        def close_directory() -> None:
            self.directory.close(files())

        def report_failure(kind: Any, error: BaseException | None, traceback: Any) -> None:
            if error is not None and not reported and self.ranks.rank == 0:
                with suppress(PluginError):  # plugins are strict; the first error is the one to report
                    self.plugins.run_failed_to_start(self.config, self.directory.path, error)

        with ExitStack() as opened:
            opened.push(report_failure)
            environments = opened.enter_context(ExitStack())
            self.directory.open()
            opened.callback(close_directory)
            with located(self.document):
                made, config, saved = self._make(environments)
                files = partial(plugin_files, made.context, tuple(made.behaviors))
                self._restore(made, saved)
                made.exports.exporters = make_exporters(config, self.plugins, made.context, made.behaviors.values())
                made.summaries.writers = make_writers(config, self.plugins, made.context)
            for writer in reversed(made.summaries.writers):
                deadline = self.control.current_deadline
                close_at_exit(opened, writer, writer.described, PluginError, CLOSE_WRITER, deadline)
            reported = True
            self._report_start(made)
            made.opened = opened.pop_all()
        return made

    def _make(self, environments: ExitStack) -> tuple[Training, RunConfig, Mapping[str, Any] | None]:
        """Create all but exporters and writers. Also return the configuration with its seed, and the saved state."""
        plugins, ranks, saved = self.plugins, self.ranks, self._saved()
        config = with_seed(self.config, None if saved is None else int(saved["run"]["seed"]))
        seed = ranks.share(config.env_settings.seed)
        config = attrs.evolve(config, env_settings=attrs.evolve(config.env_settings, seed=seed))
        self.store.configure(fresh_start(config), ranks.size)
        resumed = {} if saved is None else {name: int(steps) for name, steps in saved["run"]["steps"].items()}
        place, start = self.directory.path, self.directory.working_directory
        context = run_context(config, plugins, place, start, resumed, self.control.stops, ranks)
        if saved is not None:
            context.factories.require(saved["run"])
        context.held_checkpoints.changed = self.directory.write_holds
        plugins.check_config(config)
        notifications = (NoNotifications if ranks.rank else Notifications)(plugins, context)
        state = RunState.make(config, plugins, context, self.offline, notifications.lesson_changed)
        if state.environment is not None:
            self._close_at_exit(environments, state.environment, state.environment_name)
        specs = {name: behavior.spec for name, behavior in state.behaviors.items()}
        evaluator = Evaluator(config, plugins, context, specs)
        self._close_at_exit(environments, evaluator, "the environment of evaluations")
        training = Training(
            plugins,
            context,
            state,
            RunEvaluation(config.evaluation, evaluator, self.store, ranks),
            RunSummaries(plugins, context, state.curricula, self.timers, notifications, state.environment),
            RunExports(plugins, context, self.directory, self.store),
            notifications,
            self.directory,
            self.store,
            self.timers,
            self.control,
        )
        return training, config, saved

    def _saved(self) -> dict[str, Any] | None:
        """The state of the checkpoint to continue from, as this rank saved it. Rank 0 reads the file."""
        settings, ranks, store = self.config.checkpoint_settings, self.ranks, self.store
        continues = ranks.share(settings.resume or settings.inference)
        read = store.newest_state() if continues and ranks.rank == 0 else None
        if read is not None and not settings.inference and number_of_ranks(read) != ranks.size:
            before = {"size": number_of_ranks(read)}
            if read["run"]["episodes"] is not None:
                read["run"]["episodes"] = latest_episode(read)
            read["run"][PARTS] = before
        saved = scatter_state(read, ranks) if continues else None
        if saved is not None and ranks.rank:
            store.saved_step = sum(saved["run"]["steps"].values())
        return saved

    def _close_at_exit(self, stack: ExitStack, environment: Any, name: str) -> None:
        close_at_exit(stack, environment, name, EnvironmentFailed, CLOSE_ENVIRONMENT, self.control.current_deadline)

    def _restore(self, training: Training, saved: Mapping[str, Any] | None) -> None:
        """Restore the training from ``saved``, the state of a checkpoint; if it is None, start the first episodes."""
        context, state, evaluation, store = training.context, training.state, training.evaluation, self.store
        if saved is None:
            self._load_from_other_runs(training)
            state.begin()
        elif context.inference:
            state.load_policies(saved, self.directory.path)
            store.restore_status(context)
            state.begin()
        else:
            saved_by = number_of_ranks(saved)
            if saved_by == 1 and PARTS not in saved["run"]:
                state.restore(saved, self.directory.path)
            else:
                state.restore_learned(saved, self.directory.path, saved_by)
                log.warning("%s", other_ranks_warning(saved_by, self.ranks.size))
            training.seconds_before = float(saved["run"]["wall_seconds"])
            store.restore_status(context)
            evaluation.load_state_dict(saved["run"].get("evaluation"))
            evaluation.overdue = saved["run"].get("overdue")
            training.resumed_from = self.directory.checkpoints / str(store.saved_step)
            training.keep_intervals()
            training.differences = self._differences(training, saved)
            if PARTS in saved["run"] and saved_by != self.ranks.size:
                training.differences += (f"{in_words(self.ranks.size)} instead of {in_words(saved_by)}",)
        for behavior in state.behaviors.values():
            behavior.set_boundaries()
        evaluation.restore_boundaries(state.behaviors)
        training.nothing_left = training.resumed_from is not None and training.finished
        if not (context.inference or training.nothing_left):
            evaluation.begin(state.steps)
        self.directory.begin(training.nothing_left)
        if saved is None:
            store.write_configuration()

    def _differences(self, training: Training, saved: Mapping[str, Any]) -> tuple[str, ...]:
        """The differences from the checkpoint, in words; one warning says this, and what it does to the promise."""
        found = self.store.differences(saved)
        if isinstance(training.state.environment, SavesState) and saved["run"]["environment"] is None:
            found.append("an environment that saves its state, instead of one that begins new episodes")
        # Changes of the configuration alone are reported when the run has started.
        if any(not each.startswith(ANOTHER_CONFIGURATION) for each in found):
            promise, after = training.promise.kind, training.promise.after(tuple(found)).kind
            weakened = after if after == promise else f"{after} instead of {promise}"
            log.warning("%s: resumes with %s; this resume is %s", self.directory.path, ", ".join(found), weakened)
        return tuple(found)

    def _load_from_other_runs(self, training: Training) -> None:
        """Load the weights and lessons that a new run starts with."""
        settings, state = training.context.config.checkpoint_settings, training.state
        run_id, other = settings.initialize_from, settings.initialize_lessons_from
        models = None if run_id is None else models_of_run(self.directory, run_id)
        state.load_models(training.context, models, f"checkpoint_settings.initialize_from {run_id!r}")
        if other is not None and state.curricula is not None:
            origin = f"checkpoint_settings.initialize_lessons_from {other!r}"
            loaded = state.curricula.load_status(status_of_run(self.directory, self.plugins, other, origin))
            lessons = ", ".join(f"{name} {number:g}" for name, number in loaded.items())
            if loaded:
                log.info("%s: begins with the lessons %s, counted from 0", origin, lessons)
            else:
                names = ", ".join(training.context.config.environment_parameters)
                log.warning("%s: its status has no lesson of %s; all begin with their first", origin, names)

    def _report_start(self, training: Training) -> None:
        """Report the start to plugins, and mark the run directory as started."""
        context, store = training.context, self.store
        for plugin in self.plugins.loaded:
            log.debug("plugin %s (%s %s): %s", plugin.name, plugin.distribution, plugin.version, plugin.because)
        try:
            if self.ranks.rank == 0:
                self.plugins.run_started(context)
            if not context.inference:
                self.directory.started(plugin_files(context, training.behaviors))
            if training.resumed_from is not None and not training.nothing_left:
                changed = store.configuration_changes()
                if changed:
                    log.info("%s: resumes with another configuration: %s", self.directory.path, described(changed))
                store.forget_result()
                store.write_configuration()
        except BaseException as error:  # plugins that got the start get the end too
            with suppress(Exception):
                if self.ranks.rank == 0:
                    self.plugins.run_finished(context, outcome_of(error), error, training.state.results())
            raise


def other_ranks_warning(saved_by: int, size: int) -> str:
    """The warning of a run that is resumed with another number of ranks."""
    return (
        f"the checkpoint was saved by {in_words(saved_by)} and is resumed by {in_words(size)}: weights, optimizers, "
        "counters and lessons continue, open episodes, rollouts and replay buffers start empty; the run is not equal "
        "to one that was never stopped"
    )


def in_words(ranks: int) -> str:
    """``one process`` or ``2 ranks``."""
    return "one process" if ranks == 1 else f"{ranks} ranks"
