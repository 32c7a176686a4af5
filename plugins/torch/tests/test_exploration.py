"""The door ``RolloutTrainer.explore``, and exploration by epsilon for it."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
import torch
from run_of_trainers import run_of

from rlcore import AgentBatch, BehaviorSettings, BehaviorSpec, ExtrinsicReward, ObservationSpec
from rlcore_torch import (
    ActionLayout,
    ActorCritic,
    Loss,
    Minibatch,
    NetworkSettings,
    OnPolicySettings,
    OnPolicyTrainer,
    epsilon_greedy,
    joint_log_prob_entropy,
    numpy_mask_logits,
    reads_tensors,
)
from rlcore_torch.networks.actions import gumbel_noise
from rlcore_torch.tensors.refusals import refusal_of_tensors

AGENTS = 40_000
BRANCHES = (4, 3)
LAYOUT = ActionLayout(BehaviorSpec("Agent", (), discrete=BRANCHES))


def gumbel(seed: int, agents: int = AGENTS) -> Any:
    return gumbel_noise(np.random.default_rng(seed), (agents, sum(BRANCHES)))


def same_logits(agents: int = AGENTS) -> Any:
    """The best options are 1 and 2."""
    return np.tile(np.float32([0.0, 9.0, 0.1, 0.2, -3.0, -2.0, -1.0]), (agents, 1))


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 0.95])
def test_epsilon_is_the_share_of_agents_that_act_at_random_and_each_option_has_an_equal_part(epsilon: float) -> None:
    choices = LAYOUT.greedy_choices(epsilon_greedy(same_logits(), gumbel(1), epsilon))
    counts = np.zeros(BRANCHES)
    np.add.at(counts, tuple(choices.T), 1)
    expected = np.full(BRANCHES, epsilon / 12)  # one coin for all branches, and then any pair of options
    expected[1, 2] += 1.0 - epsilon
    deviation = np.sqrt(expected * (1.0 - expected) / AGENTS)
    assert np.all(np.abs(counts / AGENTS - expected) < 4.0 * deviation)


def test_forbidden_options_are_never_chosen_and_the_others_alike() -> None:
    mask = np.ones((AGENTS, 7), np.bool_)
    mask[:, [1, 4, 5]] = False  # the best of the first branch, and all but one of the second
    logits = numpy_mask_logits(same_logits(), mask)
    choices = LAYOUT.greedy_choices(epsilon_greedy(logits, gumbel(2), 0.6))
    shares = np.bincount(choices[:, 0], minlength=4) / AGENTS
    np.testing.assert_allclose(shares, [0.2, 0.0, 0.2, 0.6], atol=0.01)
    assert shares[1] == 0.0 and np.all(choices[:, 1] == 2)


def test_without_epsilon_all_act_greedily_and_with_an_epsilon_of_one_all_at_random() -> None:
    logits = same_logits()
    assert epsilon_greedy(logits, gumbel(3), 0.0) is logits
    np.testing.assert_array_equal(epsilon_greedy(logits, gumbel(3), 1.0), gumbel(3))


def test_agents_throw_coins_of_their_own() -> None:
    explored = []
    for seed in range(400):
        kept = epsilon_greedy(same_logits(50), gumbel(seed, 50), 0.4)[:, 1] == 9.0
        explored.append(50 - np.count_nonzero(kept))
    assert np.mean(explored) == pytest.approx(20.0, rel=0.05)
    assert np.var(explored) == pytest.approx(50 * 0.4 * 0.6, rel=0.3)  # one coin for all: 50 times as much


def test_tensors_give_the_numbers_of_arrays() -> None:
    mask = np.random.default_rng(4).random((AGENTS, 7)) < 0.7
    mask[:, [0, 4]] = True
    logits = numpy_mask_logits(same_logits(), mask)
    of_tensors = epsilon_greedy(torch.from_numpy(logits), torch.from_numpy(gumbel(4)), 0.5)
    np.testing.assert_array_equal(of_tensors.numpy(), epsilon_greedy(logits, gumbel(4), 0.5))


# ---------------------------------------------------------------- the door


class Careful(OnPolicyTrainer):
    """Learns nothing."""

    def build_model(self, value_heads: int) -> ActorCritic:
        return ActorCritic(self.behavior, self.settings.network_settings, value_heads, shared=False)

    def loss(self, batch: Minibatch) -> Loss:
        raise NotImplementedError


class Curious(Careful):
    def explore(self, parameters: Any, noise: Any) -> Any:
        columns, logits = parameters
        _, drawn = noise or self.action_noise.next()
        return super().explore((columns, epsilon_greedy(logits, drawn, 0.5)), None)


class CuriousOnTensors(Careful):
    @reads_tensors
    def explore(self, parameters: Any, noise: Any) -> Any:
        return super().explore(parameters, noise)


class UndecoratedAgain(CuriousOnTensors):
    def explore(self, parameters: Any, noise: Any) -> Any:
        return super().explore(parameters, noise)


def trainer_of(kind: type[OnPolicyTrainer], deterministic: bool = False) -> Any:
    behavior = BehaviorSpec(
        "Agent", (ObservationSpec("seen", (3,), np.float32),), discrete=BRANCHES, env_index=np.arange(64)
    )
    network = NetworkSettings(hidden_units=8, num_layers=1, init="uniform", deterministic=deterministic)
    hyperparameters = OnPolicySettings(buffer_size=640, batch_size=64)
    settings = BehaviorSettings(hyperparameters=hyperparameters, network_settings=network)
    return kind(attrs.evolve(settings, reward_signals={"extrinsic": None}), behavior, run_of(ExtrinsicReward(0.9)))


def batches(count: int) -> list[AgentBatch]:
    random = np.random.default_rng(5)
    found = []
    for _ in range(count):
        mask = random.random((64, 7)) < 0.7
        mask[:, [0, 4]] = True
        seen = random.standard_normal((64, 3)).astype(np.float32)
        never = np.zeros(64, np.bool_)
        found.append(AgentBatch({"seen": seen}, np.zeros(64, np.float32), never, never, action_mask=mask))
    return found


def played(trainer: Any) -> list[Any]:
    """The choices of ten steps, each [64, 2]."""
    first, *others = batches(11)
    trainer.begin(first)
    choices = []
    for before, after in zip([first, *others], others, strict=False):
        actions = trainer.act(before)
        choices.append(actions.discrete.copy())
        trainer.observe(actions, after)
    return choices


@pytest.mark.parametrize("deterministic", [False, True])
def test_agents_act_as_explore_says_and_the_rollout_keeps_what_the_policy_says(deterministic: bool) -> None:
    trainer = trainer_of(Curious, deterministic)
    chosen = np.stack(played(trainer))  # [10, 64, 2]
    np.testing.assert_array_equal(trainer.buffer.choices[:10], chosen)
    best = []
    policy_log_prob = []
    for batch, choices in zip(batches(10), chosen, strict=True):
        columns, logits = trainer.policy.parameters(batch.observations, batch.action_mask)
        assert columns is None and logits is not None
        best.append(LAYOUT.greedy_choices(logits))
        of_policy = joint_log_prob_entropy(
            LAYOUT, None, None, torch.from_numpy(logits), None, torch.from_numpy(choices)
        )
        policy_log_prob.append(of_policy[0])
    is_best = (np.stack(best) == chosen).all(2)
    assert 0.4 < is_best.mean() < 0.75  # half of them, and some that are random
    log_prob = trainer.rollout().log_prob.view(10, 64)
    torch.testing.assert_close(log_prob, torch.stack(policy_log_prob))


def test_what_explore_draws_continues_after_a_resume() -> None:
    trainer = trainer_of(Curious)
    played(trainer)
    resumed = trainer_of(Curious)
    resumed.load_state_dict(trainer.state_dict())
    noises = [one.action_noise.next()[1] for one in (trainer, resumed, trainer_of(Curious))]
    np.testing.assert_array_equal(noises[0], noises[1])
    assert not np.array_equal(noises[0], noises[2])


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [
        (Careful, None),
        (Curious, "Curious.explore may expect arrays"),
        (CuriousOnTensors, None),
        (UndecoratedAgain, "UndecoratedAgain.explore may expect arrays"),
    ],
)
def test_a_trainer_with_exploration_of_its_own_keeps_to_arrays_unless_it_reads_tensors(
    kind: type[OnPolicyTrainer], refusal: str | None
) -> None:
    assert refusal_of_tensors(trainer_of(kind), torch.device("cpu")) == refusal
