# mypy: allow-untyped-calls
"""A trainer goes on bit for bit from its state, and every part of the state is needed for that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from rlcore import Actions, AgentBatch, Run, load_plugins
from rlcore_devkit.conformance.learning_rewards import LearningRewards
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_devkit.conformance.trainer import as_state
from rlcore_devkit.environments import IdentityEnvironment, identity_hybrid
from rlcore_sac.trainer import SACTrainer

MakeTrainer = Callable[..., SACTrainer]
MakeRun = Callable[..., Run]

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
Stopped = tuple[dict[str, Any], AgentBatch, list[Any], dict[str, Any]]

BEFORE, AFTER = 109, 25  # steps of three agents; 109 leaves remainders in both ratios, and noise for the next 19


def made(make_trainer: MakeTrainer) -> SACTrainer:
    plugins = load_plugins()
    plugins.register(LearningRewards(), "learning-reward")
    block = {"reward_signals": {"extrinsic": {}, "learning": {"gamma": 0.5}}, "max_steps": 1000}
    return make_trainer(
        identity_hybrid(3), plugins=plugins, block=block, network={"normalize": True, "hidden_units": 8}, **EVERYTHING
    )


class Replayed:
    """An environment that continues where another one stopped, equal for every resumed trainer."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.slots = 3

    def batch(self) -> AgentBatch:
        random, over = self.random, self.random.random((2, 3)) < 0.1
        ended = np.flatnonzero(over.any(0))
        return AgentBatch(
            self.seen(3),
            random.standard_normal(3).astype(np.float32),
            over[0],
            over[1] & ~over[0],
            final_observations=self.seen(len(ended)),
            action_mask=np.ones((3, 3), np.bool_),
        )

    def seen(self, rows: int) -> dict[str, np.ndarray[Any, Any]]:
        reals = self.random.uniform(-1, 1, (rows, 2)).astype(np.float32)
        return {"reals": reals, "choices": np.eye(3, dtype=np.float32)[self.random.integers(3, size=rows)]}


def go_on(trainer: SACTrainer, world: Replayed, batch: AgentBatch, steps: int) -> tuple[list[Any], AgentBatch]:
    """Record the actions and statistics of the trainer, in this order, and the last batch."""
    told: list[Any] = []
    for _ in range(steps):
        actions: Actions = trainer.act(batch)
        told.append(as_state(actions))
        batch = world.batch()
        trainer.observe(actions, batch)
        if trainer.ready():
            told.append(dict(trainer.update()))
    return told, batch


@pytest.fixture(scope="module")
def stopped(make_trainer: MakeTrainer) -> Stopped:
    """The state half way, the batch the trainer was shown last, what it did and told from there on, its last state."""
    trainer, world = made(make_trainer), Replayed(0)
    first = world.batch()
    first.terminated[:] = first.truncated[:] = False
    first.ended, first.final_observations = np.flatnonzero(first.terminated), None
    trainer.begin(first)
    _, batch = go_on(trainer, world, first, BEFORE)
    assert trainer.buffer.filled == trainer.buffer.capacity
    assert trainer.steps % 5 and trainer.steps % 7
    state = copied(trainer.state_dict())
    told, _ = go_on(trainer, Replayed(1), batch, AFTER)
    return state, batch, told, copied(trainer.state_dict())


def test_a_resumed_trainer_goes_on_bit_for_bit(make_trainer: MakeTrainer, stopped: Stopped) -> None:
    state, batch, told, after = stopped
    resumed = made(make_trainer)
    resumed.load_state_dict(copied(state))
    assert_equal(state, resumed.state_dict())
    again, _ = go_on(resumed, Replayed(1), batch, AFTER)
    assert_equal(told, again)
    assert_equal(after, resumed.state_dict())


# ---------------------------------------------------------------- without the buffer


def test_without_the_buffer_learning_goes_on_later_and_without_a_backlog(
    make_trainer: MakeTrainer, caplog: pytest.LogCaptureFixture
) -> None:
    environment = IdentityEnvironment(4, continuous=1)
    trainer, world = make_trainer(environment, batch_size=40, buffer_init_steps=100), environment
    batch = next(iter(world.reset(lambda c, e: c, np.zeros(4, np.int64)).values()))  # type: ignore[arg-type]

    def play(trainer: SACTrainer, batch: AgentBatch, steps: int) -> tuple[list[int], AgentBatch]:
        taken = []
        for _ in range(steps):
            actions = trainer.act(batch)
            batch = world.step({"Identity": actions})["Identity"]
            trainer.observe(actions, batch)
            before = trainer.gradient_steps
            if trainer.ready():
                trainer.update()
            taken.append(trainer.gradient_steps - before)
        return taken, batch

    trainer.begin(batch)
    taken, batch = play(trainer, batch, 50)
    assert taken == [0] * 25 + [4] * 25
    resumed = make_trainer(environment, batch_size=40, buffer_init_steps=100)
    resumed.load_state_dict(copied(trainer.state_dict()))
    assert "the checkpoint has no replay buffer" in caplog.text
    taken, _ = play(resumed, batch, 30)
    assert taken == [0] * 10 + [4] * 20 and resumed.steps == 320
