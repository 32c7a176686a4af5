"""Exploration by epsilon: a coin for each agent, and a schedule of agent steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlcore_devkit.conformance.loop import first_batch, learn
from rlcore_devkit.conformance.states import copied
from rlcore_devkit.environments import IdentityEnvironment, TinyCorridor
from rlcore_dqn.trainer import DQNTrainer

MakeTrainer = Callable[..., DQNTrainer]


def test_each_agent_throws_a_coin_of_its_own(make_trainer: MakeTrainer) -> None:
    environment = IdentityEnvironment(64, discrete=(8,))
    trainer = make_trainer(environment, initial_epsilon=0.25, final_epsilon=0.25)
    batch = first_batch(environment)
    trainer.begin(batch)
    best = trainer.policy.act(batch.observations).discrete
    counts = np.array([np.count_nonzero(trainer.explore(batch)[1] != best) for _ in range(200)])
    chance = 0.25 * 7 / 8  # one option in eight is the best one
    assert counts.mean() == pytest.approx(64 * chance, rel=0.05)
    assert counts.var() == pytest.approx(64 * chance * (1 - chance), rel=0.3)  # one coin for all: 64 times as much


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_forbidden_options_are_not_explored(make_trainer: MakeTrainer, epsilon: float) -> None:
    environment = TinyCorridor(32, masked=True)
    trainer = make_trainer(environment, initial_epsilon=epsilon, final_epsilon=epsilon)
    batch = first_batch(environment)
    trainer.begin(batch)
    for _ in range(20):
        choices = trainer.explore(batch)[1]
        assert choices is not None and batch.action_mask is not None
        assert batch.action_mask[np.arange(32), choices[:, 0]].all()


SCHEDULE: dict[str, Any] = {
    "initial_epsilon": 0.8, "final_epsilon": 0.2, "epsilon_steps": 300, "buffer_init_steps": 40, "steps_per_update": 4,
}  # fmt: skip


def test_epsilon_falls_with_agent_steps_whatever_max_steps_is_and_a_resumed_run_continues_it(
    make_trainer: MakeTrainer,
) -> None:
    environment = IdentityEnvironment(4, discrete=(2,))
    trainer = make_trainer(environment, block={"max_steps": 1000}, **SCHEDULE)
    updates = learn(trainer, environment, 100)
    # An update comes every 4 steps after the 40 first ones; 0.6 is the way, 300 the steps that it takes.
    expected = [0.8 - 0.6 * min(300, steps) / 300 for steps in range(40, 400, 4)]
    np.testing.assert_allclose([stats["Policy/Epsilon"] for stats in updates], expected, atol=1e-9)
    assert trainer.epsilon == pytest.approx(0.2)

    halfway = make_trainer(environment, block={"max_steps": 1000}, **SCHEDULE)
    learn(halfway, environment, 50)
    longer = make_trainer(environment, block={"max_steps": 50_000}, **SCHEDULE)
    longer.load_state_dict(copied(halfway.state_dict()))
    assert longer.epsilon == halfway.epsilon == pytest.approx(0.8 - 0.6 * 200 / 300)
