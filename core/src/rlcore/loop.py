"""The two loops a run spends its time in. Nothing here runs Python per agent, and no hook is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import attrs

from rlcore.behavior_run import BehaviorRun
from rlcore.blame import environment_does, environment_failed, trainer_does, trainer_failed
from rlcore.environment import Actions, Environment


@attrs.define
class Spent:
    """Seconds and counts of one stretch of a loop."""

    acting: float = 0.0
    stepping: float = 0.0
    recording: float = 0.0
    updating: float = 0.0
    environment_steps: int = 0
    updates: int = 0

    @property
    def collecting(self) -> float:
        return self.acting + self.stepping + self.recording


def learn(
    environment: Environment,
    behaviors: Sequence[BehaviorRun],
    stop_requested: Callable[[], bool],
    save_checkpoint: Callable[[], None],
    spent: Spent,
) -> None:
    """Steps and updates until a behavior's summary is due or a stop is asked for; checkpoints that fall between two
    summaries are saved on the way. ``spent`` is added to also when an error ends the stretch.
    """
    step, clock = environment.step, perf_counter
    actions: dict[str, Actions] = {}
    while True:
        started = clock()
        for behavior in behaviors:
            try:
                actions[behavior.name] = (
                    behavior.trainer.act(behavior.batch) if behavior.learning else behavior.exploit()
                )
            except Exception as error:
                raise trainer_failed(behavior, "act", error) from error
        acted = clock()
        try:
            batches = step(actions)
        except Exception as error:
            raise environment_failed(environment, "step", error) from error
        stepped = clock()
        boundary = False
        for behavior in behaviors:
            batch = behavior.batch = batches[behavior.name]
            behavior.check_finite(batch)
            if behavior.learning:
                behavior.episodes.record(batch)
                try:
                    behavior.trainer.observe(actions[behavior.name], batch)
                except Exception as error:
                    raise trainer_failed(behavior, "observe", error) from error
                boundary |= behavior.trainer.steps >= behavior.next_boundary
        recorded = clock()
        for behavior in behaviors:
            if behavior.learning and behavior.trainer.ready():
                with trainer_does(behavior, "update"):
                    behavior.window.add(behavior.trainer.update())
                behavior.updates += 1
                spent.updates += 1
        spent.acting += acted - started
        spent.stepping += stepped - acted
        spent.recording += recorded - stepped
        spent.updating += clock() - recorded
        spent.environment_steps += 1
        if boundary:
            if any(behavior.summary_due for behavior in behaviors):
                return
            save_checkpoint()
        if stop_requested():
            return


def infer(
    environment: Environment, behaviors: Sequence[BehaviorRun], stop_requested: Callable[[], bool], spent: Spent
) -> None:
    """Acts with the saved policies, learning nothing, for the shortest ``summary_freq`` in agent steps."""
    agents = sum(behavior.spec.slots for behavior in behaviors)
    agent_steps = 0
    while agent_steps < min(behavior.settings.summary_freq for behavior in behaviors) and not stop_requested():
        started = perf_counter()
        actions = {}
        for behavior in behaviors:
            with trainer_does(behavior, "act"):
                actions[behavior.name] = behavior.exploit()
        acted = perf_counter()
        with environment_does(environment, "step"):
            batches = environment.step(actions)
        stepped = perf_counter()
        for behavior in behaviors:
            batch = behavior.batch = batches[behavior.name]
            behavior.check_finite(batch)
            behavior.episodes.record(batch)
            behavior.inferred += behavior.spec.slots
        spent.acting += acted - started
        spent.stepping += stepped - acted
        spent.recording += perf_counter() - stepped
        spent.environment_steps += 1
        agent_steps += agents
