"""The two loops a run spends its time in. Nothing here runs Python per agent, and no hook is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import attrs

from rlcore.environment import Actions, Environment
from rlcore.errors import PluginError, RlcoreError
from rlcore.plugins.failures import environment_does, environment_failed, trainer_does, trainer_failed
from rlcore.runs.batch_check import batch_of, no_batch
from rlcore.runs.behavior import BehaviorRun
from rlcore.runs.state import RunState
from rlcore.runs.timers import Timer


@attrs.define
class Spent:
    """Seconds and counts of one stretch of a loop."""

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

    def add_to(self, tree: Timer) -> None:
        """Adds itself to a run's timers, under ML-Agents' names."""
        tree.add(self.collecting + self.updating)
        tree.child("TorchPolicy.evaluate").add(self.acting, self.environment_steps)
        tree.child("env_step").add(self.stepping, self.environment_steps)
        tree.child("process_trajectory").add(self.recording, self.environment_steps)
        tree.child("_update_policy").add(self.updating, self.updates)


def learn(
    state: RunState, stop_requested: Callable[[], bool], boundary_reached: Callable[[], bool], spent: Spent
) -> None:
    """Steps and updates until ``boundary_reached`` says that the stretch is over, or a stop is asked for.

    Without an environment every behavior learns from recorded data: there are only updates, and ``steps`` moves in
    them. ``boundary_reached`` is called whenever a behavior's steps are at its ``next_boundary``. ``spent`` is added to
    also when an error ends the stretch.
    """
    clock = perf_counter
    environment, behaviors = state.environment, tuple(state.behaviors.values())
    actions: dict[str, Actions] = {}
    while True:
        if environment is not None:
            started = _collect(state, environment, behaviors, spent, actions)
        else:
            started, updates = clock(), spent.updates
        boundary = False
        for behavior in behaviors:
            if behavior.learning:
                trainer = behavior.trainer
                try:
                    ready = trainer.ready()
                except RlcoreError:
                    raise
                except (Exception, SystemExit) as error:
                    raise trainer_failed(behavior, "ready", error) from error
                if ready:
                    spent.updating_now = True
                    with trainer_does(behavior, "update"):
                        behavior.add_update(trainer.update())
                    spent.updating_now = False
                    spent.updates += 1
                boundary |= trainer.steps >= behavior.next_boundary
        spent.updating += clock() - started
        if environment is None and spent.updates == updates:
            raise nothing_to_learn(behaviors)
        if (boundary and boundary_reached()) or stop_requested():
            return


def _collect(
    state: RunState,
    environment: Environment,
    behaviors: Sequence[BehaviorRun],
    spent: Spent,
    actions: dict[str, Actions],
) -> float:
    """One environment step of all behaviors; those that learn observe it. Returns when it was over.

    ``actions`` is filled anew; it is the caller's so that no step makes one.
    """
    started = perf_counter()
    for behavior in behaviors:
        try:
            actions[behavior.name] = behavior.trainer.act(behavior.batch) if behavior.learning else behavior.exploit()
        except RlcoreError:
            raise
        except (Exception, SystemExit) as error:
            raise trainer_failed(behavior, "act", error) from error
    acted = perf_counter()
    try:
        batches = environment.step(actions)
    except RlcoreError:
        raise
    except (Exception, SystemExit) as error:
        raise environment_failed(state.environment_name, "step", error) from error
    stepped = perf_counter()
    for behavior in behaviors:
        try:
            batch = behavior.batch = batches[behavior.name]
        except (LookupError, TypeError):
            raise no_batch(batches, behavior.name, state.environment_name, "step") from None
        state.check_batch(behavior, batch)
        if behavior.learning:
            behavior.episodes.record(batch)
            try:
                behavior.trainer.observe(actions[behavior.name], batch)
            except RlcoreError:
                raise
            except (Exception, SystemExit) as error:
                raise trainer_failed(behavior, "observe", error) from error
    if state.curricula is not None and state.curricula.after_step():
        state.begin_anew()
    recorded = perf_counter()
    spent.acting += acted - started
    spent.stepping += stepped - acted
    spent.recording += recorded - stepped
    spent.environment_steps += 1
    return recorded


def infer(state: RunState, stop_requested: Callable[[], bool], spent: Spent) -> None:
    """Acts with the saved policies, learning nothing, for the shortest ``summary_freq`` in agent steps."""
    environment, behaviors, curricula = state.environment, tuple(state.behaviors.values()), state.curricula
    assert environment is not None  # an offline run acts in the one that it is told to
    agents = sum(behavior.spec.slots for behavior in behaviors)
    agent_steps = 0
    while agent_steps < min(behavior.settings.summary_freq for behavior in behaviors) and not stop_requested():
        started = perf_counter()
        actions = {}
        for behavior in behaviors:
            with trainer_does(behavior, "act"):
                actions[behavior.name] = behavior.exploit()
        acted = perf_counter()
        with environment_does(state.environment_name, "step"):
            batches = environment.step(actions)
        stepped = perf_counter()
        for behavior in behaviors:
            batch = behavior.batch = batch_of(batches, behavior.name, state.environment_name, "step")
            state.check_batch(behavior, batch)
            behavior.episodes.record(batch)
            behavior.inferred += behavior.spec.slots
        if curricula is not None:
            curricula.follow()
        spent.acting += acted - started
        spent.stepping += stepped - acted
        spent.recording += perf_counter() - stepped
        spent.environment_steps += 1
        agent_steps += agents


def nothing_to_learn(behaviors: Sequence[BehaviorRun]) -> PluginError:
    """What to raise where trainers of recorded data are not at their end, and none has anything to learn from."""
    names = ", ".join(repr(behavior.name) for behavior in behaviors if behavior.learning)
    trainers = ", ".join(repr(behavior.settings.trainer_type) for behavior in behaviors if behavior.learning)
    return PluginError(f"behavior {names}: trainer {trainers} has no data left to learn from before max_steps")
