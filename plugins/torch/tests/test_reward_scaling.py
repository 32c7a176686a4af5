# mypy: allow-untyped-calls
"""Clipped and normalized rewards: against numbers of VecNormalize, and returns that are kept agent by agent.

``test_on_policy.py`` has them in random rollouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from run_of_trainers import run_of
from scalar_spread import ScalarSpread, clipped

from rlcore import Actions, AgentBatch, BehaviorSettings, ExtrinsicReward, Ranks, SavedValueError, SlotShare
from rlcore_devkit.conformance.loop import first_batch
from rlcore_devkit.conformance.states import copied
from rlcore_devkit.environments import IdentityEnvironment
from rlcore_torch import (
    Actor,
    GradientStep,
    NetworkSettings,
    OffPolicySettings,
    OffPolicyTrainer,
    OnPolicySettings,
    Optimizer,
    TransitionBatch,
)
from rlcore_torch.reward_scaling import RewardScaling
from rlcore_torch.settings import PrioritizedSamplerSettings

# Rewards [6, 3] of three environments, where episodes end, and what VecNormalize of Stable-Baselines3 2.9.2 made of
# them with gamma 0.9 and clip_reward 1.25. The last numbers are its mean, variance and count.
REWARDS = ((1, 2, -4), (0.5, -3, 8), (2, 0, 0.25), (-1, 5, 30), (7, -2, 1), (0, 0.125, -6))
ENDS = ((0, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 0, 1), (0, 0, 0))
NORMALIZED = (
    (0.3810057, 0.7620114, -1.25),
    (0.1898899, -1.1393394, 1.25),
    (0.7844967, 0.0, 0.0980621),
    (-0.1218053, 0.6090263, 1.25),
    (0.7371278, -0.2106079, 0.105304),
    (0.0, 0.0137415, -0.6595901),
)
MOMENTS = (4.89880611774379, 82.7473712003528, 18.0001)

SLOTS = 4


def scaling(share: SlotShare, ranks: Ranks, **settings: Any) -> RewardScaling:
    given = OnPolicySettings(normalize_rewards=True, **settings)
    made = RewardScaling.of(given, ["extrinsic"], [ExtrinsicReward(0.9)], share, ranks)
    assert made is not None
    return made


@pytest.mark.parametrize("parts", [[6], [1] * 6, [4, 2]])
def test_rewards_are_those_of_vec_normalize(parts: list[int]) -> None:
    rule = scaling(SlotShare(3, np.arange(3), np.arange(3)), Ranks(), normalize_rewards_clip=1.25)
    rewards = np.array(REWARDS, np.float32)
    ends = np.array(ENDS, np.bool_)
    found = []
    start = 0
    for rows in parts:
        part = slice(start, start := start + rows)
        found.append(rule.scaled_rollout(rewards[part], ends[part], np.ones((rows, 3), np.bool_)))
    np.testing.assert_allclose(np.concatenate(found), NORMALIZED, rtol=0, atol=1e-7)
    np.testing.assert_allclose((rule.mean, rule.m2 / rule.count, rule.count), MOMENTS, rtol=1e-12)
    np.testing.assert_allclose(rule.returns, (6.3, 2.375, -6.0), rtol=1e-12)


@pytest.mark.parametrize("parts", [[6], [1] * 6, [4, 2]])
def test_with_a_bound_no_return_leaves_it_and_without_a_clip_no_reward_is_cut(parts: list[int]) -> None:
    """The rule is saved and loaded after each part."""
    bounded = {"normalize_rewards_clip": None, "normalize_rewards_bound": 2.0}
    share = SlotShare(3, np.arange(3), np.arange(3))
    rule = scaling(share, Ranks(), **bounded)
    spread = ScalarSpread(3, 0.9, bound=2.0)
    rewards = np.array(REWARDS, np.float32)
    ends = np.array(ENDS, np.bool_)
    start = 0
    for rows in parts:
        part = slice(start, start + rows)
        found = rule.scaled_rollout(rewards[part], ends[part], np.ones((rows, 3), np.bool_))
        for row, reward in zip(found, rewards[part], strict=True):
            deviation = spread.step(dict(enumerate(reward.tolist())))
            np.testing.assert_allclose(row, reward / deviation, rtol=1e-6)
            for slot in np.flatnonzero(ends[start]).tolist():
                spread.forget(slot)
            start += 1
        saved = copied({"reward_scaling": rule.state_dict()})
        rule = scaling(share, Ranks(), **bounded)
        rule.require_fit(saved)
        rule.load_state_dict(saved)
    assert max(map(abs, spread.returns)) / rule.deviation == pytest.approx(2.0)
    del saved["reward_scaling"]["largest"]  # a checkpoint of a version without it
    rule.require_fit(saved)
    rule.load_state_dict(saved)
    assert rule.largest == 0.0 and rule.count > 18


# ---------------------------------------------------------------- replayed


class Noisy(IdentityEnvironment):
    """Random rewards and ends; agents that do not act in every step, that are lost, and that share rewards."""

    def __init__(self, kind: str) -> None:
        super().__init__(SLOTS, discrete=(3,), episode_length=4)
        self.kind = kind
        self.random = np.random.default_rng(1)

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        [(name, batch)] = super().step(actions).items()
        batch.reward = self.random.normal(1.0, 3.0, SLOTS).astype(np.float32)
        if self.kind == "turns":
            batch.needs_action = (self.random.random(SLOTS) < 0.6) | batch.terminated | batch.truncated
            batch.reward[~batch.needs_action] = 0.0
        if self.kind == "aborted":
            batch.aborted = (self.random.random(SLOTS) < 0.2) & ~(batch.terminated | batch.truncated)
        if self.kind == "groups":
            batch.group_reward = self.random.random(SLOTS).astype(np.float32)
        return {name: batch}


class Reader(OffPolicyTrainer):
    """Keeps the rows and the rewards of its minibatches."""

    read: list[tuple[NDArray[np.int64], NDArray[np.float32]]]

    def build_model(self, value_heads: int) -> Actor:
        return Actor(self.behavior, self.settings.network_settings, None)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        return {"policy": self.make_optimizer(self.model.parameters())}

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        self.read.append((batch.starts, batch.reward.numpy()))
        return GradientStep({"Losses/Nothing": torch.tensor(0.0)}, torch.ones(len(batch.reward)))


def reader(environment: Noisy, inference: bool = False, **hyperparameters: Any) -> Reader:
    [behavior] = environment.behaviors.values()
    settings = BehaviorSettings(
        trainer_type="reader",
        hyperparameters=OffPolicySettings(
            **{"batch_size": 16, "buffer_size": 100, "steps_per_update": 7.0, "save_replay_buffer": True}
            | hyperparameters
        ),
        network_settings=NetworkSettings(hidden_units=2, num_layers=0),
        reward_signals={"seen": None, "extrinsic": None},
        max_steps=1000,
    )
    rewards = ExtrinsicReward(0.5, strength=3.0), ExtrinsicReward(0.9, strength=2.0)
    made = Reader(settings, behavior, run_of(*rewards, inference=inference))
    made.read = []
    return made


class Play:
    """Plays ``environment`` to a trainer, and keeps the spread of returns agent by agent."""

    def __init__(self, environment: Noisy, limit: float | None) -> None:
        self.environment, self.limit = environment, limit
        self.spread = ScalarSpread(SLOTS, 0.9)
        self.waiting = [False] * SLOTS
        self.sums = [0.0] * SLOTS  # of the environment's rewards, at their strength of 2
        self.finished: list[float] = []
        self.batch: AgentBatch

    def begin(self, trainer: Reader) -> None:
        self.batch = first_batch(self.environment)
        trainer.begin(self.batch)
        self.waiting, self.sums = [False] * SLOTS, [0.0] * SLOTS
        for slot in range(SLOTS):
            self.spread.forget(slot)

    def step(self, trainer: Reader) -> None:
        before = self.batch
        actions = trainer.act(before)
        [(_, batch)] = self.environment.step({trainer.behavior.name: actions}).items()
        rewards = {}
        over = []
        for slot in range(SLOTS):
            self.waiting[slot] |= before.needs_action is None or bool(before.needs_action[slot])
            ended = bool(batch.terminated[slot] or batch.truncated[slot])
            if batch.aborted is not None and batch.aborted[slot]:
                self.spread.forget(slot)
                self.waiting[slot], self.sums[slot] = False, 0.0
            elif self.waiting[slot] and (batch.needs_action is None or bool(batch.needs_action[slot])):
                group = 0.0 if batch.group_reward is None else float(batch.group_reward[slot])
                rewards[slot] = clipped(float(batch.reward[slot]) + group, self.limit)
                self.sums[slot] += 2.0 * (float(batch.reward[slot]) + group)
                self.waiting[slot] = False
                if ended:
                    over.append(slot)
                    self.finished.append(self.sums[slot])
                    self.sums[slot] = 0.0
        self.spread.step(rewards)
        for slot in over:
            self.spread.forget(slot)
        trainer.observe(actions, batch)
        self.batch = batch

    def update(self, trainer: Reader, n_steps: int, normalized: bool) -> None:
        """Compare minibatches with discounted sums of rewards of the buffer, and what is reported with raw rewards."""
        reported = trainer.update().get("Policy/Extrinsic Reward", [])
        np.testing.assert_allclose(np.sort(reported), np.sort(self.finished), rtol=1e-5, atol=1e-5)
        self.finished.clear()
        buffer = trainer.buffer
        deviation = self.spread.deviation
        for rows, rewards in trainer.read:
            for row, (seen, reward) in zip(rows.tolist(), rewards.tolist(), strict=True):
                sums = [0.0, 0.0]
                discount = [1.0, 1.0]
                for _ in range(n_steps):
                    if not buffer.flags[row]:
                        break
                    given = float(buffer.reward[row])
                    given += 0.0 if buffer.group_reward is None else float(buffer.group_reward[row])
                    learned = clipped(given, self.limit)
                    learned = clipped(learned / deviation, 1.5) if normalized else learned
                    sums = [sums[0] + discount[0] * 3.0 * given, sums[1] + discount[1] * 2.0 * learned]
                    discount = [discount[0] * 0.5, discount[1] * 0.9]
                    row = (row + SLOTS) % buffer.capacity
                assert (seen, reward) == (pytest.approx(sums[0], rel=1e-4), pytest.approx(sums[1], rel=1e-4, abs=1e-5))
        trainer.read.clear()


@pytest.mark.parametrize("kind", ["plain", "turns", "aborted", "groups"])
@pytest.mark.parametrize(
    ("normalized", "limit", "n_steps", "prioritized"),
    [(True, None, 1, False), (True, 2.0, 3, True), (False, 2.0, 1, False), (True, None, 3, False)],
)
def test_replayed_rewards_are_scaled_as_they_are_sampled(
    kind: str, normalized: bool, limit: float | None, n_steps: int, prioritized: bool
) -> None:
    """The other reward of the same environment is not; and the trainer is resumed within episodes."""
    environment = Noisy(kind)
    options: dict[str, Any] = {"normalize_rewards": normalized, "clip_rewards": limit, "normalize_rewards_clip": 1.5}
    options |= {"n_steps": n_steps, "replay_sampler": PrioritizedSamplerSettings() if prioritized else None}
    trainer = reader(environment, **options)
    play = Play(environment, limit)
    updates = 0
    for step in range(120):
        if step % 50 == 0:  # episodes are cut
            play.begin(trainer)
        if step == 75:
            state = copied(trainer.state_dict())
            trainer = reader(environment, **options)
            trainer.load_state_dict(state)
        play.step(trainer)
        if trainer.ready():
            play.update(trainer, n_steps, normalized)
            updates += 1
    assert updates > 30


def test_nothing_is_measured_while_policies_are_only_measured() -> None:
    assert reader(Noisy("plain"), normalize_rewards=True).reward_scaling is not None
    assert reader(Noisy("plain"), normalize_rewards=True, inference=True).reward_scaling is None


# ---------------------------------------------------------------- saved


def test_a_state_without_statistics_is_resumed_with_new_ones() -> None:
    environment = Noisy("plain")
    trainer = reader(environment)
    play = Play(environment, None)
    play.begin(trainer)
    for _ in range(3):
        play.step(trainer)
    new = reader(environment, normalize_rewards=True)
    new.load_state_dict(copied(trainer.state_dict()))
    assert new.reward_scaling is not None
    assert (new.steps, new.reward_scaling.count, new.reward_scaling.mean) == (12, 1e-4, 0.0)
    trainer.load_state_dict(copied(new.state_dict()))  # without the key, saved statistics are left out
    assert trainer.reward_scaling is None


@pytest.mark.parametrize(
    ("entry", "value", "told"),
    [
        ("m2", 0.0, "'m2' of 'reward_scaling' is not above 0"),
        ("count", -1.0, "'count' of 'reward_scaling' is not above 0"),
        ("mean", float("nan"), "'mean'"),
        ("largest", -1.0, "'largest' of 'reward_scaling' is below 0"),
        ("returns", np.zeros(3), "'returns' is .*not an array of float64 of shape"),
        ("pending", np.zeros((2, 3)), "'pending'"),
        ("valid", np.zeros((1, SLOTS), np.bool_), "'valid'"),
    ],
)
def test_statistics_that_do_not_fit_are_refused_and_nothing_changes(entry: str, value: Any, told: str) -> None:
    trainer = reader(Noisy("plain"), normalize_rewards=True)
    state = copied(trainer.state_dict())
    state["reward_scaling"][entry] = value
    state["steps"] = 7
    with pytest.raises(SavedValueError, match=told):
        trainer.load_state_dict(state)
    assert trainer.steps == 0


class OneOfTwo(Ranks):
    """A rank whose neighbor has the agents with odd numbers, which earn nothing and never act."""

    size = 2

    def all_gather(self, value: Any) -> list[Any]:
        nothing = [np.zeros_like(array) for array in value["arrays"]]
        return [value, {"slots": value["slots"] + 1, "arrays": nothing, "lists": []}]


def test_steps_that_ranks_have_not_joined_are_saved() -> None:
    share = SlotShare(6, np.arange(0, 6, 2), np.arange(6))
    bound = {"normalize_rewards_bound": 1.5}
    rule = scaling(share, OneOfTwo(), **bound)
    spread = ScalarSpread(3, 0.9, bound=1.5)
    expected = []
    for step, (rewards, ends) in enumerate(zip(REWARDS, ENDS, strict=True)):
        rule.add(np.array([rewards], np.float32), np.array([ends], np.bool_), np.ones((1, 3), np.bool_))
        expected.append(spread.step(dict(enumerate(map(float, rewards)))))
        for slot in np.flatnonzero(ends).tolist():
            spread.forget(slot)
        if step == 3:
            saved = copied({"reward_scaling": rule.state_dict()})
            rule = scaling(share, OneOfTwo(), **bound)
            rule.require_fit(saved)
            rule.load_state_dict(saved)
    np.testing.assert_allclose(rule.join(), expected, rtol=1e-12)
    assert rule.deviation == pytest.approx(expected[-1], rel=1e-12)
