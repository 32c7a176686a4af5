"""The work between two steps of a run, in order.

At a boundary between two summaries: the checkpoint that is being written is settled, an evaluation that is due is
played, and a checkpoint that is due is saved. A summary ends the epoch: the evaluation of the same step was played
before it, and the checkpoint of this step is saved after it.

A checkpoint ends open episodes, unless the environment can save itself: every environment starts its next episode, and
open episodes bootstrap as if truncated. A run that is never stopped does the same, and is therefore equal, bit for bit,
to a run that was stopped and resumed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Self

import attrs

from rlcore.contracts.curriculum import LessonChange
from rlcore.contracts.environment import ReportsStats, SavesState
from rlcore.contracts.results import BehaviorResult, EvaluationResult, PhaseTimes
from rlcore.contracts.stats import StatSummary, StatsWindow, Tag
from rlcore.errors import PluginError, RanksFailed, RlcoreError
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.factories import FACTORIES
from rlcore.run.behaviors.behavior import BehaviorRun
from rlcore.run.components import OpenWriter
from rlcore.run.description import promise_of
from rlcore.run.evaluation.evaluations import RunEvaluation
from rlcore.run.export import RunExports
from rlcore.run.prepare import PreparedRun, plugin_files
from rlcore.run.state import RunState
from rlcore.run.timers import Timer
from rlcore.storage.store import PendingSave

log = logging.getLogger(__name__)

# A checkpoint of which more is to be copied is written while the training waits.
MOST_COPIED = 2 << 30  # bytes


@attrs.define(eq=False)
class Notifications:
    """Calls the hooks of a run's events, in rank 0. ``failure`` is the first error of a plugin that is to end the run.

    Such an error, raised only if plugins are strict or a plugin wants the process to end, waits until everything that
    was learned is saved.
    """

    _plugins: Plugins
    _context: RunContext
    failure: PluginError | None = attrs.field(init=False, default=None)

    @contextmanager
    def failing_later(self) -> Iterator[None]:
        """Keep a PluginError of the block as the ``failure`` unless there is one."""
        try:
            yield
        except PluginError as failure:
            self.failure = self.failure or failure

    def notify(self, hook: str, **event: Any) -> None:
        """Call a notification hook of all plugins with the run and the ``event``."""
        if self._context.ranks.rank == 0:
            with self.failing_later():
                self._plugins.notify(hook, run=self._context, **event)

    def lesson_changed(self, step: int, change: LessonChange) -> None:
        """Log a change of a lesson, and notify plugins."""
        if self._context.ranks.rank == 0:
            log.info(
                "environment parameter %r: lesson %d (%s) after %d (%s) at step %d",
                change.parameter,
                change.lesson,
                change.name,
                change.previous,
                change.previous_name,
                step,
            )
        self.notify("rlcore_lesson_changed", step=step, change=change)

    def processed_summary(self, behavior: str, step: int, stats: dict[str, StatSummary]) -> dict[str, StatSummary]:
        """The summary as plugins change it; as it was if one of them fails and is to end the run."""
        if self._context.ranks.rank == 0:
            with self.failing_later():
                return self._plugins.process_summary(self._context, behavior, step, stats)
        return stats


@attrs.frozen
class BackgroundSave:
    """A checkpoint that a thread writes while the training continues. ``regular`` as in :meth:`Boundaries.save`.

    The thread that trains waits for it before the next summary, evaluation or checkpoint and before the run ends, so
    that everything that follows a checkpoint happens at the same step in every run.
    """

    pending: PendingSave
    regular: bool
    written: Future[None]

    @classmethod
    def of(cls, pending: PendingSave, regular: bool) -> Self:
        """Copy what is to be written, and start to write it."""
        pending.detach()
        executor = ThreadPoolExecutor(1, f"checkpoint of step {pending.step}")
        written = executor.submit(pending.write)
        executor.shutdown(wait=False)
        return cls(pending, regular, written)


@attrs.define(eq=False, slots=False)
class Boundaries:
    """Makes summaries, evaluations, checkpoints and exports of a run when they are due, and notifies plugins."""

    _run: PreparedRun
    _context: RunContext
    state: RunState
    evaluation: RunEvaluation
    notifications: Notifications
    exports: RunExports = attrs.field(init=False)
    writers: list[OpenWriter] = attrs.field(init=False, factory=list)  # set before the first step
    times: PhaseTimes = attrs.field(init=False, factory=PhaseTimes)  # of the epoch
    evaluated: EvaluationResult | None = attrs.field(init=False, default=None)  # in this epoch, latest
    ending: bool = attrs.field(init=False, default=False)  # the run ends: no step follows
    seconds_before: float = attrs.field(init=False, default=0.0)  # of earlier processes of this run
    started_at: float = attrs.field(init=False, factory=perf_counter)
    _saving: BackgroundSave | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        run = self._run
        self.exports = RunExports(run.plugins.strict, self._context, run.directory, run.store)

    def wall_seconds(self) -> float:
        """Seconds of the run, with those of earlier processes."""
        return self.seconds_before + perf_counter() - self.started_at

    def stopping(self) -> bool:
        """Whether a stop was requested, or a plugin's failure is to end the run."""
        return self._run.stops.first is not None or self.notifications.failure is not None

    def begin_epoch(self) -> PhaseTimes:
        """Begin an epoch. Returns its times, for the loop to add to."""
        self.times = self._context.times = PhaseTimes()
        self.evaluated = None
        for behavior in self.state.behaviors.values():
            behavior.epoch_episodes = StatsWindow()
            behavior.epoch_updates = StatsWindow()
        return self.times

    def reached(self) -> bool:
        """Do what is due between two summaries. Returns whether a summary is due, or the run ends here."""
        self.settle_save()
        evaluation = self.evaluation
        state = self.state
        ending = state.ending
        if evaluation.due(state.steps, ending) and not self._evaluate():
            return True
        evaluation.overdue = None
        if ending or any(map(self._summary_due, state.behaviors.values())):
            return True
        if self._checkpoint_due():
            self.save()
        evaluation.watch(state.behaviors, state.steps)
        return False

    def end_epoch(self, steps_per_second: float) -> dict[str, BehaviorResult]:
        """Make the summaries and the checkpoint that are due. Returns the results of the epoch, by behavior."""
        behaviors = self.state.behaviors.values()
        results = {}
        for behavior in behaviors:
            due = self._summary_due(behavior)
            results[behavior.name] = behavior.result(self._summarize(behavior, steps_per_second) if due else {})
        self._run.directory.declare_files(plugin_files(self._context, self.state.behaviors))
        if self.evaluation.overdue is None:  # else everything that is due at this step is left to the resumed run
            if self._checkpoint_due():
                self.save()
            for behavior in behaviors:
                behavior.set_boundaries()
        return results

    # ------------------------------------------------------------ summaries

    def _summary_due(self, behavior: BehaviorRun) -> bool:
        """Whether a summary of ``behavior`` is due at this step.

        It is due when the behavior's steps pass a multiple of ``summary_freq`` or reach ``max_steps``, and when an
        evaluation reaches ``stop_at``, which ends the run. With ``--inference`` it is due at the end of every epoch.
        It is not due while an evaluation is overdue, because the resumed run makes both at this step.
        """
        if self.evaluation.overdue is not None:
            return False
        if self._context.inference or (self.evaluation.scores.stopped and behavior.learning):
            return True
        return behavior.summary_due

    def _summarize(self, behavior: BehaviorRun, steps_per_second: float) -> dict[str, StatSummary]:
        """One summary of ``behavior``, of everything since the one before, for writers, plugins and curricula."""
        inference = self._context.inference
        curricula = self.state.curricula
        plugins = self._run.plugins
        # ML-Agents' x value: the boundary that was crossed, not the step that crossed it.
        step = behavior.inferred if inference else min(behavior.next_summary, behavior.steps)
        behavior.window.add({Tag.STEPS_PER_SECOND: steps_per_second, Tag.IS_TRAINING: float(not inference)})
        if curricula is not None:
            behavior.window.add(curricula.stats())
        if isinstance(self.state.environment, ReportsStats):
            behavior.window.add(self.state.environment.stats())
        measured = behavior.window.summarize()
        stats = self.notifications.processed_summary(behavior.name, step, measured)
        for tag, summary in stats.items():
            self._run.timers.set_gauge(behavior.name, tag, summary.mean)
        for writer in self.writers:
            with self.notifications.failing_later():
                writer.write(behavior.name, step, stats, plugins.strict)
        self.notifications.notify("rlcore_summary_written", behavior=behavior.name, step=step, stats=stats)
        if curricula is not None and not inference:
            shared = self._context.ranks.share({tag: attrs.asdict(each) for tag, each in measured.items()})
            # The measures of rank 0, because seconds differ.
            measured = {tag: StatSummary(**{**each, "values": tuple(each["values"])}) for tag, each in shared.items()}
            curricula.summarised(behavior.name, measured)  # what plugins show must not change what is learned
        return stats

    # ------------------------------------------------------------ evaluations

    def _evaluate(self) -> bool:
        """Evaluate the policies. Returns whether the evaluation was played to its end."""
        started = perf_counter()
        state = self.state
        step = state.steps
        about = {"seed": self._context.seed, FACTORIES: self._context.factories.to_json()}
        try:
            self.evaluated = self.evaluation.evaluate(state.behaviors, step, about, self.stopping)
        except RlcoreError as error:  # all that learns is as it was before
            # A plugin that answered wrongly, such as a curriculum, may have misled the training too: nothing is saved.
            whole = self.evaluation.overdue is not None and not isinstance(error, PluginError)
            state.between_steps = error if whole else None
            raise
        seconds = perf_counter() - started
        self.times.evaluating += seconds
        self._run.timers.root.child("Evaluator.evaluate").add(seconds)
        if self.evaluated is None:
            return False
        self.notifications.notify("rlcore_evaluated", step=step, result=self.evaluated)
        return True

    # ------------------------------------------------------------ checkpoints

    def _checkpoint_due(self) -> bool:
        """Whether a checkpoint is due. The first ones that are due fix an interval that was left to the run."""
        behaviors = self.state.behaviors.values()
        ranks = self._context.ranks
        for behavior in behaviors:
            if behavior.checkpoint_due and behavior.interval_is_open:
                behavior.choose_interval(ranks.share(self.wall_seconds()))
                if behavior.interval_is_open:
                    continue
                log.info(
                    "behavior %r: a checkpoint every %s steps, about ten minutes: each restarts all episodes, because "
                    "the environment cannot save its state; checkpoint_interval sets another number",
                    behavior.name,
                    f"{behavior.checkpoint_interval:,}",
                )
                self._run.configure(self._context, behaviors)
                self._run.store.write_configuration()
        return any(behavior.checkpoint_due for behavior in behaviors)

    def save(self, regular: bool = True) -> None:
        """End open episodes if the environment cannot save itself, then write everything.

        After a ``regular`` checkpoint, of an interval or of the run's end, the earlier run that this run replaces is
        deleted. After the checkpoint of a stopped run it is not: a user who stops a run may have seen a mistake.
        """
        self.settle_save()
        state = self.state
        store = self._run.store
        self._context.ranks.settle()
        with self._run.timers.root.child("RLTrainer._checkpoint").measure() as timer:
            # If the last checkpoint is of this very step, no step was taken since: its episodes have just started.
            # New episodes begin in all ranks or in none, and a resumed run begins them in all.
            state.environment_lost = self._context.ranks.any(state.environment_lost)
            saves_itself = isinstance(state.environment, SavesState)
            if store.saved_step != state.steps and not saves_itself and not state.environment_lost:
                state.begin_episodes()
            captured = state.capture(
                {
                    "evaluation": self.evaluation.state_dict(),
                    "wall_seconds": self.wall_seconds(),
                    "overdue": self.evaluation.overdue,
                    "resume": promise_of(self._context, state).to_json(),
                }
            )
            captured = self._context.ranks.save_state(captured)
            parameters = {} if state.curricula is None else state.curricula.status()
            settings = {name: behavior.settings for name, behavior in state.behaviors.items()}
            # A power failure must leave no checkpoint beside summaries that end before it.
            for writer in self.writers:
                with self.notifications.failing_later():
                    writer.flush(state.steps, self._run.plugins.strict)
            pending = store.begin_save(state.steps, captured, settings, self._context, parameters)
            for behavior in state.behaviors.values():
                behavior.checkpoint_saved()
            if self._continues_while_saving(pending):
                self._saving = BackgroundSave.of(pending, regular)
            else:
                pending.write()
                self._saved(pending, regular, timer)

    def save_unless_saved(self, regular: bool) -> None:
        """Save a checkpoint unless the last one is of this step."""
        if self._run.store.saved_step != self.state.steps:
            self.save(regular)

    def _continues_while_saving(self, pending: PendingSave) -> bool:
        """Whether the training continues while a checkpoint is written."""
        return (
            self._context.config.checkpoint_settings.asynchronous
            and not self.ending
            and not self.state.ending  # else it would wait too
            and not self.exports.at_checkpoints  # which export the policies of this step
            and pending.nbytes <= MOST_COPIED
        )

    def settle_save(self) -> None:
        """Wait for the checkpoint that is being written, if there is one, and do what follows it."""
        saving = self._saving
        self._saving = None
        if saving is None:
            return
        with self._run.timers.root.child("RLTrainer._checkpoint").measure() as timer:
            try:
                saving.written.result()
            except KeyboardInterrupt:
                self._saving = saving
                raise
            self._saved(saving.pending, saving.regular, timer)

    def _saved(self, pending: PendingSave, regular: bool, timer: Timer) -> None:
        """Do what follows a checkpoint: the status, exports, and notifications."""
        path = self._run.store.saved(pending)
        if regular:
            self._run.directory.regular_checkpoint_written()
        self._export(self.exports.at_checkpoint, pending.step, timer)
        self.notifications.notify("rlcore_checkpoint_saved", step=pending.step, path=path)
        for removed in pending.removed:
            self.notifications.notify("rlcore_checkpoint_removed", step=removed.step, path=removed.path)

    # ------------------------------------------------------------ exports, failures

    def export_at_end(self) -> None:
        """Export the policies to the run directory."""
        self._export(self.exports.at_end, self.state.steps, self._run.timers.root)

    def _export(self, export: Callable[[int, Iterable[BehaviorRun]], None], step: int, timer: Timer) -> None:
        """Export the policies of ``step`` within what ``timer`` measures; an error that is to end the run waits."""
        started = perf_counter()
        with self.notifications.failing_later():
            export(step, self.state.behaviors.values())
        if self.exports.exporters:
            timer.child("Exporter.export").add(perf_counter() - started)

    def raise_failure(self) -> None:
        """Save a checkpoint and raise the error of a writer or a notification, if it is to end the run."""
        failure = self.notifications.failure
        reason = self._context.ranks.share(None if failure is None else str(failure))
        if reason is None:
            return
        self.settle_save()
        if not self._context.inference:
            self.save_unless_saved(regular=False)
        raise failure or RanksFailed(f"rank 0 failed: {reason}")
