"""A training from its start to its end: epochs, what is due between two epochs, and closing.

:mod:`rlcore.run.loop` orders one step of the environment; :class:`Training` orders a boundary between two steps:
evaluation, summary, checkpoint.

A checkpoint ends open episodes, unless the environment can save itself: every environment starts its next episode, and
open episodes bootstrap as if truncated. A run that is never stopped does the same, and is therefore equal, bit for bit,
to a run that was stopped and resumed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from rlcore.contracts.results import EpochResult, EvaluationResult, steps_per_second
from rlcore.errors import PluginError, RanksFailed, RlcoreError, RunStateError, one_line
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import FACTORIES, RunContext
from rlcore.ranks.parts import gather_state
from rlcore.run.background_save import MOST_COPIED, BackgroundSave
from rlcore.run.behavior import BehaviorRun
from rlcore.run.control import Control
from rlcore.run.description import ResumePromise, promise_of
from rlcore.run.evaluations import RunEvaluation
from rlcore.run.export import RunExports
from rlcore.run.loop import PhaseTimes, infer, learn
from rlcore.run.notifications import Notifications
from rlcore.run.rank_stops import StopAgreement
from rlcore.run.setup import fresh_start, plugin_files, with_intervals
from rlcore.run.speed_advice import Setting, SpeedAdvice
from rlcore.run.state import RunState, cut_warning, endless_warning, idle_warning, unlearned_warning
from rlcore.run.step_watch import StepWatch
from rlcore.run.summaries import RunSummaries
from rlcore.run.timers import Timer, Timers
from rlcore.storage.directory import RunDirectory
from rlcore.storage.store import PendingSave, RunStore

log = logging.getLogger(__name__)

Outcome = Literal["done", "interrupted", "failed"]


class Training:
    """A run that has started, with its environment, trainers and writers.

    :meth:`rlcore.run.starting.Start.training` creates it, and :class:`rlcore.Run` is what users call.
    """

    def __init__(
        self,
        plugins: Plugins,
        context: RunContext,
        state: RunState,
        evaluation: RunEvaluation,
        summaries: RunSummaries,
        exports: RunExports,
        notifications: Notifications,
        directory: RunDirectory,
        store: RunStore,
        timers: Timers,
        control: Control,
    ) -> None:
        self.context = context
        self.state = state
        self.evaluation = evaluation
        self.summaries = summaries
        self.exports = exports
        self.notifications = notifications
        self.epoch = 0
        self.outcome: Outcome | None = None
        self.resumed_from: Path | None = None
        self.differences: tuple[str, ...] = ()  # from the checkpoint that this process resumed
        self.nothing_left = False  # to learn, already when this process resumed the run
        self.seconds_before = 0.0  # of earlier processes of this run
        self.opened = ExitStack()  # closes environments, writers and the run directory
        self.times = PhaseTimes()  # of the latest epoch
        self._plugins = plugins
        self._directory = directory
        self._store = store
        self._timers = timers
        self._control = control
        self._saving: BackgroundSave | None = None
        self._evaluated: EvaluationResult | None = None  # in this epoch, latest
        self._warned_of_cuts = False
        self._warned_of_endless = False
        self._watch = StepWatch(self._progress)
        self._advice = _speed_advice(context, state)
        self._agreement: StopAgreement | None = None  # of all ranks, if there are several
        if state.joined is not None:
            self._agreement = StopAgreement(context.ranks, state.joined, self.stopping, control.stops)
        self._started_at = perf_counter()
        self._steps_at_start = 0

    def started(self) -> None:
        """Measure times and speeds from here on: the first epoch is about to start."""
        self._started_at = perf_counter()
        self._steps_at_start = self.state.steps

    @property
    def behaviors(self) -> dict[str, BehaviorRun]:
        return self.state.behaviors

    @property
    def finished(self) -> bool:
        """Whether every behavior that acts has reached its ``max_steps``, or an evaluation ``stop_at``."""
        if self.context.inference:
            return False
        idle = self.state.idle
        waits = any(behavior.learning and behavior not in idle for behavior in self.behaviors.values())
        return self.evaluation.scores.stopped or not waits

    @property
    def promise(self) -> ResumePromise:
        """How a resume from this run's checkpoints compares with a run that is never stopped."""
        return promise_of(self.context, self.state)

    @property
    def resume(self) -> ResumePromise:
        """How this run compares with one that was never stopped, if this process resumed it too."""
        return self.promise.after(self.differences)

    def stopping(self) -> bool:
        """Whether a stop was requested, or a plugin's failure is to end the run."""
        return self._control.stop_requested or self.notifications.failure is not None

    def agreed_to_stop(self) -> bool:
        """Whether any rank is :meth:`stopping`. All ranks ask between the same epochs, and get the same answer."""
        return self.stopping() if self._agreement is None else self._agreement.now()

    # ------------------------------------------------------------ the loop

    def train_epoch(self) -> EpochResult:
        """Train until the next summary, or act for its length under ``--inference``."""
        state, evaluation, inference = self.state, self.evaluation, self.context.inference
        behaviors = list(state.behaviors.values())
        started, steps_before = perf_counter(), state.steps
        self.times = times = PhaseTimes()
        self._evaluated = None
        for behavior in behaviors:
            behavior.begin_epoch()
        try:
            if inference:
                with self._watch.watching():
                    infer(state, self.stopping, times)
            elif evaluation.overdue is None or not self._boundary_reached():
                evaluation.watch(state.behaviors, state.steps)
                stopping = self.stopping if self._agreement is None else self._agreement.after_step
                with self._watch.watching():
                    advice = None if self._advice.done else self._updated
                    learn(state, stopping, self._boundary_reached, times, advice)
        finally:
            self._advice.epoch_over(times)
            times.add_to(self._timers.root.child("TrainerController.start_learning"))
        seconds = perf_counter() - started
        taken = state.steps - steps_before
        if inference:
            taken = times.environment_steps * sum(behavior.spec.slots for behavior in behaviors)
        speed = steps_per_second(taken, seconds - times.evaluating)
        self.epoch += 1
        results = {}
        for behavior in behaviors:
            due = self.summaries.due(behavior, evaluation)
            results[behavior.name] = behavior.result(self.summaries.summarize(behavior, speed) if due else {})
        self._directory.declare_files(plugin_files(self.context, self.behaviors))
        if evaluation.overdue is None:  # else everything that is due at this step is left to the resumed run
            if self._checkpoint_due():
                self._save_checkpoint()
            for behavior in behaviors:
                behavior.set_boundaries()
        self._warn_of_endless()
        self._raise_failure()
        return EpochResult(
            epoch=self.epoch,
            behaviors=results,
            seconds=seconds,
            collect_seconds=times.collecting,
            update_seconds=times.updating,
            steps_per_second=speed,
            evaluate_seconds=times.evaluating,
            evaluation=self._evaluated,
            best_score=evaluation.scores.best_score,
            best_step=evaluation.scores.best_step,
        )

    def _progress(self) -> tuple[tuple[int, ...], str]:
        """What changes with each step or update of the trainers, and the place in the run, for messages."""
        times, behaviors, joined = self.times, self.behaviors.values(), self.state.joined
        steps = 0 if joined is None else joined.steps  # because the ranks count agent steps now and then
        where = f"at step {self.state.steps}{', in an update' if times.updating_now else ''}"
        return (*(behavior.steps + behavior.inferred for behavior in behaviors), steps, times.updates), where

    def _updated(self, times: PhaseTimes) -> bool:
        ranks, environment = self.context.ranks, self.state.environment
        elsewhere = ranks.exchange_seconds if ranks.size > 1 else getattr(environment, "busy_seconds", 0.0)
        return self._advice.updated(times, elsewhere)

    def _warn_of_endless(self) -> None:
        if self._warned_of_endless:
            return
        for behavior in self.behaviors.values():
            if behavior.endless:
                self._warned_of_endless = True
                log.warning("%s", endless_warning(behavior))
                return

    # ------------------------------------------------------------ boundaries

    def _boundary_reached(self) -> bool:
        """Do what is due between two summaries. Returns whether a summary is due, or the run ends here."""
        with self._watch.paused():
            return self._summary_due()

    def _summary_due(self) -> bool:
        self._settle_save()
        evaluation, state, behaviors = self.evaluation, self.state, self.behaviors.values()
        ending = state.ending
        if evaluation.due(state.steps, ending) and not self._evaluate():
            return True
        evaluation.overdue = None
        if ending or any(self.summaries.due(behavior, evaluation) for behavior in behaviors):
            return True
        if self._checkpoint_due():
            self._save_checkpoint()
        evaluation.watch(state.behaviors, state.steps)
        return False

    def _checkpoint_due(self) -> bool:
        """Whether a checkpoint is due. The first ones that are due fix an interval that was left to the run."""
        for behavior in self.behaviors.values():
            if behavior.checkpoint_due and behavior.interval_is_open:
                behavior.choose_interval(self.context.ranks.share(self._wall_seconds()))
                if behavior.interval_is_open:
                    continue
                log.info(
                    "behavior %r: a checkpoint every %s steps, about ten minutes: each restarts all episodes, because "
                    "the environment cannot save its state; checkpoint_interval sets another number",
                    behavior.name, f"{behavior.checkpoint_interval:,}",
                )  # fmt: skip
                self.keep_intervals()
                self._store.write_configuration()
        return any(behavior.checkpoint_due for behavior in self.behaviors.values())

    def keep_intervals(self) -> None:
        """Have the configuration of the run state the intervals of checkpoints that the run chose."""
        config = with_intervals(self.context.config, self.behaviors.values())
        self._store.configure(fresh_start(config), self.context.ranks.size)

    def _evaluate(self) -> bool:
        """Evaluate the policies. Returns whether the evaluation was played to its end."""
        started, step = perf_counter(), self.state.steps
        about = {"seed": self.context.seed, FACTORIES: self.context.factories.to_json()}
        self._evaluated = self.evaluation.evaluate(self.behaviors, step, about, self.stopping)
        seconds = perf_counter() - started
        self.times.evaluating += seconds
        self._timers.root.child("Evaluator.evaluate").add(seconds)
        if self._evaluated is None:
            return False
        self.notifications.evaluated(step, self._evaluated)
        return True

    def _save_checkpoint(self, regular: bool = True) -> None:
        """End open episodes if the environment cannot save itself, then write everything.

        After a ``regular`` checkpoint, of an interval or of the run's end, the earlier run that this run replaces is
        deleted. After the checkpoint of a stopped run it is not: a user who stops a run may have seen a mistake.
        """
        self._settle_save()
        state, store, ranks = self.state, self._store, self.context.ranks
        if state.joined is not None:
            state.joined.settle()
        with self._timers.root.child("RLTrainer._checkpoint").measure() as timer:
            # If the last checkpoint is of this very step, no step was taken since: its episodes have just started.
            hidden = [] if store.saved_step == state.steps else state.settle_episodes()
            if hidden and self.outcome is None and not self._warned_of_cuts:
                self._warned_of_cuts = True
                log.warning("%s", cut_warning(state.behaviors, hidden[0]))
            captured = state.capture(self.evaluation.state_dict(), self._wall_seconds())
            captured["run"] |= {"overdue": self.evaluation.overdue, "resume": self.promise.to_json()}
            captured = gather_state(captured, ranks)
            parameters = {} if state.curricula is None else state.curricula.status()
            settings = {name: behavior.settings for name, behavior in state.behaviors.items()}
            pending = store.begin_save(state.steps, captured, settings, self.context, parameters)
            for behavior in state.behaviors.values():
                behavior.checkpoint_saved()
            if self._continues_while_saving(pending):
                self._saving = BackgroundSave(pending, regular)
            else:
                pending.write()
                self._saved(pending, regular, timer)

    def _continues_while_saving(self, pending: PendingSave) -> bool:
        """Whether the training continues while a checkpoint is written."""
        return (
            self.context.config.checkpoint_settings.asynchronous
            and self.outcome is None
            and any(each.steps < each.settings.max_steps for each in self.behaviors.values())  # else it would wait too
            and not self.exports.at_checkpoints  # which export the policies of this step
            and pending.nbytes <= MOST_COPIED
        )

    def _settle_save(self) -> None:
        """Wait for the checkpoint that is being written, if there is one, and do what follows it."""
        saving, self._saving = self._saving, None
        if saving is None:
            return
        with self._timers.root.child("RLTrainer._checkpoint").measure() as timer:
            try:
                saving.wait()
            except KeyboardInterrupt:
                self._saving = saving
                raise
            except BaseException:
                self._store.not_saved()
                raise
            self._saved(saving.pending, saving.regular, timer)

    def _saved(self, pending: PendingSave, regular: bool, timer: Timer) -> None:
        """Do what follows a checkpoint: the status, exports, and notifications."""
        path = self._store.saved(pending)
        if regular:
            self._directory.regular_checkpoint_written()
        self._export(self.exports.at_checkpoint, pending.step, timer)
        self.notifications.checkpoint_saved(pending.step, path)
        for removed in self._store.removed:
            self.notifications.checkpoint_removed(removed.step, removed.path)

    def _export(self, export: Callable[[int, Iterable[BehaviorRun]], None], step: int, timer: Timer) -> None:
        """Export the policies of ``step`` within what ``timer`` measures; an error that is to end the run waits."""
        started = perf_counter()
        with self.notifications.failing_later():
            export(step, self.behaviors.values())
        if self.exports.exporters:
            timer.child("Exporter.export").add(perf_counter() - started)

    def _raise_failure(self) -> None:
        """Save a checkpoint and raise the error of a writer or a notification, if it is to end the run."""
        failure = self.notifications.failure
        reason = self.context.ranks.share(None if failure is None else str(failure))
        if reason is None:
            return
        self._settle_save()
        if not self.context.inference and self._store.saved_step != self.state.steps:
            self._save_checkpoint(regular=False)
        raise failure or RanksFailed(f"rank 0 failed: {reason}")

    # ------------------------------------------------------------ ending

    def close(self, outcome: Outcome, error: BaseException | None = None) -> None:
        """End the run: write the result and close everything, after a last checkpoint and exports without ``error``."""
        self.outcome = outcome
        if error is not None:
            self.context.ranks.close(error)  # at once: the other ranks wait for this one
        try:
            self._settle_last_save(error)
            if not self.context.inference:
                # After an error, a KeyboardInterrupt among them, the state may be half of a step: the last checkpoint
                # stands.
                if error is None and self._store.saved_step != self.state.steps:
                    self._save_checkpoint(regular=outcome == "done")
                if error is None and not (self.nothing_left and self._store.is_done()):
                    self._export(self.exports.at_end, self.state.steps, self._timers.root)
                if outcome == "done":
                    self._store.write_status(final=True)
                    for behavior in self.state.idle:
                        log.warning("%s", idle_warning(behavior))
                    for behavior in self.behaviors.values():
                        if behavior.updates == 0 and behavior.steps >= behavior.settings.max_steps:
                            log.warning("%s", unlearned_warning(behavior))
            if error is None:
                self._raise_failure()
        except BaseException as late:
            self.outcome, error = "failed", late
            raise
        finally:
            self._finish(error)

    def _settle_last_save(self, error: BaseException | None) -> None:
        """Wait for the checkpoint that is being written. If ``error`` ended the run, it is the one to raise."""
        try:
            self._settle_save()
        except Exception as problem:
            if error is None:
                raise
            log.warning("%s", problem if isinstance(problem, RlcoreError) else one_line(problem))

    def _finish(self, error: BaseException | None) -> None:
        """Write the result, report the end to plugins, and close everything; the first error is the one to raise."""
        late: RlcoreError | None = None
        try:
            late = self._write_and_report(error)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._watch.close()
            reported = error or late
            self.context.ranks.close(reported)
            self.opened.__exit__(None if reported is None else type(reported), reported, None)
        if late is not None:
            raise late

    def _write_and_report(self, error: BaseException | None) -> RlcoreError | None:
        """Write the result, then report the end to plugins, which may read it. Returns an error of either.

        Returns None if ``error`` ended the run, because that error is the one to raise.
        """
        late: RlcoreError | None = None
        try:
            if not self.context.inference and not (self.nothing_left and self._store.is_done()):
                self._store.write_result(self._result(), self._timers.to_json())
        except RunStateError as problem:
            log.debug("%s", problem)
            if error is None:
                self.outcome, late = "failed", problem
        try:
            if self.context.ranks.rank == 0:
                self._plugins.run_finished(self.context, self.outcome or "failed", error or late, self.state.results())
        except PluginError as failure:
            if error is None and late is None:
                return failure
            log.warning("%s", failure)
        return late

    def _result(self) -> dict[str, Any]:
        steps, evaluation, stop = self.state.steps, self.evaluation.to_json(), self._control.stops.first
        return {
            "outcome": self.outcome,
            **({"stop": stop.to_json()} if stop is not None and self.outcome == "interrupted" else {}),
            "wall_seconds": self._wall_seconds(),
            "steps_per_second": steps_per_second(steps - self._steps_at_start, perf_counter() - self._started_at),
            "resume": self.resume.to_json(),
            **({} if evaluation is None else {"evaluation": evaluation}),
            **({"exports": self.exports.to_json()} if self.exports.results else {}),
            "behaviors": {
                name: {
                    "steps": behavior.steps,
                    "episodes": behavior.episodes.finished,
                    "mean_reward": behavior.mean_reward,
                }
                for name, behavior in self.behaviors.items()
            },
        }

    def _wall_seconds(self) -> float:
        return self.seconds_before + perf_counter() - self._started_at


def _speed_advice(context: RunContext, state: RunState) -> SpeedAdvice:
    settings = context.config.environment
    executor = None if settings is None else settings.executor
    workers = None if state.environment is None else 0 if executor is None else executor.count
    envs = 0 if state.environment is None else state.environment.num_envs
    return SpeedAdvice(Setting(context.ranks.size, workers, envs), context.ranks.rank == 0)


def outcome_of(error: BaseException) -> Outcome:
    """The outcome of a run that ``error`` ended."""
    return "interrupted" if isinstance(error, (KeyboardInterrupt, GeneratorExit)) else "failed"
