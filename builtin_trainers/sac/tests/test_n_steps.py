# mypy: allow-untyped-calls, disable-error-code="union-attr,index"
"""Returns of n steps: the soft values of dynamic programming are their fixed point, whatever n is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import Actions, BehaviorSpec, ObservationSpec, load_plugins
from rlcore_devkit.conformance.learning_rewards import LearningRewards
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.environments import ArrayEnvironment
from rlcore_sac.trainer import SACTrainer

MakeTrainer = Callable[..., SACTrainer]

STATES = 5
SLOTS = 6
REWARD = np.array([1.0, -2.0, 0.5, 3.0, 0.25], np.float32)  # for leaving a state
GAMMAS = (0.9, 0.5)
STRENGTHS = (1.0, 0.1)
TEMPERATURE = 0.3


class Walk(ArrayEnvironment):
    """Moves from state 0 to state 4, whatever agents do, and begins in any state; leaving state 4 ends the episode.

    A time limit cuts episodes of more than four steps.
    """

    def __init__(self, discrete: tuple[int, ...]) -> None:
        self.state = np.zeros(SLOTS, np.int64)
        seen = ObservationSpec("state", (STATES,), np.float32)
        super().__init__(BehaviorSpec("Walk", (seen,), discrete=discrete, env_index=np.arange(SLOTS)), max_steps=4)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self.state[env] = generator.integers(STATES)

    def advance(self, actions: Actions) -> tuple[NDArray[Any], NDArray[Any]]:
        left = self.state.copy()
        self.state = np.minimum(left + 1, STATES - 1)
        return REWARD[left], left == STATES - 1

    def observe(self) -> dict[str, NDArray[Any]]:
        return {"state": np.eye(STATES, dtype=np.float32)[self.state]}


def entropies(trainer: SACTrainer) -> NDArray[np.float64]:
    """The policy's entropy in each state, from its parameters: sums over options."""
    with torch.no_grad():
        _, logits = trainer.model.policy((torch.eye(STATES),))
    total = np.zeros(STATES)
    if logits is not None:
        for branch in logits.double().split(trainer.behavior.discrete, dim=1):
            chance = np.exp(branch.numpy()) / np.exp(branch.numpy()).sum(1, keepdims=True)
            total -= (chance * np.log(chance)).sum(1)
    return total


def soft_values(bonus: NDArray[np.float64], gamma: float, strength: float) -> NDArray[np.float64]:
    """Q of each state, the same for all actions, from the last state backwards."""
    q = np.zeros(STATES)
    after = 0.0
    for state in range(STATES - 1, -1, -1):
        q[state] = strength * float(REWARD[state]) + gamma * after
        after = q[state] + bonus[state]
    return q


def made(make_trainer: MakeTrainer, walk: Walk, n_steps: int, rewards: int = 2) -> SACTrainer:
    """A trainer whose critics and targets have the soft values of dynamic programming, and a buffer of random walks."""
    plugins = load_plugins()
    plugins.register(LearningRewards(), "learning-reward")
    signals: dict[str, Any] = {"extrinsic": {"gamma": GAMMAS[0]}}
    if rewards == 2:
        signals["learning"] = {"gamma": GAMMAS[1], "strength": STRENGTHS[1]}
    trainer = make_trainer(
        walk, plugins=plugins, block={"reward_signals": signals}, network={"num_layers": 0}, n_steps=n_steps,
        init_entcoef=TEMPERATURE, learn_entcoef=False, buffer_init_steps=10**6, batch_size=4096,
    )  # fmt: skip
    model = trainer.model
    with torch.no_grad():
        model.policy_head.linear.weight.normal_(0, 0.7, generator=torch.Generator().manual_seed(1))
        bonus = TEMPERATURE * entropies(trainer) / rewards
        tables = [soft_values(bonus, g, s) for g, s in zip(GAMMAS, STRENGTHS, strict=True)][:rewards]
        table = np.repeat(np.stack(tables), model.options.columns, axis=0)  # [R * columns, STATES]
        for critic in (*model.critics, *model.targets):
            critic.head.weight.zero_()
            critic.head.weight[:, :STATES] = torch.from_numpy(table)
            critic.head.bias.zero_()
    learn(trainer, walk, 120)
    assert len(trainer.buffer) == 120 * SLOTS
    return trainer


@pytest.mark.parametrize("rewards", [1, 2])
@pytest.mark.parametrize("n_steps", [1, 2, 3, 6])
@pytest.mark.parametrize("discrete", [(3,), (2, 3)])
def test_the_soft_values_of_dynamic_programming_have_no_error(
    make_trainer: MakeTrainer, discrete: tuple[int, ...], n_steps: int, rewards: int
) -> None:
    trainer = made(make_trainer, Walk(discrete), n_steps, rewards)
    step = trainer.gradient_step(trainer.reader.read(np.flatnonzero(trainer.buffer.flags)))
    assert step.stats["Losses/Q1 Loss"].item() < 1e-10
    assert step.stats["Losses/Q2 Loss"].item() < 1e-10
