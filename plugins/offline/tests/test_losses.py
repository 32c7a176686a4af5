# mypy: allow-untyped-calls
"""One gradient step of each trainer against plain PyTorch, and expectiles against closed forms."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Normal
from unrolled_by_hand import features_by_hand

from rlcore import BehaviorSpec, ConfigError, Recording, load_plugins
from rlcore_devkit.conformance.learning_rewards import LearningReward, LearningRewards
from rlcore_devkit.conformance.recordings import record
from rlcore_devkit.environments import TinyCorridor, identity_continuous, identity_hybrid, identity_multi_branch
from rlcore_offline.iql import expectile_loss
from rlcore_torch import ActionBatch, TransitionBatch

RECORDED: dict[str, Callable[[], Recording]] = {
    "continuous": lambda: record(identity_continuous(2, "Agent"), 60),
    "branches": lambda: record(identity_multi_branch(2, "Agent"), 60),
    "hybrid": lambda: record(identity_hybrid(2, "Agent"), 60),
    "masked": lambda: record(TinyCorridor(2, "Agent", masked=True), 60),
}
KINDS = pytest.mark.parametrize("kind", RECORDED)
MakeTrainer = Callable[..., Any]


def log_prob(model: Any, behavior: BehaviorSpec, batch: ActionBatch) -> Tensor:
    """[B] by PyTorch's distributions."""
    mean, logits = model.policy(batch.inputs)
    total = torch.zeros(len(batch.inputs[0]))
    if mean is not None:
        total = total + Normal(mean, model.policy_head.distribution.log_std.exp()).log_prob(batch.raw).sum(1)
    for branch, options in enumerate(behavior.discrete):
        assert logits is not None and batch.choices is not None
        first = sum(behavior.discrete[:branch])
        part = logits[:, first : first + options]
        if batch.mask is not None:
            part = part.masked_fill(~batch.mask[:, first : first + options], -torch.inf)
        total = total + Categorical(logits=part).log_prob(batch.choices[:, branch])
    return total


def moved(parameters: Any, loss: Tensor, learning_rate: float) -> None:
    """One step of PyTorch's own Adam."""
    parameters = list(parameters)
    adam = torch.optim.Adam(parameters, lr=learning_rate)
    adam.zero_grad()
    loss.backward()
    adam.step()


def assert_alike(ours: Any, theirs: Any) -> None:
    for (name, mine), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-5, msg=lambda told, name=name: f"{name}: {told}")


# ---------------------------------------------------------------- behavioral cloning


@KINDS
def test_bc_descends_minus_the_log_probability_of_what_was_recorded(make_trainer: MakeTrainer, kind: str) -> None:
    trainer = make_trainer("bc", RECORDED[kind](), learning_rate=0.01)
    rows = trainer.buffer.sample(64, np.random.default_rng(3))
    batch = trainer.reader.actions(rows)
    naive = copy.deepcopy(trainer.model)
    loss = -log_prob(naive, trainer.behavior, batch).mean()
    stats = trainer.learn_from(rows).stats
    moved(naive.parameters(), loss, 0.01)
    assert stats["Losses/Policy Loss"].item() == pytest.approx(loss.item(), rel=1e-5)
    assert_alike(trainer.model, naive)


def test_bc_with_memory_learns_each_step_with_what_was_seen_before_it(make_trainer: MakeTrainer) -> None:
    """The loss is a mean over steps: unequal sequences are padded inside of the network only."""
    memory = {"memory_size": 8, "sequence_length": 5, "burn_in": 3}
    network = {"hidden_units": 16, "num_layers": 1, "memory": memory}
    trainer = make_trainer("bc", RECORDED["masked"](), block={"network_settings": network})
    rows = trainer.with_neighbors(trainer.buffer.sample(64, trainer.generator), trainer.buffer)
    assert len(set(np.bincount(rows.sequence))) > 2 and rows.leads.any()
    features = features_by_hand(trainer.model.actor, trainer.reader, rows, rows.rows)
    steps = trainer.buffer.transitions(rows.rows)
    logits = trainer.model.policy_head.linear(features).masked_fill(~torch.from_numpy(steps.masks), -torch.inf)
    loss = -Categorical(logits=logits).log_prob(torch.from_numpy(steps.choices[:, 0])).mean()
    assert trainer.learn_from(rows).stats["Losses/Policy Loss"].item() == pytest.approx(loss.item(), rel=1e-4)


def test_bc_refuses_a_reward_it_would_not_learn_from(make_trainer: MakeTrainer) -> None:
    plugins = load_plugins()
    plugins.register(LearningRewards(), "learning-reward")
    rewards = {"reward_signals": {"extrinsic": {}, LearningReward.name: {}}}
    with pytest.raises(ConfigError, match="trainer 'bc' imitates what was recorded and learns from no reward"):
        make_trainer("bc", RECORDED["masked"](), plugins=plugins, block=rewards)


def test_the_standard_deviation_of_a_function_that_was_found_stays_above_zero(make_trainer: MakeTrainer) -> None:
    """Every recorded action is the same, so the likelihood has no maximum."""
    recording = RECORDED["continuous"]()
    assert recording.actions.continuous is not None
    recording.actions.continuous[:] = 0.5
    trainer = make_trainer("bc", recording, learning_rate=0.05)
    for _ in range(400):
        stats = trainer.update()
    deviation = np.exp(-5.0)
    parts = recording.behavior.continuous
    np.testing.assert_allclose(trainer.model.policy_head.distribution.log_std.detach().exp(), deviation, rtol=0.05)
    assert stats["Policy/Entropy"] == pytest.approx(Normal(0.0, deviation).entropy().item() * parts, rel=1e-3)


# ---------------------------------------------------------------- implicit Q-learning


def test_the_expectiles_of_two_rewards_add_up_to_that_of_their_sum() -> None:
    """By themselves each would be taken over other actions than the other: here they are opposed."""
    generator = np.random.default_rng(1)
    parts = torch.from_numpy(generator.normal(size=(5000, 2)) * [3.0, 1.0] + [1.0, -2.0])
    parts[:, 1] -= 0.8 * parts[:, 0]

    def expectile_of(values: Tensor) -> Tensor:
        guess = torch.zeros(1, values.shape[1], dtype=torch.float64)
        for _ in range(200):  # the mean, weighted by what is above and what is below
            weight = torch.where((values - guess).sum(1, keepdim=True) < 0, 0.1, 0.9)
            guess = (weight * values).sum(0, keepdim=True) / weight.sum()
        return guess

    found = expectile_of(parts).requires_grad_()
    expectile_loss(parts - found, 0.9).backward()
    assert found.grad is not None and found.grad.abs().max().item() < 1e-6
    assert found.sum().item() == pytest.approx(expectile_of(parts.sum(1, keepdim=True)).item(), abs=1e-6)


def of_recorded(critic: Any, behavior: BehaviorSpec, batch: TransitionBatch) -> Tensor:
    """[B] of a critic with a column for each combination of options, picked one transition after the other."""
    columns = critic(batch.inputs, batch.raw)
    if batch.choices is None:
        return columns[:, 0]  # type: ignore[no-any-return]
    picked = [np.ravel_multi_index(tuple(row), behavior.discrete) for row in batch.choices.tolist()]
    return torch.stack([columns[k, int(column)] for k, column in enumerate(picked)])


@KINDS
def test_a_step_of_iql_is_that_of_the_paper(make_trainer: MakeTrainer, kind: str) -> None:
    settings = {"expectile": 0.8, "inverse_temperature": 2.0, "max_weight": 1.5, "tau": 0.1, "learning_rate": 0.01}
    trainer = make_trainer("iql", RECORDED[kind](), **settings)
    behavior = trainer.behavior
    for step in range(3):
        batch = trainer.reader.read(trainer.buffer.sample(64, np.random.default_rng(step)))
        naive = copy.deepcopy(trainer.model)
        for optimizer in trainer.optimizers.values():  # each step is an Adam's first
            optimizer.load_state_dict({k: np.zeros_like(v) for k, v in optimizer.state_dict().items()})
        stats = trainer.gradient_step(batch).stats

        with torch.no_grad():
            worth = torch.minimum(*(of_recorded(target, behavior, batch) for target in naive.targets))
        gap = worth - naive.value(batch.inputs)[:, 0]
        value_loss = (torch.where(gap > 0, 0.8, 0.2) * gap**2).mean()
        moved(naive.value.parameters(), value_loss, 0.01)
        with torch.no_grad():
            weight = torch.exp(2.0 * (worth - naive.value(batch.inputs)[:, 0])).clamp(max=1.5)
            target = batch.reward[:, 0] + batch.discount[:, 0] * naive.value(batch.next_inputs)[:, 0]
        policy_loss = -(weight * log_prob(naive, behavior, batch)).mean()
        moved([*naive.actor.parameters(), *naive.policy_head.parameters()], policy_loss, 0.01)
        for critic, slow in zip(naive.critics, naive.targets, strict=True):
            moved(critic.parameters(), ((of_recorded(critic, behavior, batch) - target) ** 2).mean(), 0.01)
            with torch.no_grad():
                for old, new in zip(slow.parameters(), critic.parameters(), strict=True):
                    old.copy_(0.9 * old + 0.1 * new)
        assert stats["Losses/Value Loss"].item() == pytest.approx(value_loss.item(), rel=1e-4)
        assert stats["Losses/Policy Loss"].item() == pytest.approx(policy_loss.item(), rel=1e-4)
        assert_alike(trainer.model, naive)


def test_iql_keeps_a_value_for_each_reward(make_trainer: MakeTrainer) -> None:
    recording = RECORDED["hybrid"]()
    plugins = load_plugins()
    maker = LearningRewards()
    plugins.register(maker, "learning-reward")
    rewards = {"reward_signals": {"extrinsic": {}, LearningReward.name: {"gamma": 0.5}}}
    trainer, resumed = (make_trainer("iql", recording, plugins=plugins, block=rewards) for _ in range(2))
    for updates in range(1, 4):
        stats = trainer.update()
        assert stats[LearningReward.TAG] == updates == maker.made[0].updates
    assert {"Policy/Extrinsic Value", "Policy/Learning Value"} <= stats.keys()
    batch = trainer.reader.read(recording.rows)
    assert trainer.model.q_values(trainer.model.critics, batch)[0].shape == (recording.transitions, 2)
    resumed.load_state_dict(trainer.state_dict())
    assert maker.made[1].updates == 3
