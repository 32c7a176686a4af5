"""The loop of a run in a few functions, for tests of trainers: act, step, observe, update; and checks of actions.

All environments here have one behavior.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, BehaviorSpec, Environment, Policy, Trainer
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.playing import Batches, first_batches

Array = NDArray[Any]
Mask = NDArray[np.bool_] | None
Updates = list[Mapping[str, float]]
"""The mean of each statistic by tag, for each update."""


class Step(NamedTuple):
    """A step of a run.

    Attributes:
        mask: The action mask before it.
        actions: What the agents did.
        means: The mean of each statistic of an update; None without an update.
        after: The batch after it.
    """

    mask: Mask
    actions: Actions
    means: Mapping[str, float] | None
    after: AgentBatch


def first_batch(environment: Environment, seed: int = 1) -> AgentBatch:
    batches: Batches = first_batches(environment, seed)
    [batch] = batches.values()
    return batch


def act(policy: Policy, batch: AgentBatch, deterministic: bool = True) -> Actions:
    """Return a copy of the actions of a policy, whose generator is seeded."""
    policy.seed(3)
    actions: Actions = copied(policy.act(batch.observations, batch.action_mask, deterministic))
    return actions


def act_twice(policy: Policy, batch: AgentBatch, deterministic: bool) -> Actions:
    """Return the actions of a policy; asked again with the same seed, it gives equal ones."""
    actions = act(policy, batch, deterministic)
    repeated = act(policy, batch, deterministic)
    assert_equal(actions, repeated)
    return actions


def begun(trainer: Trainer, environment: Environment, seed: int = 1) -> AgentBatch:
    """Reset the environment and begin with its first batch, which is returned."""
    batch = first_batch(environment, seed)
    trainer.begin(batch)
    return batch


def play(trainer: Trainer, environment: Environment, steps: int, seed: int = 1) -> Iterator[Step]:
    """Run the loop of a run from a reset on."""
    batch = begun(trainer, environment, seed)
    yield from play_on(trainer, environment, batch, steps)


def play_on(trainer: Trainer, environment: Environment, batch: AgentBatch, steps: int) -> Iterator[Step]:
    """Continue the loop of a run from ``batch``."""
    [name] = environment.behaviors
    for _ in range(steps):
        # A copy: the environment may write the next step into the memory of this one.
        mask: Mask = copied(batch.action_mask)
        actions = trainer.act(batch)
        batch = environment.step({name: actions})[name]
        trainer.observe(actions, batch)
        means = None
        if trainer.ready():
            stats = trainer.update()
            # A value may be a sequence with a number for each episode.
            means = {tag: float(np.mean(value)) for tag, value in stats.items()}
        yield Step(mask, actions, means, batch)


def learn(trainer: Trainer, environment: Environment, steps: int, seed: int = 1) -> list[Mapping[str, float]]:
    """Train for ``steps`` environment steps; return the statistics of each update by tag."""
    batch = begun(trainer, environment, seed)
    _, updates = learn_on(trainer, environment, batch, steps)
    return updates


def learn_on(trainer: Trainer, environment: Environment, batch: AgentBatch, steps: int) -> tuple[AgentBatch, Updates]:
    """Train for some steps from ``batch``; return the last batch, and the statistics of each update by tag."""
    updates = []
    for step in play_on(trainer, environment, batch, steps):
        batch = step.after
        if step.means is not None:
            updates.append(step.means)
    return batch, updates


def spoil_arrays(batch: AgentBatch) -> None:
    """Overwrite a batch, as its environment may do."""
    # No observation of the small environments is 77, so what is read of it shows in the weights.
    for observations in (batch.observations, batch.final_observations or {}):
        for array in observations.values():
            array[...] = 77
    for array in (batch.reward, batch.terminated, batch.truncated):
        array[...] = 1
    for mask in (batch.action_mask, batch.final_action_mask):
        if mask is not None:
            mask[...] = False


def check_actions(behavior: BehaviorSpec, mask: Mask, actions: Actions) -> None:
    """Check shapes, types and limits of the actions."""
    rows = behavior.slots
    branches: NDArray[np.int64] = np.array(behavior.discrete, np.int64)
    if behavior.continuous:
        assert actions.continuous is not None
        assert actions.continuous.dtype == np.float32
        _check_part(actions.continuous, rows, behavior.low, behavior.high)
    if behavior.discrete:
        assert actions.discrete is not None
        assert actions.discrete.dtype == np.int64
        last = branches - 1
        first = np.zeros_like(last)
        _check_part(actions.discrete, rows, first, last)
    if mask is not None and actions.discrete is not None:
        first_columns = np.cumsum(branches) - branches
        columns = first_columns + actions.discrete
        chosen = np.take_along_axis(mask, columns, axis=1)
        assert chosen.all(), "chose a masked option"


def _check_part(part: Array, rows: int, low: Array, high: Array) -> None:
    assert part.shape == (rows, len(low))
    assert (part >= low).all()
    assert (part <= high).all()


def mean_reward(trainer: Trainer, environment: Environment) -> float:
    """Return the mean reward of 50 steps with the policy."""
    [name] = environment.behaviors
    batch = first_batch(environment, seed=99)
    rewards = []
    for _ in range(50):
        actions = trainer.policy.act(batch.observations, batch.action_mask)
        batch = environment.step({name: actions})[name]
        rewards.append(batch.reward.mean())
    return float(np.mean(rewards))
