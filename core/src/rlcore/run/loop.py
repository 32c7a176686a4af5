"""The loop of training and the loop of ``--inference``: act, step the environment, observe, update.

No Python code runs for each agent, and no hook is called for each step. A :class:`StepWatch` says where a run waits if
it takes no step for long: an environment that hangs looks like one that is slow.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, perf_counter
from weakref import WeakMethod

from rlcore.contracts.environment import Actions, AgentBatch, SendsSteps
from rlcore.contracts.ranks import IdleGroups
from rlcore.contracts.trainer import Trainer
from rlcore.errors import EnvironmentFailed, NonFiniteError, PluginError
from rlcore.plugins.failures import blame, blamed
from rlcore.run.behaviors.behavior import BehaviorRun, trainer_named
from rlcore.run.behaviors.checks import check_actions, no_batch
from rlcore.run.state import RunState
from rlcore.run.timers import PhaseTimes

log = logging.getLogger(__name__)

# Without a step for this long, a run says where it waits; again each time when that has doubled.
QUIET_SECONDS = 60.0
# The innermost frames that are shown.
FRAMES = 4


def learn(
    state: RunState,
    stop_requested: Callable[[], bool],
    boundary_reached: Callable[[], bool],
    times: PhaseTimes,
    updated_after: Callable[[PhaseTimes], bool] | None = None,
) -> None:
    """Step the environment and update trainers until ``boundary_reached`` or ``stopping`` returns True.

    Without an environment, every behavior learns from recorded data: there are only updates, and they advance the
    steps. ``boundary_reached`` is called whenever the steps of a behavior reach its ``next_boundary``. The seconds are
    added to ``times``, also if an error ends the loop. ``updated_after`` gets the times until an update, until it
    returns True. No behavior starts or stops learning within one call.
    """
    clock = perf_counter
    environment, behaviors = state.environment, tuple(state.behaviors.values())
    idle, ranks = state.acting, state.context.ranks
    ahead = environment if state.updates_ahead and isinstance(environment, SendsSteps) else None
    learning = tuple((behavior, behavior.trainer) for behavior in behaviors if behavior.learning)
    actions: dict[str, Actions] = {}
    acting = stepping = recording = 0.0  # local, because every step adds to them
    steps = 0
    checked = False  # whether the trainers' actions were checked since the latest update
    ranks.watch()
    start = clock()
    try:
        while True:
            if environment is not None:
                _act(behaviors, actions)
                if idle is not None:
                    _note_who_acts(behaviors, idle)
                if not checked:
                    _check_actions(behaviors, actions)
                    checked = True
                acted = clock()
                try:
                    if ahead is None:
                        batches = environment.step(actions)
                    else:
                        ahead.send(actions)
                        before = times.updating
                        if _update_ready(learning, times):
                            checked = False
                        stepping -= times.updating - before
                        batches = ahead.receive()
                except BaseException as error:
                    _check_actions(behaviors, actions)
                    blame(state.environment_name, "in step", error, EnvironmentFailed)
                stepped = clock()
                _observe(state, behaviors, batches, actions)
                recorded = clock()
                acting += acted - start
                stepping += stepped - acted
                recording += recorded - stepped
                start = recorded
                steps += 1
            updated = False
            boundary = idle is not None and idle.after_step() and state.ending
            if ahead is None and _update_ready(learning, times):
                updated, checked = True, False
            for behavior, trainer in learning:
                if trainer.steps >= behavior.next_boundary:
                    boundary = True
            if updated and updated_after is not None:
                now = PhaseTimes(acting, stepping, recording, environment_steps=steps)
                if updated_after(now.plus(times)):
                    updated_after = None
            if environment is None and not updated:
                raise nothing_to_learn(behaviors)
            if boundary:
                ranks.settle()
            if (boundary and boundary_reached()) or stop_requested():
                return
            if boundary:
                ranks.watch()
            if boundary or updated:
                start = clock()
    finally:
        times.acting += acting
        times.stepping += stepping
        times.recording += recording
        times.environment_steps += steps


def _update_ready(learning: Sequence[tuple[BehaviorRun, Trainer]], times: PhaseTimes) -> bool:
    """Update the trainers that have enough to learn from. Returns whether there is one."""
    updated = False
    for behavior, trainer in learning:
        try:
            ready = trainer.ready()
        except BaseException as error:
            blame(trainer_named(behavior), "in ready", error)
        if ready:
            updated = True
            _update(behavior, times)
    return updated


def _update(behavior: BehaviorRun, times: PhaseTimes) -> None:
    start = perf_counter()
    times.updating_now = True
    with blamed(trainer_named(behavior), "in update"):
        behavior.add_update(behavior.trainer.update())
    times.updating_now = False
    times.updating += perf_counter() - start
    times.updates += 1


def _act(behaviors: Sequence[BehaviorRun], actions: dict[str, Actions]) -> None:
    """Fill ``actions``, the same dictionary in every step, with what each behavior does next."""
    for behavior in behaviors:
        try:
            actions[behavior.name] = behavior.trainer.act(behavior.batch) if behavior.playing else behavior.act_frozen()
        except BaseException as error:
            blame(trainer_named(behavior), "in act", error)


def _check_actions(behaviors: Sequence[BehaviorRun], actions: Mapping[str, Actions]) -> None:
    for each in behaviors:
        check_actions(each.spec, actions[each.name], each.batch.needs_action, trainer_named(each), each.steps)


def _note_who_acts(behaviors: Sequence[BehaviorRun], idle: IdleGroups) -> None:
    for number, behavior in enumerate(behaviors):
        acts = behavior.batch.needs_action
        if acts is None or acts.any():
            idle.acted[number] = True


def _observe(
    state: RunState, behaviors: Sequence[BehaviorRun], batches: Mapping[str, AgentBatch], actions: dict[str, Actions]
) -> None:
    """Check what a step returned. Behaviors that learn observe it; curricula draw what the next episodes start with."""
    curricula, ranks = state.curricula, state.context.ranks
    for behavior in behaviors:
        try:
            batch = behavior.batch = batches[behavior.name]
        except (LookupError, TypeError):
            raise no_batch(batches, behavior.name, state.environment_name, "step") from None
        try:
            behavior.checks.check(batch)
        except NonFiniteError as error:
            _check_actions(behaviors, actions)
            raise state.with_parameters(error) from None
        if behavior.playing:
            finished = behavior.record(batch)
            if finished is not None:
                ranks.episodes_finished(behavior, finished)
            try:
                behavior.trainer.observe(actions[behavior.name], batch)
            except BaseException as error:
                blame(trainer_named(behavior), "in observe", error)
        else:
            behavior.observe_frozen(batch)
    ranks.after_step(behaviors)
    if curricula is not None and curricula.after_step():
        state.reset()


def infer(state: RunState, stop_requested: Callable[[], bool], times: PhaseTimes) -> None:
    """Act with the saved policies without learning, for as many agent steps as the smallest ``summary_freq``."""
    environment, behaviors, curricula = state.environment, tuple(state.behaviors.values()), state.curricula
    assert environment is not None  # an offline run acts in the environment that its configuration names
    agents = sum(behavior.spec.slots for behavior in behaviors)
    agent_steps = 0
    while agent_steps < min(behavior.settings.summary_freq for behavior in behaviors) and not stop_requested():
        started = perf_counter()
        actions = {}
        for behavior in behaviors:
            with blamed(trainer_named(behavior), "in act"):
                actions[behavior.name] = behavior.act_frozen()
        acted = perf_counter()
        with blamed(state.environment_name, "in step", EnvironmentFailed):
            batches = environment.step(actions)
        stepped = perf_counter()
        for behavior in behaviors:
            batch = behavior.batch = state.checked_batch(behavior, batches, "step")
            finished = behavior.episodes.record(batch)
            if finished is not None:
                behavior.episodes_finished(finished)
            behavior.observe_frozen(batch)
            behavior.inferred += behavior.spec.slots
        if curricula is not None:
            curricula.after_frozen_step()
        times.acting += acted - started
        times.stepping += stepped - acted
        times.recording += perf_counter() - stepped
        times.environment_steps += 1
        agent_steps += agents


def nothing_to_learn(behaviors: Sequence[BehaviorRun]) -> PluginError:
    """The error to raise if no trainer of recorded data has data left, and not all have reached ``max_steps``."""
    names = ", ".join(repr(behavior.name) for behavior in behaviors if behavior.learning)
    trainers = ", ".join(repr(behavior.settings.trainer_type) for behavior in behaviors if behavior.learning)
    return PluginError(f"behavior {names}: trainer {trainers} has no data left to learn from before max_steps")


class StepWatch:
    """A thread that warns while :meth:`watching` lasts and ``progress`` has not changed for long.

    A call of Python that does not return cannot be interrupted from within its process. A second thread can show where
    it is: the frames of the thread that trains.

    The loop does nothing for it: the thread reads ``progress`` four times within ``seconds``. It keeps nothing alive: a
    run that a program forgets without closing it is freed, with its lock.
    """

    def __init__(self, progress: Callable[[], tuple[object, str]], seconds: float = QUIET_SECONDS) -> None:
        """``progress``, a method, returns what changes with each step, and words for the message: ``"at step 60"``."""
        self._progress = WeakMethod(progress)
        self._seconds = seconds
        self._watched: int | None = None  # identifier of the thread that trains
        self._round = 0  # changes whenever watching begins
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the calling thread within the block."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="rlcore-step-watch", daemon=True)
            self._thread.start()
        yield from self._while(threading.get_ident())

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not watch within the block, in which no steps are taken: a checkpoint, an evaluation."""
        yield from self._while(None)

    def _while(self, watched: int | None) -> Iterator[None]:
        before, self._watched = self._watched, watched
        self._round += 1
        try:
            yield
        finally:
            self._watched = before
            self._round += 1

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        seen: object = None
        since, patience = monotonic(), self._seconds
        while not self._closed.wait(self._seconds / 4):
            watched, now, of_run = self._watched, monotonic(), self._progress()
            if of_run is None:
                return
            progress, where = of_run()
            del of_run
            latest = (self._round, progress)
            if watched is None or latest != seen:
                seen, since, patience = latest, now, self._seconds
            elif now - since >= patience:
                log.warning("no step has ended for %.0f s, %s: the run waits in %s", now - since, where, _at(watched))
                patience *= 2


def _at(thread: int) -> str:
    """The innermost frames of a thread, in one line: ``step (game.py:12), called from step_all (game.py:40)``."""
    frame = sys._current_frames().get(thread)
    frames: list[str] = []
    while frame is not None and len(frames) < FRAMES:
        code = frame.f_code
        frames.append(f"{code.co_name} ({Path(code.co_filename).name}:{frame.f_lineno})")
        frame = frame.f_back
    return ", called from ".join(frames) or "a thread that has ended"
