"""Scripted data for tests of trainers: what agents see and get does not depend on what they do.

Two trainers that play one script receive equal data. :meth:`Script.with_swapped` and the other methods return a script
in which one thing differs, so that a test can say whether a trainer learns from it.

Shapes: T steps, S slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, BehaviorSpec, Ranks, Trainer
from rlcore_devkit.conformance.states import copied
from rlcore_devkit.playing import random_observations

EPISODE = 6  # steps of an episode that is neither cut nor lost
# A reset cuts all episodes after the steps 3, 11, 19, ...
CUT_EVERY = 8
CUT_AT = 3
# No common factor with EPISODE, so that environments are lost at every length of an episode.
LOST_EVERY = 17
LOST_AT = 9

Columns = dict[str, NDArray[Any]]
Reals = NDArray[np.float32]
Flags = NDArray[np.bool_]


@attrs.frozen(eq=False)
class Script:
    """A script of T steps for the agents of one behavior.

    Attributes:
        observations: [T + 1, S, *shape] by name, what the agents see before each step and after the last one.
        finals: [T, S, *shape] by name, the last observation of an episode that ends in the step.
        restarts: [T, S, *shape] by name, what the agents see where a reset begins new episodes after the step.
        reward: [T, S].
        group_reward: [T, S], equal within a group.
        terminated: [T, S].
        truncated: [T, S].
        aborted: [T, S].
        needs_action: [T, S]; None: every agent acts in every step.
        cuts: [T] whether a reset follows the step.
    """

    observations: Columns
    finals: Columns
    restarts: Columns
    reward: Reals
    group_reward: Reals
    terminated: Flags
    truncated: Flags
    aborted: Flags
    needs_action: Flags | None
    cuts: Flags

    @classmethod
    def drawn(cls, behavior: BehaviorSpec, steps: int, waiting: bool = False) -> Script:
        """Draw a script; with ``waiting``, agents wait for others in a third of the steps."""
        generator = np.random.default_rng(1)
        slots = behavior.slots

        def columns(count: int) -> Columns:
            rows = random_observations(behavior, count * slots, generator)
            by_step = {}
            for name, array in rows.items():
                by_step[name] = array.reshape(count, slots, *array.shape[1:])
            return by_step

        shape = (steps, slots)
        step = np.arange(steps)
        cuts = step % CUT_EVERY == CUT_AT
        cut = cuts[:, None]
        # All agents of an environment end together, so that no rule about agents that wait for others matters.
        phase = step[:, None] + behavior.env_index
        last_step = phase % EPISODE == EPISODE - 1
        ended = last_step & ~cut
        lost = (phase % LOST_EVERY == LOST_AT) & ~ended & ~cut
        # Every second episode is cut off by a time limit.
        even = phase // EPISODE % 2 == 0
        truncated = ended & even
        group = behavior.group
        if group is None:
            group = np.arange(slots)
        shared = generator.normal(size=shape).astype(np.float32)
        needs_action = None
        if waiting:
            needs_action = generator.random(shape) < 2 / 3
            needs_action |= ended | lost | cut  # an end closes the agent's transition
        reward = generator.normal(size=shape).astype(np.float32)
        if needs_action is not None:
            reward[~needs_action] = 0.0
        return cls(
            observations=columns(steps + 1),
            finals=columns(steps),
            restarts=columns(steps),
            reward=reward,
            group_reward=shared[:, group % slots],
            terminated=ended & ~truncated,
            truncated=truncated,
            aborted=lost,
            needs_action=needs_action,
            cuts=cuts,
        )

    @property
    def steps(self) -> int:
        """T."""
        return len(self.reward)

    # ------------------------------------------------------------ what happens

    def first(self) -> AgentBatch:
        """Return the batch of the first reset."""
        observations = {name: array[0] for name, array in self.observations.items()}
        return self._reset(observations)

    def restarted(self, step: int) -> AgentBatch:
        """Return the batch of the reset after ``step``."""
        observations = {name: array[step] for name, array in self.restarts.items()}
        return self._reset(observations)

    def after(self, step: int) -> AgentBatch:
        """Return what the agents receive after ``step``."""
        following = step + 1
        observations = {name: array[following].copy() for name, array in self.observations.items()}
        reward = self.reward[step].copy()
        terminated = self.terminated[step].copy()
        truncated = self.truncated[step].copy()
        batch = AgentBatch(observations, reward, terminated, truncated)
        ended = batch.ended
        if ended.size:
            batch.final_observations = {name: array[step, ended] for name, array in self.finals.items()}
        if self.needs_action is None:
            batch.group_reward = self.group_reward[step].copy()
        else:
            batch.needs_action = self.needs_action[step].copy()
        if self.aborted[step].any():
            batch.aborted = self.aborted[step].copy()
        return batch

    def _reset(self, observations: Columns) -> AgentBatch:
        slots = self.reward.shape[1]
        reward = np.zeros(slots, np.float32)
        terminated = np.zeros(slots, np.bool_)
        truncated = np.zeros(slots, np.bool_)
        batch = AgentBatch(copied(observations), reward, terminated, truncated)
        if self.needs_action is not None:
            batch.needs_action = np.ones(slots, np.bool_)
        return batch

    # ------------------------------------------------------------ with one thing changed

    def with_swapped(self, column: str, where: Flags) -> Script:
        """Return the script with the observations of ``column`` at ``where`` [T, S] in another order.

        Together they stay the same, so that running means and variances of observations do too.
        """
        swapped = copied(getattr(self, column))
        for array in swapped.values():
            # Observations after the steps: the first row is what the agents see before all of them.
            after = array[1:] if column == "observations" else array
            chosen = after[where]
            after[where] = np.roll(chosen, 1, axis=0)
        changes: dict[str, Any] = {column: swapped}
        return attrs.evolve(self, **changes)

    def of_slots(self, slots: NDArray[np.integer[Any]]) -> Script:
        """Return the script of these ``slots`` alone."""
        columns = attrs.asdict(self, recurse=False)
        for name, value in columns.items():
            if isinstance(value, Mapping):
                columns[name] = {key: array[:, slots] for key, array in value.items()}
            elif value is not None and name != "cuts":
                columns[name] = value[:, slots]
        return Script(**columns)


class ScriptedSlots:
    """The environment that a trainer of scripted data is created with; it is never stepped.

    Attributes:
        behaviors: The only behavior by name. A subclass of ``TrainerConformance`` may change teams and environments.
        num_envs: Number of environments.
        ranks: The processes that share the slots.
        first_env: Number, in the run, of the first environment.
    """

    def __init__(self, behavior: BehaviorSpec, ranks: Ranks | None = None, first_env: int = 0) -> None:
        self.behaviors: Mapping[str, BehaviorSpec] = {behavior.name: behavior}
        self.num_envs = behavior.slots
        self.episodes = np.zeros(self.num_envs, np.int64)
        self.ranks = ranks or Ranks()
        self.first_env = first_env

    def set_parameters(self, parameters: Any) -> None:
        """Do nothing: a script has no parameters."""

    def reset(self, seeds: Any, episodes: Any) -> Any:
        """Raise NotImplementedError: a script is played by :func:`play_script`."""
        raise NotImplementedError

    def step(self, actions: Any) -> Any:
        """Raise NotImplementedError: a script is played by :func:`play_script`."""
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing: nothing is open."""


def play_script(
    trainer: Trainer, script: Script, updates: int, steps_learning: int, cut: Flags | None = None
) -> tuple[int, Flags]:
    """Let the trainer learn from the script: ``updates``, and ``steps_learning`` after the first one, at least.

    Returns the number of updates, and the steps [T] after which a reset cut all episodes; ``cut`` are those of an
    earlier call, which are repeated. No update falls into such a step: the last observation before a reset would count
    as the end of what was collected. A rollout that is complete there is not cut.
    """
    cuts = np.zeros(script.steps, np.bool_)
    may_cut = script.cuts
    if cut is not None:
        may_cut = may_cut & cut
    batch = script.first()
    trainer.begin(batch)
    learned = 0
    first_update = script.steps
    was_ready = False
    for step in range(script.steps):
        enough_steps = step >= first_update + steps_learning
        if learned >= updates and enough_steps:
            break
        actions: Actions = trainer.act(batch)
        batch = script.after(step)
        trainer.observe(actions, batch)
        ready = trainer.ready()
        complete = ready and not was_ready  # a trainer that is ready in most steps may learn one step later
        was_ready = ready
        if may_cut[step] and not complete:
            cuts[step] = True
            batch = script.restarted(step)
            trainer.begin(batch)
        elif ready:
            trainer.update()
            learned += 1
            first_update = min(first_update, step)
    return learned, cuts
