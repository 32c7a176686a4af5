"""The loop of a run: act, step the environment, observe, update.

No Python code runs for each agent, and no hook is called for each step. :func:`watching` says where a run waits if it
takes no step for long: an environment that hangs looks like one that is slow.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, perf_counter

from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.environment import Environment, SendsSteps
from rlcore.contracts.ranks import IdleGroups, Ranks
from rlcore.contracts.results import PhaseTimes
from rlcore.contracts.trainer import Trainer
from rlcore.errors import PluginError
from rlcore.plugins.failures import blame, blamed
from rlcore.run.behaviors.actions import check_actions
from rlcore.run.behaviors.behavior import TrainedBehavior, trainer_named
from rlcore.run.state import TrainingState

Batches = Mapping[str, AgentBatch]

log = logging.getLogger(__name__)

# The innermost frames that are shown of a run that waits.
FRAMES = 4


def learn(
    state: TrainingState,
    stop_requested: Callable[[], bool],
    boundary_reached: Callable[[], bool],
    times: PhaseTimes,
) -> None:
    """Step the environment and update trainers until ``boundary_reached`` or ``stop_requested`` returns True.

    Without an environment, every behavior learns from recorded data: there are only updates, and they advance the
    steps. ``boundary_reached`` is called whenever the steps of a behavior reach its ``next_boundary``. Under
    ``--inference`` nothing learns, and as many agent steps are taken as the smallest ``summary_freq``. The seconds are
    added to ``times``, also if an error ends the loop. No behavior starts or stops learning within one call.
    """
    clock = perf_counter
    environment = state.environment
    behaviors = tuple(state.behaviors.values())
    idle = state.acting
    ranks = state.context.ranks
    after_step = [part.after_step for part in state.parts_with("after_step")]
    on_device = state.on_device is not None
    sending = None  # the environment, if trainers update while it steps
    if state.updates_while_stepping and isinstance(environment, SendsSteps):
        sending = environment
    learning = tuple((behavior, behavior.trainer) for behavior in behaviors if behavior.learning)
    last = None  # the last step of the environment in an epoch in which nothing learns
    if state.context.inference:
        agent_steps = min(behavior.settings.summary_freq for behavior in behaviors)
        slots = sum(behavior.spec.slots for behavior in behaviors)
        last = -(-agent_steps // slots)
    actions: dict[str, Actions] = {}
    # Local, because every step adds to them.
    acting = 0.0
    stepping = 0.0
    recording = 0.0
    steps = 0
    # Whether the trainers' actions were checked since the latest update. Only an update can make a policy diverge: one
    # look after each is enough, and all other steps do without.
    checked = False
    ranks.watch()
    start = clock()
    try:
        while True:
            if environment is not None:
                for behavior in behaviors:
                    try:
                        if behavior.playing:
                            actions[behavior.name] = behavior.trainer.act(behavior.batch)
                        else:
                            actions[behavior.name] = behavior.act_frozen()
                    except BaseException as error:
                        blame(trainer_named(behavior), "in act", error)
                if idle is not None:
                    _note_who_acts(behaviors, idle)
                if not (checked or on_device):
                    _check_actions(behaviors, actions)
                    checked = True
                acted = clock()
                failed = None
                updating = 0.0
                if sending is not None:
                    failed = _send(sending, actions)
                    before = times.updating
                    for behavior, trainer in learning:
                        if _update_if_ready(behavior, trainer, times):
                            checked = False
                    updating = times.updating - before
                try:
                    if failed is not None:
                        raise failed
                    batches = environment.step(actions) if sending is None else sending.receive()
                    stepped = clock()
                    if not on_device:
                        # All of them, before a trainer observes one: an environment that fails does so between two
                        # steps of all that learns, and what was learned can be saved.
                        batches = {behavior.name: behavior.checks.batch_in(batches, "step") for behavior in behaviors}
                except BaseException as error:
                    environment = _lose_environment(state, actions, error)
                    if not isinstance(environment, SendsSteps):
                        sending = None
                    elif sending is not None:
                        sending = environment
                    batches = environment.step(actions)
                    stepped = clock()
                stepping -= updating  # the updates took place between `acted` and `stepped`
                _observe(ranks, behaviors, batches, actions, on_device)
                ranks.after_step(behaviors)
                restarts = False
                for part_after_step in after_step:  # curricula draw what the next episodes start with
                    restarts |= part_after_step()
                if restarts:
                    state.begin_episodes()
                recorded = clock()
                acting += acted - start
                stepping += stepped - acted
                recording += recorded - stepped
                start = recorded
                steps += 1
                if steps == last:
                    return
            updated = False
            boundary = idle is not None and idle.after_step() and state.ending
            for behavior, trainer in learning:
                if sending is None and _update_if_ready(behavior, trainer, times):
                    updated = True
                    checked = False
                if trainer.steps >= behavior.next_boundary:
                    boundary = True
            if environment is None and not updated:
                names = ", ".join(trainer_named(behavior) for behavior, _ in learning)
                raise PluginError(f"{names} has no data left to learn from before max_steps")  # or it loops without end
            if boundary:
                ranks.settle()
                _count_episodes(state)
            if (boundary and boundary_reached()) or stop_requested():
                _count_episodes(state)
                return
            if boundary:
                ranks.watch()
            if boundary or updated:
                start = clock()  # updates measure themselves, and a boundary does not belong to acting
    finally:
        times.acting += acting
        times.stepping += stepping
        times.recording += recording
        times.environment_steps += steps


def _send(environment: SendsSteps, actions: Mapping[str, Actions]) -> BaseException | None:
    """Begin a step. Returns the error of it: the trainers update before it is reported, as those of all ranks do."""
    try:
        environment.send(actions)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return error
    return None


def _update_if_ready(behavior: TrainedBehavior, trainer: Trainer, times: PhaseTimes) -> bool:
    """Update the trainer of the behavior if it has enough to learn from. Returns whether it has."""
    try:
        if not trainer.ready():
            return False
    except BaseException as error:
        blame(trainer_named(behavior), "in ready", error)
    start = perf_counter()
    times.updating_now = True
    with blamed(trainer_named(behavior), "in update"):
        behavior.add_update(trainer.update())
    times.updating_now = False
    times.updating += perf_counter() - start
    times.updates += 1
    return True


def _lose_environment(state: TrainingState, actions: Mapping[str, Actions], error: BaseException) -> Environment:
    """Raise the error of a step that failed: of a trainer whose actions are wrong, else of the environment.

    In a run of several ranks, return what takes the place of the environment until all ranks stop.
    """
    if state.on_device is None:
        _check_actions(tuple(state.behaviors.values()), actions)
    with suppress(Exception):  # of an environment on a device, which has what ended before
        _count_episodes(state)
    return state.lose_environment("in step", error)


def update_what_is_ready(state: TrainingState, times: PhaseTimes) -> None:
    """Take the updates that are due after the environment was lost within a step, in place of the loop."""
    for behavior in state.behaviors.values():
        while behavior.learning and _update_if_ready(behavior, behavior.trainer, times):
            pass


def _check_actions(behaviors: Sequence[TrainedBehavior], actions: Mapping[str, Actions]) -> None:
    for behavior in behaviors:
        acts = behavior.batch.needs_action
        trainer = trainer_named(behavior)
        check_actions(behavior.spec, actions[behavior.name], acts, trainer, behavior.steps)


def _note_who_acts(behaviors: Sequence[TrainedBehavior], idle: IdleGroups) -> None:
    for number, behavior in enumerate(behaviors):
        acts = behavior.batch.needs_action
        if acts is None or acts.any():
            idle.acted[number] = True


def _observe(
    ranks: Ranks, behaviors: Sequence[TrainedBehavior], batches: Batches, actions: dict[str, Actions], on_device: bool
) -> None:
    """Have trainers observe what a step returned."""
    for behavior in behaviors:
        batch = batches[behavior.name]
        behavior.batch = batch
        if not behavior.playing:
            behavior.observe_frozen(batch)
            continue
        if not on_device:
            if batch.ended.size:
                _record(ranks, behavior, batch)
            else:
                behavior.episodes.record(batch)
        try:
            behavior.trainer.observe(actions[behavior.name], batch)
        except BaseException as error:
            blame(trainer_named(behavior), "in observe", error)


def _record(ranks: Ranks, behavior: TrainedBehavior, batch: AgentBatch) -> None:
    """Add a step to the episodes of the behavior."""
    learning_slots = getattr(behavior.trainer, "learning_slots", None)  # of a PartialTrainer
    finished = behavior.episodes.record(batch, learning_slots)
    if finished is not None:
        ranks.episodes_finished(behavior, finished)


def _count_episodes(state: TrainingState) -> None:
    """Add the steps whose batches stayed on a device, since this was last done, to the episodes of the behaviors."""
    if state.on_device is None:
        return
    for name, batches in state.on_device.played().items():
        behavior = state.behaviors[name]
        for batch in batches:
            _record(state.context.ranks, behavior, batch)


@contextmanager
def watching(progress: Callable[[], tuple[object, str] | None], seconds: float) -> Iterator[None]:
    """Warn while the block lasts, and ``progress`` has not changed for ``seconds``; again each time when that doubled.

    A call of Python that does not return cannot be interrupted from within its process. A second thread can show where
    it is: the frames of the calling thread. That thread looks at ``progress`` four times within ``seconds``, and the
    loop does nothing for it. ``progress`` returns what changes with each step, and words for the message, such as ``"at
    step 60"``; None while no steps are to be taken.
    """
    over = threading.Event()
    watched = threading.get_ident()

    def watch() -> None:
        last_steps: object = None
        since = monotonic()
        patience = seconds
        while not over.wait(seconds / 4):
            now = monotonic()
            steps, place = progress() or (None, "")
            if steps is None or steps != last_steps:
                last_steps = steps
                since = now
                patience = seconds
            elif now - since >= patience:
                frames = _frames_of(watched)
                log.warning("no step has ended for %.0f s, %s: the run waits in %s", now - since, place, frames)
                patience *= 2

    thread = threading.Thread(target=watch, name="rlcore-step-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _frames_of(thread: int) -> str:
    """The innermost frames of a thread, in one line: ``step (game.py:12), called from step_all (game.py:40)``."""
    stack = traceback.extract_stack(sys._current_frames()[thread], FRAMES)
    frames = []
    for frame in reversed(stack):
        file = Path(frame.filename).name
        frames.append(f"{frame.name} ({file}:{frame.lineno})")
    return ", called from ".join(frames)
