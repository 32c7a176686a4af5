"""A training from its start to its end: epochs, and closing.

:mod:`rlcore.run.loop` orders one step of the environment, :mod:`rlcore.run.boundaries` what happens between two steps.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from rlcore.contracts.ranks import IdleGroups
from rlcore.contracts.results import EpochResult, steps_per_second
from rlcore.errors import EnvironmentEnded, RlcoreError, RunStateError, one_line
from rlcore.run.behaviors.behavior import TrainedBehavior
from rlcore.run.boundaries import Boundaries
from rlcore.run.description import ResumePromise, promise_of
from rlcore.run.loop import learn, update_what_is_ready, watching
from rlcore.run.session import Session
from rlcore.run.state import TrainingState

log = logging.getLogger(__name__)

# Without a step for this long, a run says where it waits.
QUIET_SECONDS = 60.0

Outcome = Literal["done", "interrupted", "environment ended", "failed"]
STOPPED = ("interrupted", "environment ended")  # outcomes for a reason, before the end and without a failure


class Training:
    """A run that has started, with its environment, trainers and writers.

    :func:`rlcore.run.assemble.assemble` creates it, and :class:`rlcore.Run` is what users call.
    """

    def __init__(self, session: Session, boundaries: Boundaries) -> None:
        self.session = session
        self.run = session.prepared
        self.context = session.context
        self.boundaries = boundaries
        self.evaluations = boundaries.evaluations
        self.exports = boundaries.exports
        self.epoch = 0
        self.outcome: Outcome | None = None
        self.resumed_from: Path | None = None
        self.differences: tuple[str, ...] = ()  # from the checkpoint that this process resumed
        self.nothing_left = False  # to learn, already when this process resumed the run
        self.opened = ExitStack()  # closes environments, writers and the run directory
        self.slots_refused = False  # with a warning
        self._warned_of_endless = False
        self._at_boundary = False
        self._steps_at_start = 0
        self._state_is_sound = True  # at the end, so that it is saved

    def started(self) -> None:
        """Measure times and speeds from here on: the first epoch is about to start."""
        self.session.started_at = perf_counter()
        self._steps_at_start = self.state.steps
        for behavior in self.behaviors.values():
            behavior.ended_at = behavior.steps

    @property
    def state(self) -> TrainingState:
        return self.session.state

    @property
    def behaviors(self) -> dict[str, TrainedBehavior]:
        return self.state.behaviors

    @property
    def finished(self) -> bool:
        """Whether every behavior that acts has reached its ``max_steps``, or an evaluation ``stop_at``."""
        if self.context.inference:
            return False
        if self.evaluations.scores.stopped:
            return True
        idle = self.state.idle
        return not any(behavior.learning and behavior not in idle for behavior in self.behaviors.values())

    @property
    def promise(self) -> ResumePromise:
        """How a resume from this run's checkpoints compares with a run that is never stopped."""
        return promise_of(self.context, self.state)

    @property
    def resume(self) -> ResumePromise:
        """How this run compares with one that was never stopped, if this process resumed it too."""
        return self.promise.after(self.differences)

    def agreed_to_stop(self) -> bool:
        """Whether any rank is to stop. All ranks ask between the same epochs, and get the same answer.

        All save a checkpoint if one of them was asked to.
        """
        ranks = self.context.ranks
        stops = self.run.stops
        if ranks.any(stops.save):
            stops.save = False
            if not self.context.inference:
                self.boundaries.checkpoints.save_unless_saved(regular=False)
        return ranks.agree_to_stop(self.session.stopping, now=True)

    # ------------------------------------------------------------ the loop

    def train_epoch(self) -> EpochResult:
        """Train until the next summary, or act for its length under ``--inference``."""
        state = self.state
        evaluations = self.evaluations
        boundaries = self.boundaries
        started = perf_counter()
        acted = self._acted
        times = self.session.begin_epoch()
        try:
            # A run that was stopped within an evaluation begins with it, at the step at which it was due.
            if evaluations.overdue is None or not boundaries.reached():
                boundaries.watch()
                stopping = self.context.ranks.agreement(self.session.pausing)
                with watching(self._progress, QUIET_SECONDS):
                    learn(state, stopping, self._boundary_reached, times)
        finally:
            self.run.timers.root.child("TrainerController.start_learning").add_phases(times)
        seconds = perf_counter() - started
        speed = steps_per_second(self._acted - acted, seconds - times.evaluating)  # an evaluation learns from no step
        self.epoch += 1
        results = boundaries.end_epoch(speed)
        self._warn_of_endless()
        boundaries.raise_failure()
        return EpochResult(
            epoch=self.epoch,
            behaviors=results,
            seconds=seconds,
            collect_seconds=times.collecting,
            update_seconds=times.updating,
            steps_per_second=speed,
            evaluate_seconds=times.evaluating,
            evaluation=self.session.evaluated,
            best_score=evaluations.scores.best_score,
            best_step=evaluations.scores.best_step,
        )

    @property
    def _acted(self) -> int:
        """The agent steps of all behaviors, those under ``--inference`` included."""
        return sum(behavior.steps + behavior.inferred for behavior in self.behaviors.values())

    def _boundary_reached(self) -> bool:
        self._at_boundary = True
        over = self.boundaries.reached()
        self._at_boundary = False
        return over

    def _progress(self) -> tuple[tuple[int, ...], str] | None:
        """What changes with each step or update of the trainers, and the place in the run, for messages."""
        if self._at_boundary:  # a checkpoint or an evaluation may take long
            return None
        times = self.session.times
        place = f"at step {self.state.steps}"
        if times.updating_now:
            place += ", in an update"
        steps = [behavior.episodes.steps + behavior.steps for behavior in self.behaviors.values()]
        return (*steps, times.updates), place

    def _warn_of_endless(self) -> None:
        endless = [behavior for behavior in self.behaviors.values() if behavior.endless]
        if not endless or self._warned_of_endless:
            return
        self._warned_of_endless = True
        behavior = endless[0]
        advice = ""
        if behavior.restarts:
            often = min(self.behaviors.values(), key=lambda behavior: behavior.checkpoint_interval)
            interval = often.checkpoint_interval
            slots = often.spec.slots
            advice = (
                "; the environment cannot save itself, so checkpoints restart all episodes: raise behaviors."
                f"{often.name}.checkpoint_interval of {interval} agent steps, {interval // slots} for each of {slots} "
                "agents (with even_checkpoints, lower keep_checkpoints)"
            )
        log.warning(
            "behavior %r: no episode ended in the last %d agent steps: the mean reward is missing, and nothing that "
            "waits for the end of episodes happens; if they should end, have the environment terminate or truncate "
            "them, for example with environment.max_episode_steps%s (reported once)",
            behavior.name,
            behavior.steps - behavior.ended_at,
            advice,
        )

    def _warn_of_unlearned(self) -> None:
        for behavior in self.state.idle:
            log.warning(
                "behavior %r: its agents have not acted for %d steps of the environments, and the run does not wait "
                "for them: it ends with %d of %d steps",
                behavior.name,
                IdleGroups.window,
                behavior.steps,
                behavior.settings.max_steps,
            )
        for behavior in self.behaviors.values():
            if behavior.at_max_steps and behavior.updates == 0:
                log.warning(
                    "behavior %r: nothing was learned: %d steps were taken and the trainer was still waiting for more "
                    "before its first update; raise max_steps, or lower what it waits for, such as "
                    "hyperparameters.buffer_size or buffer_init_steps",
                    behavior.name,
                    behavior.steps,
                )

    # ------------------------------------------------------------ ending

    def close(self, outcome: Outcome, error: BaseException | None = None) -> None:
        """End the run: write the result and close everything, after a last checkpoint and exports.

        These are not made after an ``error`` within a step. The first error is the one to raise, unless it is
        ``error``; later ones are logged.
        """
        self.outcome = outcome
        self.session.ending = True
        self._state_is_sound = error is None or self._is_sound_after(error)
        if error is not None:
            self.context.ranks.close(error)  # at once: the other ranks wait for this one
            if self.ends_in_order(error):
                error = None
        first = error
        steps = (self._finish_save, self._save_last, self._write_result, self._wait_for_rank_0, self.report_end)
        for step in steps:  # all of them: a full disk must not keep plugins from hearing of the end
            try:
                step(first)
            except BaseException as late:
                if first is not None and isinstance(late, Exception):  # Ctrl-C is never only logged
                    message = late if isinstance(late, RlcoreError) else one_line(late)
                    log.warning("%s", message)
                    continue
                first = late
                if step != self.report_end:
                    self.outcome = "failed"
        self.context.ranks.close(first)
        kind = None if first is None else type(first)
        self.opened.__exit__(kind, first, None)
        if first is not None and first is not error:
            raise first

    @property
    def _was_done(self) -> bool:
        """Whether an earlier process ended this run, and wrote its result."""
        return self.nothing_left and self.run.store.is_done()

    def _finish_save(self, error: BaseException | None) -> None:
        self.boundaries.checkpoints.wait_until_written()

    def _save_last(self, error: BaseException | None) -> None:
        """Save a last checkpoint and export the policies.

        After an error within a step, a KeyboardInterrupt among them, the state may be half of it: the last checkpoint
        stands. An environment that ends or fails does so between two steps of all that learns.
        """
        state = self.state
        learned = error is None or state.steps > 0  # or a first mistake would take the name of the run
        if self._state_is_sound and learned and not self.context.inference:
            if state.between_steps is not None:
                # The environment was lost between what trainers observed and the updates of the loop.
                update_what_is_ready(state, self.session.times)
            self.boundaries.checkpoints.save_unless_saved(regular=self.outcome == "done")
            if not self._was_done:
                for part in state.parts:
                    part.finish(state.steps)
        if self.outcome == "done" and not self.context.inference:
            self.run.store.write_status(final=True)
            self._warn_of_unlearned()
        if error is None:
            self.boundaries.raise_failure()

    def ends_in_order(self, error: BaseException) -> bool:
        """Whether ``error`` is not a failure: the environment ended by itself, between two steps of all that learns."""
        return isinstance(error, EnvironmentEnded) and self._is_sound_after(error)

    def _is_sound_after(self, error: BaseException) -> bool:
        """Whether all that learns is between two steps although ``error`` ends the run.

        Other ranks do not know of the error, and save nothing together with this one.
        """
        return self.state.between_steps is error and self.context.ranks.size == 1

    def _write_result(self, error: BaseException | None) -> None:
        if self.context.inference or self._was_done:
            return
        try:
            self.run.store.write_result(self._result(), self.run.timers.to_json())
        except RunStateError as problem:  # most often a full disk, which `error` says
            if error is None:
                raise
            log.debug("%s", problem)

    def _wait_for_rank_0(self, error: BaseException | None) -> None:
        """Let rank 0 write to the end: torchrun ends all ranks soon after one has left with an exit code."""
        if error is None:
            self.context.ranks.share(None)

    def report_end(self, error: BaseException | None) -> None:
        """Report the end to plugins, which may read the result."""
        if self.context.ranks.rank != 0:
            return
        outcome = self.outcome or "failed"
        results = self.state.results()
        self.run.plugins.notify("rlcore_run_finished", run=self.context, outcome=outcome, error=error, results=results)

    def _result(self) -> dict[str, Any]:
        """The content of ``result.json``; an entry that does not apply is left out."""
        result: dict[str, Any] = {"outcome": self.outcome}
        stop = self.run.stops.first
        if stop is not None and self.outcome in STOPPED:
            result["stop"] = stop.to_json()
        steps = self.state.steps - self._steps_at_start
        seconds = perf_counter() - self.session.started_at
        result["wall_seconds"] = self.session.wall_seconds()
        result["steps_per_second"] = steps_per_second(steps, seconds)
        result["resume"] = self.resume.to_json()
        evaluation = self.evaluations.to_json()
        if evaluation is not None:
            result["evaluation"] = evaluation
        if self.exports.results:
            result["exports"] = self.exports.to_json()
        result["behaviors"] = {name: _behavior_result(behavior) for name, behavior in self.behaviors.items()}
        return result


def _behavior_result(behavior: TrainedBehavior) -> dict[str, Any]:
    result: dict[str, Any] = {
        "steps": behavior.steps,
        "episodes": behavior.episodes.finished,
        "mean_reward": behavior.mean_reward,
    }
    if behavior.recent_info:
        result["info"] = behavior.mean_info
    return result


def outcome_of(error: BaseException) -> Outcome:
    """The outcome of a run that ``error`` ended."""
    return "interrupted" if isinstance(error, (KeyboardInterrupt, GeneratorExit)) else "failed"
