# mypy: allow-untyped-calls
"""The rewards of episodes by provider, as statistics, against sums that are kept agent by agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from rlcore import Actions, AgentBatch, load_plugins
from rlcore_devkit.conformance.learning_rewards import LearningRewards
from rlcore_devkit.conformance.loop import first_batch
from rlcore_devkit.environments import IdentityEnvironment
from rlcore_sac.trainer import SACTrainer

MakeTrainer = Callable[..., SACTrainer]
SLOTS = 5
TAGS = ("Policy/Extrinsic Reward", "Policy/Learning Reward")


class Ragged(IdentityEnvironment):
    """Random ends; agents that do not act in every step, that are lost, and that share rewards."""

    def __init__(self, kind: str) -> None:
        super().__init__(SLOTS, discrete=(3,), episode_length=4)
        self.kind = kind
        self.random = np.random.default_rng(1)

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        [(name, batch)] = super().step(actions).items()
        if self.kind == "turns":
            batch.needs_action = (self.random.random(SLOTS) < 0.6) | batch.terminated | batch.truncated
            batch.reward[~batch.needs_action] = 77.0
        if self.kind == "aborted":
            batch.aborted = (self.random.random(SLOTS) < 0.1) & ~(batch.terminated | batch.truncated)
        if self.kind == "groups":
            batch.group_reward = self.random.random(SLOTS).astype(np.float32)
        return {name: batch}


def trained(make_trainer: MakeTrainer, environment: Ragged, **hyperparameters: Any) -> SACTrainer:
    plugins = load_plugins()
    plugins.register(LearningRewards(), "learning-reward")
    block = {"reward_signals": {"extrinsic": {}, "learning": {"strength": 0.5}}}
    options = {"batch_size": 4, "buffer_size": 400, "reward_signal_steps_per_update": 10**6, **hyperparameters}
    return make_trainer(environment, plugins=plugins, block=block, **options)


def check(made: Callable[[], SACTrainer], environment: Ragged, steps: int) -> int:
    """Play, and compare what each update reports with the episodes that ended before; return how many it reported.

    In the middle of episodes, the trainer is resumed from its state.
    """
    [name], trainer = environment.behaviors, made()
    batch = first_batch(environment)
    trainer.begin(batch)
    ended: list[tuple[float, float]] = []  # sums of rewards, with and without the group's
    sums = np.zeros((SLOTS, 2))
    waiting = [True] * SLOTS
    reported = 0
    for step in range(steps):
        if step == steps // 2 + 2:  # within the episodes of all agents
            state = trainer.state_dict()
            trainer = made()
            trainer.load_state_dict(state)
        acting = [True] * SLOTS if batch.needs_action is None else batch.needs_action.tolist()
        waiting = [w or a for w, a in zip(waiting, acting, strict=True)]
        actions = trainer.act(batch)
        batch = environment.step({name: actions})[name]
        for slot in range(SLOTS):
            over = bool(batch.terminated[slot] or batch.truncated[slot])
            if batch.aborted is not None and batch.aborted[slot]:
                sums[slot] = 0.0
            elif waiting[slot] and (batch.needs_action is None or batch.needs_action[slot] or over):
                group = 0.0 if batch.group_reward is None else float(batch.group_reward[slot])
                sums[slot] += float(batch.reward[slot]) + group, 0.5 * float(batch.reward[slot])
                waiting[slot] = False
                if over:
                    ended.append((sums[slot, 0], sums[slot, 1]))
                    sums[slot] = 0.0
        trainer.observe(actions, batch)
        if trainer.ready():
            stats = trainer.update()
            for tag, expected in zip(TAGS, zip(*ended, strict=True), strict=False):
                np.testing.assert_allclose(np.sort(stats[tag]), np.sort(expected), rtol=1e-5, atol=1e-5)
            assert ended or not any(tag in stats for tag in TAGS)
            reported += len(ended)
            ended.clear()
    return reported


@pytest.mark.parametrize("kind", ["all act", "turns", "aborted", "groups"])
@pytest.mark.parametrize(("per_update", "size"), [(400, 400), (5, 20), (400, 20)])
def test_each_provider_reports_the_reward_of_every_episode(
    make_trainer: MakeTrainer, kind: str, per_update: int, size: int
) -> None:
    environment = Ragged(kind)
    options = {"steps_per_update": per_update, "buffer_size": size, "save_replay_buffer": True}
    assert check(lambda: trained(make_trainer, environment, **options), environment, 200) > 80
