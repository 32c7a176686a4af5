"""The run: the loop that knows the order of things, from the first step to the last checkpoint.

The words used here, in the configuration, in logs and on the command line:

==================  ====================================================================================
behavior            a named kind of agent; one trainer learns it
slot                one row of a behavior's arrays: a place where one live agent sits
environment step    one call of ``Environment.step``: every copy of the environment moves once
agent step          one agent's one transition; ``max_steps`` and the intervals count these
rollout             what an on-policy trainer collects between two updates
update              one ``Trainer.update()``: all gradient steps on what was collected
epoch               the stretch between two summaries; iterating over a run yields one result per epoch
evaluation          whole episodes of the policies as they are, in an environment of their own; they have a score
checkpoint          everything a resumed run needs, in one verified directory
==================  ====================================================================================

A checkpoint ends open episodes, unless the environment can save itself: every copy begins its next episode, and what
was open bootstraps as if truncated. The run that is never stopped does the same, which is what makes a resumed run
equal to it bit for bit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Literal, Self

import attrs

from rlcore.config.data_source import learns_offline
from rlcore.curriculum import LessonChange
from rlcore.environment import Environment
from rlcore.errors import EnvironmentFailed, PluginError, RlcoreError, RunStateError
from rlcore.plugins.calls import Plugins
from rlcore.plugins.run_context import RunContext
from rlcore.results import BehaviorResult, EpochResult, EvaluationResult, steps_per_second
from rlcore.runs.behavior import BehaviorRun
from rlcore.runs.closing import Held, WhileClosing, close_all, no_deadline
from rlcore.runs.evaluations import RunEvaluation, Scores
from rlcore.runs.evaluator import Evaluator
from rlcore.runs.loop import PhaseTimes, infer, learn
from rlcore.runs.setup import fresh_start, resolve_config, run_context, with_seed
from rlcore.runs.state import RunState, cut_warning, unlearned_warning
from rlcore.runs.summaries import RunSummaries
from rlcore.runs.timers import Timers
from rlcore.settings import RunConfig
from rlcore.stats import StatSummary
from rlcore.storage.configuration import described
from rlcore.storage.directory import RunDirectory
from rlcore.storage.store import RunStore

log = logging.getLogger(__name__)

Outcome = Literal["done", "interrupted", "failed"]

__all__ = ["BehaviorResult", "EpochResult", "Run", "RunContext"]


@attrs.frozen
class _Parts:
    """What a run has once it has started."""

    context: RunContext
    state: RunState
    evaluation: RunEvaluation
    summaries: RunSummaries


class Run:
    """One training. Iterating goes on where it was, so ``for epoch in run`` can be left and entered again::

        with Run("examples/cartpole.yaml") as run:
            for epoch in run:
                print(epoch.behaviors["CartPole"].mean_reward)

    ``config`` is a configuration file, a mapping of the same shape, or a :class:`RunConfig`. Environment, trainers
    and run directory are made when the first epoch begins, or by :meth:`start`.
    """

    def __init__(self, config: RunConfig | Mapping[str, Any] | str | Path, plugins: Plugins | None = None) -> None:
        self.config, self.plugins = resolve_config(config, plugins)
        self.directory = RunDirectory(self.config.checkpoint_settings)
        self.timers = Timers()
        self.epoch = 0
        self.outcome: Outcome | None = None
        self.stop_signal: int | None = None
        self.offline = learns_offline(self.config, self.plugins)  # from recorded data: no environment is stepped
        self._store = RunStore(self.directory, self.plugins)
        self._started: _Parts | None = None
        self._resumed_from: Path | None = None
        self._nothing_left = False  # to learn, already when this process took the run up
        self._stop = False
        self._failure: PluginError | None = None  # of a notification, which is to end the run
        self.while_closing: WhileClosing = no_deadline  # entered around each close(); `rlcore run` sets a deadline
        self._spent = PhaseTimes()  # in this epoch
        self._evaluated: EvaluationResult | None = None  # in this epoch, latest
        self._warned_of_cuts = False
        self._seconds_before = 0.0  # of earlier processes of this run
        self._started_at = 0.0
        self._steps_at_start = 0

    # ------------------------------------------------------------ what users call

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.close(outcome_of(error), error)
        elif self._started is not None:
            self.close("done" if self.finished else "interrupted")

    def __iter__(self) -> Iterator[EpochResult]:
        return self

    def __next__(self) -> EpochResult:
        """Trains until the next summary. Raises StopIteration when ``max_steps`` is reached or a stop was asked for."""
        if self.outcome is not None:
            raise StopIteration
        try:
            self.start()
            if self.finished or self._stop:
                self.close("done" if self.finished else "interrupted")
                raise StopIteration
            return self._train_epoch()
        except StopIteration:
            raise
        except BaseException as error:
            self.close(outcome_of(error), error)
            raise

    def train(self) -> Mapping[str, BehaviorResult]:
        """Trains to the end and returns the last results."""
        for _ in self:
            pass
        return self.results()

    def evaluate(self, episodes: int = 20, seed: int | None = None, deterministic: bool = True) -> EvaluationResult:
        """Plays ``episodes`` whole episodes with the current policies in an environment of their own.

        Equal seeds play equal episodes; without one, those are the episodes of the evaluations within the run. Nothing
        of the training changes, and no score is noted.
        """
        self.start()
        policies = {name: behavior.policy for name, behavior in self.behaviors.items()}
        result = self._parts.evaluation.evaluator.evaluate(lambda _: policies, episodes, seed, deterministic)
        self.plugins.evaluated(self._parts.context, self.steps, result)
        return result

    def request_stop(self, signal_number: int | None = None) -> None:
        """Asks the run to save a checkpoint and end after the current environment step. Safe in a signal handler.

        An update is finished first. An evaluation is abandoned; the resumed run makes it anew.
        """
        self.stop_signal = signal_number
        self._stop = True

    @property
    def finished(self) -> bool:
        """Whether every behavior has reached its ``max_steps``, or an evaluation ``stop_at``."""
        if self._parts.context.inference:
            return False
        if self.scores.stopped:
            return True
        return not any(behavior.learning for behavior in self.behaviors.values())

    @property
    def nothing_left(self) -> bool:
        """Whether a run was resumed that had reached its ``max_steps``, or ``stop_at``, before."""
        return self._nothing_left

    @property
    def resumed_from(self) -> Path | None:
        """The checkpoint this run goes on from, once it has started; None for one that begins anew or only acts."""
        return self._resumed_from

    @property
    def saved_step(self) -> int | None:
        """Agent steps of the last checkpoint; None before there is one."""
        return self._store.saved_step

    @property
    def updating(self) -> bool:
        """Whether a trainer is in its update at this moment; for a thread that looks on."""
        return self._spent.updating_now

    @property
    def scores(self) -> Scores:
        """What the evaluations within the run found."""
        return self._parts.evaluation.scores

    @property
    def behaviors(self) -> dict[str, BehaviorRun]:
        """The behaviors of the environment, or of the recorded data; none before the run has started."""
        return {} if self._started is None else self._started.state.behaviors

    @property
    def environment(self) -> Environment | None:
        """What is stepped, once the run has started; None for a run that learns from recorded data."""
        return None if self._started is None else self._started.state.environment

    @property
    def lessons(self) -> Mapping[str, float]:
        """The number of the lesson that each environment parameter with lessons is in, counted from 0."""
        curricula = None if self._started is None else self._started.state.curricula
        return {} if curricula is None else curricula.lessons

    @property
    def steps(self) -> int:
        """Agent steps of all behaviors."""
        return sum(behavior.steps for behavior in self.behaviors.values())

    def results(self) -> dict[str, BehaviorResult]:
        """Where every behavior stands."""
        return {name: behavior.result({}) for name, behavior in self.behaviors.items()}

    # ------------------------------------------------------------ beginning

    def start(self) -> None:
        """Makes the run directory, environment, trainers and writers, and restores a resumed run. Once.

        No environment is made where the trainers learn from recorded data.
        """
        if self._started is not None:
            return
        with self.timers.root.child("run_training.setup").measure():
            self.directory.open()
            try:
                self._begin(*self._make_parts())
            except BaseException:
                self._release()
                self._started = None
                raise
        self._started_at = perf_counter()
        self._steps_at_start = self.steps

    def _make_parts(self) -> tuple[_Parts, Mapping[str, Any] | None]:
        """Makes everything, and reads the checkpoint to go on from, if there is to be one."""
        settings = self.config.checkpoint_settings
        saved = self._store.newest_state() if settings.resume or settings.inference else None
        self.config = with_seed(self.config, None if saved is None else int(saved["run"]["seed"]))
        self._store.configure(fresh_start(self.config))
        resumed = {} if saved is None else {name: int(steps) for name, steps in saved["run"]["steps"].items()}
        context = run_context(self.config, self.plugins, self.directory.path, self.directory.working_directory, resumed)
        self.plugins.configured(self.config)
        state = RunState.make(self.config, self.plugins, context, self.offline, self._lesson_changed)
        specs = {name: behavior.spec for name, behavior in state.behaviors.items()}
        evaluator = Evaluator(self.config, self.plugins, context, specs)
        evaluation = RunEvaluation(self.config.evaluation, evaluator, self._store)
        summaries = RunSummaries(self.plugins, context, state.curricula, self.timers)
        self._started = _Parts(context, state, evaluation, summaries)
        return self._started, saved

    def _begin(self, parts: _Parts, saved: Mapping[str, Any] | None) -> None:
        context, state, evaluation = parts.context, parts.state, parts.evaluation
        if saved is not None:
            self._store.compare_versions(saved)
        if saved is None:
            self._load_from_other_runs(state)
            state.begin()
        elif context.inference:
            state.load_policies(saved, self.directory.path)
            self._store.restore_status(context, state.behaviors)
            state.begin()
        else:
            state.restore(saved, self.directory.path)
            self._seconds_before = float(saved["run"]["wall_seconds"])
            self._store.restore_status(context, state.behaviors)
            evaluation.load_state_dict(saved["run"].get("evaluation"))
            evaluation.overdue = saved["run"].get("overdue")
            self._resumed_from = self.directory.checkpoints / str(self._store.saved_step)
        for behavior in state.behaviors.values():
            behavior.set_boundaries()
        evaluation.restore_boundaries(state.behaviors)
        self._nothing_left = self._resumed_from is not None and self.finished
        if not (context.inference or self._nothing_left):
            evaluation.begin(state.steps)
        self.directory.begin(self._nothing_left)
        if saved is None:
            self._store.write_configuration()
        parts.summaries.open(self.config)
        for plugin in self.plugins.loaded:
            log.debug("plugin %s (%s %s): %s", plugin.name, plugin.distribution, plugin.version, plugin.why)
        try:
            self.plugins.run_started(context)
        except BaseException as error:  # where plugins are strict: those that heard of the start hear of the end
            with suppress(Exception):
                self.plugins.run_finished(context, outcome_of(error), error)
            raise
        if not context.inference:
            self.directory.started(self._plugin_files())
        if self._resumed_from is not None and not self._nothing_left:
            self._say_what_changed()
            self._store.forget_result()
            self._store.write_configuration()

    def _say_what_changed(self) -> None:
        changed = self._store.configuration_changes()
        if changed:
            log.info("%s: resumes with another configuration: %s", self.directory.path, described(changed))

    def _load_from_other_runs(self, state: RunState) -> None:
        """The weights and lessons that a new run is to begin with."""
        settings = self.config.checkpoint_settings
        run_id, other = settings.initialize_from, settings.initialize_lessons_from
        models = None if run_id is None else self._store.models_of_run(run_id)
        state.load_models(self._parts.context, models, f"checkpoint_settings.initialize_from {run_id!r}")
        if other is not None and state.curricula is not None:
            origin = f"checkpoint_settings.initialize_lessons_from {other!r}"
            taken = state.curricula.load_status(self._store.status_of_run(other, origin))
            lessons = ", ".join(f"{name} {number:g}" for name, number in taken.items())
            if taken:
                log.info("%s: begins with the lessons %s, counted from 0", origin, lessons)
            else:
                names = ", ".join(self.config.environment_parameters)
                log.warning("%s: its status has no lesson of %s; all begin with their first", origin, names)

    # ------------------------------------------------------------ the loop

    def _train_epoch(self) -> EpochResult:
        parts = self._parts
        state, evaluation, inference = parts.state, parts.evaluation, parts.context.inference
        behaviors = list(state.behaviors.values())
        started, steps_before = perf_counter(), state.steps
        self._spent = spent = PhaseTimes()
        self._evaluated = None
        for behavior in behaviors:
            behavior.begin_epoch()
        try:
            if inference:
                infer(state, self._stop_requested, spent)
            elif evaluation.overdue is None or not self._boundary_reached():
                evaluation.watch(state.behaviors, state.steps)
                learn(state, self._stop_requested, self._boundary_reached, spent)
        finally:
            spent.add_to(self.timers.root.child("TrainerController.start_learning"))
        seconds = perf_counter() - started
        taken = state.steps - steps_before
        if inference:
            taken = spent.environment_steps * sum(behavior.spec.slots for behavior in behaviors)
        speed = steps_per_second(taken, seconds - spent.evaluating)
        self.epoch += 1
        results = {behavior.name: behavior.result(self._summarise(behavior, speed)) for behavior in behaviors}
        if evaluation.overdue is None:  # else all that is due at this step is left to the resumed run
            if any(behavior.checkpoint_due for behavior in behaviors):
                self._save_checkpoint()
            for behavior in behaviors:
                behavior.set_boundaries()
        self._raise_failure()
        return EpochResult(
            epoch=self.epoch,
            behaviors=results,
            seconds=seconds,
            collect_seconds=spent.collecting,
            update_seconds=spent.updating,
            steps_per_second=speed,
            evaluate_seconds=spent.evaluating,
            evaluation=self._evaluated,
            best_score=evaluation.scores.best_score,
            best_step=evaluation.scores.best_step,
        )

    def _summarise(self, behavior: BehaviorRun, speed: float) -> dict[str, StatSummary]:
        """Summarises a behavior if that is due."""
        if self._parts.evaluation.overdue is not None:  # which comes before it
            return {}
        last = self.scores.stopped and behavior.learning  # max_steps is not reached, and yet nothing more will come
        if behavior.summary_due or last or self._parts.context.inference:
            return self._parts.summaries.summarise(behavior, speed)
        return {}

    def _stop_requested(self) -> bool:
        return self._stop

    # ------------------------------------------------------------ boundaries

    def _boundary_reached(self) -> bool:
        """Does what is due between two summaries; whether a summary is due, or the run ends here."""
        evaluation, behaviors = self._parts.evaluation, self.behaviors.values()
        ending = all(behavior.steps >= behavior.settings.max_steps for behavior in behaviors)
        if evaluation.due(self.steps, ending) and not self._evaluate():
            return True
        evaluation.overdue = None
        if self.scores.stopped or any(behavior.summary_due for behavior in behaviors):
            return True
        if any(behavior.checkpoint_due for behavior in behaviors):
            self._save_checkpoint()
        evaluation.watch(self.behaviors, self.steps)
        return False

    def _evaluate(self) -> bool:
        """Whether the evaluation was played to its end."""
        started = perf_counter()
        context = self._parts.context
        self._evaluated = self._parts.evaluation.evaluate(
            self.behaviors, self.steps, context.seed, self._stop_requested
        )
        seconds = perf_counter() - started
        self._spent.evaluating += seconds
        self.timers.root.child("Evaluator.evaluate").add(seconds)
        if self._evaluated is None:
            return False
        with self._ends_run():
            self.plugins.evaluated(context, self.steps, self._evaluated)
        return True

    def _save_checkpoint(self, regular: bool = True) -> None:
        """Ends open episodes if the environment cannot save itself, then writes everything.

        A ``regular`` checkpoint, of an interval or of the run's end, lets go of the run that this one replaces. The
        checkpoint of a run that is stopped does not: a user who stops a run may have seen a mistake.
        """
        context, state = self._parts.context, self._parts.state
        with self.timers.root.child("RLTrainer._checkpoint").measure():
            # Nothing was stepped since the checkpoint of this very step: its episodes have just begun.
            hidden = [] if self._store.saved_step == state.steps else state.settle_episodes()
            if hidden and self.outcome is None and not self._warned_of_cuts:
                self._warned_of_cuts = True
                log.warning("%s", cut_warning(state.behaviors, hidden[0]))
            captured = state.capture(self._parts.evaluation.state_dict(), self._wall_seconds())
            captured["run"]["overdue"] = self._parts.evaluation.overdue
            parameters = {} if state.curricula is None else state.curricula.status()
            path = self._store.save(state.steps, captured, state.behaviors, context, parameters)
            if regular:
                self.directory.checkpoint_written()
            for behavior in state.behaviors.values():
                behavior.checkpoint_saved()
            with self._ends_run():
                self.plugins.checkpoint_saved(context, state.steps, path)
            self._store.update_status(context, state.behaviors, parameters)

    def _lesson_changed(self, change: LessonChange) -> None:
        log.info(
            "environment parameter %r: lesson %d (%s) after %d (%s) at step %d",
            change.parameter, change.lesson, change.name, change.previous, change.previous_name, self.steps,
        )  # fmt: skip
        with self._ends_run():
            self.plugins.lesson_changed(self._parts.context, self.steps, change)

    @contextmanager
    def _ends_run(self) -> Iterator[None]:
        """For a notification: its failure, raised where plugins are strict, waits until everything can be saved."""
        try:
            yield
        except PluginError as failure:
            self._failure = self._failure or failure
            self._stop = True

    def _raise_failure(self) -> None:
        """Ends the run for a writer or a notification that failed, with all that was learned saved."""
        failure = self._failure or self._parts.summaries.failure
        if failure is None:
            return
        if not self._parts.context.inference and self._store.saved_step != self.steps:
            self._save_checkpoint(regular=False)
        raise failure

    # ------------------------------------------------------------ ending

    def close(self, outcome: Outcome = "done", error: BaseException | None = None) -> None:
        """Ends the run, once: a last checkpoint unless something went wrong, the result; everything is freed."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        if self._started is None:
            return
        try:
            if not self._started.context.inference:
                # After an error, a KeyboardInterrupt among them, the state may be half of a step: the last checkpoint
                # stands.
                if error is None and self._store.saved_step != self.steps:
                    self._save_checkpoint(regular=outcome == "done")
                if outcome == "done":
                    self._store.write_status(final=True)
                    for behavior in self.behaviors.values():
                        if behavior.updates == 0 and behavior.steps >= behavior.settings.max_steps:
                            log.warning("%s", unlearned_warning(behavior))
            if error is None:
                self._raise_failure()
        except BaseException as late:
            self.outcome, error = "failed", late
            raise
        finally:
            self._finish(self._started.context, error)

    def _finish(self, context: RunContext, error: BaseException | None) -> None:
        """Writes the result, tells plugins of it, and closes everything."""
        try:
            late = self._write_and_tell(context, error)
            if late is not None:
                raise late
        finally:
            stopped = self._release(logging.WARNING if error is None else logging.DEBUG)
        if stopped is not None and error is None:
            raise stopped

    def _write_and_tell(self, context: RunContext, error: BaseException | None) -> RlcoreError | None:
        """What went wrong with the result, which plugins may want to read, or in telling them; None if ``error``
        ended the run, which is then the one to report.
        """
        late: RlcoreError | None = None
        try:
            if not context.inference and not (self._nothing_left and self._store.is_done()):
                self._store.write_result(self._result(), self.timers.to_json())
        except RunStateError as problem:
            log.debug("%s", problem)
            if error is None:
                self.outcome, late = "failed", problem
        try:
            self.plugins.run_finished(context, self.outcome or "failed", error or late)
        except PluginError as failure:
            if error is None and late is None:
                return failure
            log.warning("%s", failure)
        return late

    def _result(self) -> dict[str, Any]:
        evaluation = self._parts.evaluation.to_json()
        return {
            "outcome": self.outcome,
            "wall_seconds": self._wall_seconds(),
            "steps_per_second": steps_per_second(self.steps - self._steps_at_start, perf_counter() - self._started_at),
            **({} if evaluation is None else {"evaluation": evaluation}),
            "behaviors": {
                name: {
                    "steps": behavior.steps,
                    "episodes": behavior.episodes.finished,
                    "mean_reward": behavior.mean_reward,
                }
                for name, behavior in self.behaviors.items()
            },
        }

    def _release(self, level: int = logging.DEBUG) -> RlcoreError | None:
        """Closes everything; see :func:`rlcore.runs.closing.close_all`.

        The environments last: one that hangs may have the process ended, and the directory must be in order then.
        """
        writers: list[Held] = []
        environments: list[Held] = []
        if self._started is not None:
            state, evaluator = self._started.state, self._started.evaluation.evaluator
            writers = [Held(writer, writer.described, PluginError) for writer in self._started.summaries.writers]
            environments = [Held(evaluator, "the environment of evaluations", EnvironmentFailed)]
            if state.environment is not None:
                environments.append(Held(state.environment, state.environment_name, EnvironmentFailed))
        try:
            stopped = close_all(writers, level, self.while_closing)
        finally:
            self.directory.close(self._plugin_files())
        return close_all(environments, level, self.while_closing) or stopped

    # ------------------------------------------------------------ small things

    def _plugin_files(self) -> list[str]:
        """The patterns of files that plugins write, one for each behavior where they name it."""
        patterns = () if self._started is None else self._started.context.files
        return [
            pattern.replace("{behavior}", name)
            for pattern in patterns
            for name in (self.behaviors if "{behavior}" in pattern else ("",))
        ]

    def _wall_seconds(self) -> float:
        return self._seconds_before + perf_counter() - self._started_at

    @property
    def _parts(self) -> _Parts:
        if self._started is None:
            raise RuntimeError("the run has not started; call start()")
        return self._started


def outcome_of(error: BaseException) -> Outcome:
    """How a run ends that this error left."""
    return "interrupted" if isinstance(error, (KeyboardInterrupt, GeneratorExit)) else "failed"
