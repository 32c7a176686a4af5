"""The loop of training and the loop of ``--inference``: act, step the environment, observe, update.

No Python code runs for each agent, and no hook is called for each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import attrs

from rlcore.contracts.environment import Actions, AgentBatch, SendsSteps
from rlcore.contracts.trainer import Trainer
from rlcore.errors import EnvironmentFailed, NonFiniteError, PluginError
from rlcore.plugins.failures import blame, blamed, trainer_named
from rlcore.ranks.step_count import IdleGroups
from rlcore.run.action_check import check_all_actions
from rlcore.run.batch_check import batch_of, no_batch
from rlcore.run.behavior import BehaviorRun
from rlcore.run.state import RunState
from rlcore.run.timers import Timer


@attrs.define
class PhaseTimes:
    """Seconds and counts of the phases of a loop: collecting, updating, evaluating."""

    acting: float = 0.0
    stepping: float = 0.0
    recording: float = 0.0
    updating: float = 0.0
    evaluating: float = 0.0
    environment_steps: int = 0
    updates: int = 0
    updating_now: bool = False

    @property
    def collecting(self) -> float:
        return self.acting + self.stepping + self.recording

    def plus(self, other: PhaseTimes, factor: int = 1) -> PhaseTimes:
        """Add ``factor`` times the seconds and counts of ``other``."""
        names = [name for name in attrs.fields_dict(PhaseTimes) if name != "updating_now"]
        return PhaseTimes(**{name: getattr(self, name) + factor * getattr(other, name) for name in names})

    def add_to(self, tree: Timer) -> None:
        """Add the times to a run's timers, under ML-Agents' names."""
        tree.add(self.collecting + self.updating)
        tree.child("TorchPolicy.evaluate").add(self.acting, self.environment_steps)
        tree.child("env_step").add(self.stepping, self.environment_steps)
        tree.child("process_trajectory").add(self.recording, self.environment_steps)
        tree.child("_update_policy").add(self.updating, self.updates)


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
    idle = state.acting
    ahead = environment if state.updates_ahead and isinstance(environment, SendsSteps) else None
    learning = tuple((behavior, behavior.trainer) for behavior in behaviors if behavior.learning)
    actions: dict[str, Actions] = {}
    acting = stepping = recording = 0.0  # local, because every step adds to them
    steps = 0
    checked = False  # whether the trainers' actions were checked since the latest update
    if state.joined is not None:
        state.joined.watch()
    start = clock()
    try:
        while True:
            if environment is not None:
                _act(behaviors, actions)
                if idle is not None:
                    _note_who_acts(behaviors, idle)
                if not checked:
                    check_all_actions(behaviors, actions)
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
                    check_all_actions(behaviors, actions)
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
            if boundary and state.joined is not None:
                state.joined.settle()
            if (boundary and boundary_reached()) or stop_requested():
                return
            if boundary and state.joined is not None:
                state.joined.watch()
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


def _note_who_acts(behaviors: Sequence[BehaviorRun], idle: IdleGroups) -> None:
    for number, behavior in enumerate(behaviors):
        acts = behavior.batch.needs_action
        if acts is None or acts.any():
            idle.acted[number] = True


def _observe(
    state: RunState, behaviors: Sequence[BehaviorRun], batches: Mapping[str, AgentBatch], actions: dict[str, Actions]
) -> None:
    """Check what a step returned. Behaviors that learn observe it; curricula draw what the next episodes start with."""
    curricula, joined = state.curricula, state.joined
    for behavior in behaviors:
        try:
            batch = behavior.batch = batches[behavior.name]
        except (LookupError, TypeError):
            raise no_batch(batches, behavior.name, state.environment_name, "step") from None
        try:
            behavior.checks.check(batch)
        except NonFiniteError as error:
            check_all_actions(behaviors, actions)
            raise state.with_parameters(error) from None
        if behavior.playing:
            finished = behavior.record(batch)
            if finished is not None:
                if joined is not None:
                    joined.add(behavior, finished)
                else:
                    behavior.episodes_finished(finished)
                    if curricula is not None:
                        curricula.episodes_finished(behavior, finished)
            try:
                behavior.trainer.observe(actions[behavior.name], batch)
            except BaseException as error:
                blame(trainer_named(behavior), "in observe", error)
        else:
            behavior.observe_frozen(batch)
    if joined is not None:
        joined.after_step(behaviors)
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
            batch = behavior.batch = batch_of(batches, behavior.name, state.environment_name, "step")
            state.check_batch(behavior, batch)
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
