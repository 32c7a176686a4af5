# mypy: allow-untyped-calls
"""The values and returns that SAC learns, on environments whose values and best returns are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, BehaviorSpec, ObservationSpec
from rlcore_devkit.conformance.trainer import check_actions, learn, mean_reward, play
from rlcore_devkit.environments import (
    ArrayEnvironment,
    ConstantReward,
    IdentityEnvironment,
    ImageIdentity,
    TinyCorridor,
    identity_continuous,
    identity_discrete,
    identity_hybrid,
    identity_multi_binary,
    identity_multi_branch,
)
from rlcore_sac.trainer import SACTrainer

MakeTrainer = Callable[..., SACTrainer]

# A temperature so small that the soft value is the value.
VALUES = {"init_entcoef": 1e-6, "learn_entcoef": False, "tau": 0.1, "learning_rate": 5e-3, "adam_epsilon": 1e-5}


class EndingConstant(ConstantReward):
    """Tells time limits as if they were ends."""

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        batches = super().step(actions)
        for batch in batches.values():
            batch.terminated, batch.truncated = batch.truncated, batch.terminated
        return batches


def discounted(gamma: float) -> Mapping[str, Any]:
    return {"reward_signals": {"extrinsic": {"gamma": gamma}}}


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ConstantReward, 10.0),  # 1 / (1 - 0.9), through a time limit every four steps
        (EndingConstant, 1 / (1 - 0.9 * 3 / 4)),  # the same, had these been ends: three of four steps go on
    ],
)
def test_time_limits_are_bootstrapped_through_and_ends_are_not(
    make_trainer: MakeTrainer, kind: type[ConstantReward], value: float, n_steps: int
) -> None:
    environment = kind(4, max_steps=4)
    trainer = make_trainer(environment, block=discounted(0.9), n_steps=n_steps, **VALUES)
    updates = learn(trainer, environment, 200)
    believed = np.mean([stats["Policy/Extrinsic Value"] for stats in updates[-50:]])
    if kind is EndingConstant and n_steps == 3:
        # Stretches of three steps end at an end wherever it comes: 1 + 0.9 + 0.81 + 0.729 v with chance 1/4, and so on.
        value = (1 + (1 + 0.9) + 2 * (1 + 0.9 + 0.81)) / 4 / (1 - 0.9**3 / 4)
    assert believed == pytest.approx(value, rel=0.05)


class Roundabout(ArrayEnvironment):
    """Two places in turn, each with two options of its own: the first pays, and a time limit comes after two steps."""

    PAY = np.array([[1.0, 0.2, -5.0, -5.0], [-5.0, -5.0, 0.5, 0.0]])  # -5: forbidden

    def __init__(self, num_envs: int) -> None:
        self.place = np.zeros(num_envs, np.int64)
        seen = ObservationSpec("place", (2,), np.float32, "one_hot")
        super().__init__(BehaviorSpec("Agent", (seen,), discrete=(4,), env_index=np.arange(num_envs)), max_steps=2)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self.place[env] = generator.integers(2)

    def advance(self, actions: Actions) -> tuple[NDArray[Any], NDArray[Any]]:
        assert actions.discrete is not None
        reward = self.PAY[self.place, actions.discrete[:, 0]]
        self.place = 1 - self.place
        return reward, np.zeros(self.num_envs, np.bool_)

    def observe(self) -> dict[str, NDArray[Any]]:
        return {"place": np.eye(2, dtype=np.float32)[self.place]}

    def action_mask(self) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.PAY[self.place] > -5.0
        return mask


def test_what_a_time_limit_cuts_off_is_valued_by_what_is_allowed_there(make_trainer: MakeTrainer) -> None:
    """Half of the steps lead to a time limit, whose state has an action mask of its own."""
    environment = Roundabout(4)
    trainer = make_trainer(environment, block=discounted(0.9), **VALUES)
    learn(trainer, environment, 200)
    best = np.array([(1 + 0.9 * 0.5) / 0.19, (0.5 + 0.9) / 0.19])  # v0 = 1 + 0.9 v1 and v1 = 0.5 + 0.9 v0
    expected = Roundabout.PAY + 0.9 * best[::-1, None]
    allowed = Roundabout.PAY > -5.0
    with torch.no_grad():
        for found in trainer.model.q_values(trainer.model.critics, (torch.eye(2),), None):
            np.testing.assert_allclose(found[:, 0].numpy()[allowed], expected[allowed], rtol=0.05)


def test_the_corridor_has_the_values_of_dynamic_programming(make_trainer: MakeTrainer) -> None:
    environment = TinyCorridor(4)
    trainer = make_trainer(environment, block=discounted(0.9), buffer_init_steps=800, batch_size=64, **VALUES)
    learn(trainer, environment, 500)
    value = np.zeros(6)  # of standing in each cell; the last ends the episode
    for _ in range(6):
        left, right = -0.01 + 0.9 * value[[0, 0, 1, 2, 3]], -0.01 + 0.9 * value[1:]
        right[4] = 1.0
        value[:5] = np.maximum(left, right)
    expected = np.stack([left, right], axis=1)  # [cells, actions]
    with torch.no_grad():
        for found in trainer.model.q_values(trainer.model.critics, (torch.eye(6)[:5],), None):
            np.testing.assert_allclose(found[:, 0], expected, atol=0.04)  # [cells, actions]


# ---------------------------------------------------------------- every kind of action

ENVIRONMENTS: dict[str, Callable[[], IdentityEnvironment]] = {
    "discrete": lambda: identity_discrete(4),
    "multi-branch": lambda: identity_multi_branch(4),
    "multi-binary": lambda: identity_multi_binary(4),
    "continuous": lambda: identity_continuous(4),
    "hybrid": lambda: identity_hybrid(4),
}
SOON = {"buffer_init_steps": 200, "init_entcoef": 0.1, "tau": 0.05, "batch_size": 64}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "discrete" else pytest.mark.learning) for kind in ENVIRONMENTS]
)
def test_every_kind_of_action_is_learned(make_trainer: MakeTrainer, kind: str) -> None:
    environment = ENVIRONMENTS[kind]()
    trainer = make_trainer(environment, block=discounted(0.5), **SOON)
    assert mean_reward(trainer, environment) < 0.8
    learn(trainer, environment, 200)
    assert mean_reward(trainer, environment) > 0.9


def test_images_of_bytes_are_learned_from(make_trainer: MakeTrainer) -> None:
    environment = ImageIdentity(4, height=6, width=6)
    network = {"vis_encode_type": "fully_connected"}
    trainer = make_trainer(environment, block=discounted(0.5), network=network, **SOON)
    assert trainer.buffer.observations["camera"].dtype == np.uint8
    learn(trainer, environment, 200)
    assert mean_reward(trainer, environment) > 0.9


class Forbidding(IdentityEnvironment):
    """Forbids one option, another one in each step; where that is the target, nothing pays."""

    def action_mask(self) -> NDArray[np.bool_]:
        mask = np.ones((self.num_envs, 4), np.bool_)
        mask[np.arange(self.num_envs), (self._steps + np.arange(self.num_envs)) % 4] = False
        return mask


def test_a_masked_option_is_never_taken_at_the_beginning_nor_later(make_trainer: MakeTrainer) -> None:
    environment = Forbidding(4, discrete=(4,))
    trainer = make_trainer(environment, block=discounted(0.5), **SOON)
    [behavior] = environment.behaviors.values()
    for mask, actions, _ in play(trainer, environment, 300):
        assert mask is not None
        check_actions(behavior, mask, actions)
    assert mean_reward(trainer, environment) > 0.65, "three of four targets can be named"


def test_whole_runs_evaluate_what_was_learned(make_run: Callable[..., Any]) -> None:
    with make_run("identity_hybrid", num_envs=4, hyperparameters=SOON, max_steps=800, **discounted(0.5)) as run:
        run.train()
        evaluation = run.evaluate(episodes=20).behaviors["Agent"]
    assert evaluation.mean_reward >= 0.9 * 8
