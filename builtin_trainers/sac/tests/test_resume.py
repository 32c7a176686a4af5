# mypy: allow-untyped-calls
"""A trainer goes on bit for bit from its state, and every part of the state is needed for that."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from rlcore import AgentBatch, Environment, load_plugins
from rlcore_devkit.conformance.learning_rewards import LearningRewards
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.conformance.trainer import as_state, first_batch
from rlcore_devkit.environments import identity_hybrid
from rlcore_sac.trainer import SACTrainer

MakeTrainer = Callable[..., SACTrainer]

EVERYTHING: Mapping[str, Any] = {
    "save_replay_buffer": True,
    "n_steps": 3,
    "replay_sampler": {"type": "prioritized", "alpha": 0.6},
    "steps_per_update": 2.5,
    "reward_signal_steps_per_update": 7.0,
    "learning_rate_schedule": "linear",
    "buffer_size": 150,  # goes round before the state is taken
    "batch_size": 16,
    "tau": 0.1,
}
BEFORE, AFTER = 109, 25  # steps of three agents; 109 leaves remainders in both ratios, and noise for the next 19


def made(make_trainer: MakeTrainer) -> SACTrainer:
    plugins = load_plugins()
    plugins.register(LearningRewards(), "learning-reward")
    block = {"reward_signals": {"extrinsic": {}, "learning": {"gamma": 0.5}}, "max_steps": 1000}
    return make_trainer(
        identity_hybrid(3), plugins=plugins, block=block, network={"normalize": True, "hidden_units": 8}, **EVERYTHING
    )


def go_on(
    trainer: SACTrainer, world: Environment, batch: AgentBatch, steps: int
) -> tuple[list[Any], list[int], AgentBatch]:
    """The actions and statistics of the trainer in their order, its gradient steps in each step, and the last batch."""
    [name] = world.behaviors
    told: list[Any] = []
    taken = []
    for _ in range(steps):
        actions, before = trainer.act(batch), trainer.gradient_steps
        told.append(as_state(actions))
        batch = world.step({name: actions})[name]
        trainer.observe(actions, batch)
        if trainer.ready():
            told.append(dict(trainer.update()))
        taken.append(trainer.gradient_steps - before)
    return told, taken, batch


def test_a_resumed_trainer_goes_on_bit_for_bit_in_the_middle_of_episodes(make_trainer: MakeTrainer) -> None:
    trainer, resumed, world = made(make_trainer), made(make_trainer), identity_hybrid(3)
    first = first_batch(world)
    trainer.begin(first)
    _, _, batch = go_on(trainer, world, first, BEFORE)
    assert trainer.buffer.filled == trainer.buffer.capacity
    assert trainer.steps % 5 and trainer.steps % 7
    state, same_world, same_batch = copied(trainer.state_dict()), copy.deepcopy(world), copy.deepcopy(batch)
    told, _, _ = go_on(trainer, world, batch, AFTER)
    resumed.load_state_dict(copied(state))
    assert_equal(state, resumed.state_dict())
    again, _, _ = go_on(resumed, same_world, same_batch, AFTER)
    assert_equal(told, again)
    assert_equal(trainer.state_dict(), resumed.state_dict())
