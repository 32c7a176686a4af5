# mypy: allow-untyped-calls
"""Gradient steps against plain ones: float64 and PyTorch's autograd, in the order of algorithm 1."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from off_policy_updates import far_from_start, random_batch
from torch import Tensor
from torch.nn.functional import linear

from rlcore import EpisodeSeeds
from rlcore_devkit.environments import IdentityEnvironment
from rlcore_td3.trainer import TD3Trainer
from rlcore_torch import TransitionBatch

MakeTrainer = Callable[..., TD3Trainer]

ROWS = 24
PARTS = 2
LEARNING = {"learning_rate": 0.02, "adam_epsilon": 1e-2, "tau": 0.1, "target_noise_clip": 0.3}


def made(make_trainer: MakeTrainer, rewards: int = 1, **settings: Any) -> TD3Trainer:
    return far_from_start(make_trainer, IdentityEnvironment(2, continuous=PARTS), rewards, **{**LEARNING, **settings})


# ---------------------------------------------------------------- the plain gradient step


class Plain:
    """The trainer's parameters in float64, with nothing else in common with the trainer."""

    def __init__(self, trainer: TD3Trainer) -> None:
        self.h = trainer.hyperparameters
        self.generator = copy.deepcopy(trainer.generator)
        self.p = {name: tensor.double() for name, tensor in trainer.model.state_dict().items()}
        self.moments = {name: (torch.zeros_like(p), torch.zeros_like(p), [0]) for name, p in self.p.items()}
        self.steps = 0

    def network(self, body: str, head: str, *inputs: Tensor) -> Tensor:
        x = torch.cat(inputs, dim=1)
        for layer in (0, 1):
            x = linear(x, self.p[f"{body}.layers.{layer}.weight"], self.p[f"{body}.layers.{layer}.bias"]).clamp(min=0)
        return linear(x, self.p[f"{head}.weight"], self.p[f"{head}.bias"])

    def action(self, x: Tensor, of: str = "") -> Tensor:
        return self.network(f"{of}actor", f"{of}policy_head.linear", x).tanh()

    def value(self, x: Tensor, action: Tensor, critic: int, of: str = "") -> Tensor:
        """[B, R]"""
        return self.network(f"{of}critics.{critic}.body", f"{of}critics.{critic}.head", x, action)

    def smallest(self, x: Tensor, noise: Tensor) -> Tensor:
        """[B, R]: in each row, the values of the target critic whose sum is the smallest."""
        action = (self.action(x, "target.") + noise).clamp(-1, 1)
        values = torch.stack([self.value(x, action, k, "target.") for k in range(self.h.num_critics)])  # [K, B, R]
        return values[values.sum(2).argmin(0), torch.arange(ROWS)]

    def adam(self, loss: Tensor, names: list[str]) -> None:
        for name, slope in zip(names, torch.autograd.grad(loss, [self.p[n] for n in names]), strict=True):
            mean, square, count = self.moments[name]
            count[0] += 1
            mean.mul_(0.9).add_(0.1 * slope)
            square.mul_(0.999).add_(0.001 * slope**2)
            root = (square / (1 - 0.999 ** count[0])).sqrt() + self.h.adam_epsilon
            self.p[name] = self.p[name].detach() - self.h.learning_rate * (mean / (1 - 0.9 ** count[0])) / root

    def learn(self, *starts: str) -> list[str]:
        names = [name for name in self.p if name.startswith(starts)]
        for name in names:
            self.p[name] = self.p[name].detach().requires_grad_()
        return names

    def gradient_step(self, batch: TransitionBatch) -> tuple[dict[str, float], Tensor]:
        self.steps += 1
        x = batch.inputs[0].double()
        following = batch.next_inputs[0].double()
        noise = torch.zeros(ROWS, PARTS)
        if self.h.target_noise > 0:
            drawn = torch.from_numpy(self.generator.standard_normal((ROWS, PARTS), np.float32)).double()
            noise = (self.h.target_noise * drawn).clamp(-self.h.target_noise_clip, self.h.target_noise_clip)
        with torch.no_grad():
            value = self.smallest(following, noise)
            if batch.after_ends is not None:  # of the second reward
                goes_on = self.smallest(batch.after_ends.inputs[0].double(), noise)
                value = torch.stack([value[:, 0], goes_on[:, 1]], dim=1)
            target = batch.reward + batch.discount * value

        assert batch.raw is not None
        weight = torch.ones(ROWS) if batch.weight is None else batch.weight
        stats = {}
        errors = []
        for k in range(self.h.num_critics):
            names = self.learn(f"critics.{k}.")
            error = self.value(x, batch.raw.double(), k) - target
            self.adam((weight[:, None] * error**2).mean(), names)
            stats[f"Losses/Q{k + 1} Loss"] = error.square().mean().item()
            errors.append(error.sum(1).abs().detach())
            if k == 0:
                means = (error + target).mean(0).tolist()
                stats |= dict(zip(("Policy/Extrinsic Value", "Policy/Learning Value"), means, strict=False))

        if self.steps % self.h.actor_delay == 0:
            names = self.learn("actor.", "policy_head.")
            loss = -self.value(x, self.action(x), 0).sum(1).mean()  # of the critic that has just moved
            self.adam(loss, names)
            stats["Losses/Policy Loss"] = loss.item()
            for name in [name for name in self.p if name.startswith("target.")]:
                self.p[name] = (1 - self.h.tau) * self.p[name] + self.h.tau * self.p[name.removeprefix("target.")]
        return stats, torch.stack(errors).mean(0)


KINDS: dict[str, dict[str, Any]] = {
    "td3": {"trainer": "td3"},
    "td3, large noise": {"trainer": "td3", "target_noise": 5.0},  # clipped, and actions at their bounds
    "td3, three critics": {"trainer": "td3", "num_critics": 3, "actor_delay": 3},
    "ddpg": {"trainer": "ddpg"},
}


@pytest.mark.parametrize("rewards", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_steps_are_those_of_a_plain_implementation(
    make_trainer: MakeTrainer, kind: str, weighted: bool, rewards: int
) -> None:
    trainer = made(make_trainer, rewards, **KINDS[kind])
    before = trainer.state_dict()["model"]
    plain = Plain(trainer)
    for seed in range(4):  # so that moments, targets, the delay and the order of things count
        batch = random_batch(trainer, weighted, seed)
        ours, (stats, errors) = trainer.gradient_step(batch), plain.gradient_step(batch)
        trainer.gradient_steps += 1
        assert (ours.td_error is not None) == weighted, "only prioritized replay needs it"
        if ours.td_error is not None:
            torch.testing.assert_close(ours.td_error.double(), errors, rtol=1e-4, atol=1e-4)
        assert ours.stats.keys() == stats.keys()
        for tag, value in stats.items():
            assert ours.stats[tag].item() == pytest.approx(value, rel=1e-4, abs=1e-4), tag
    for name, array in trainer.state_dict()["model"].items():
        np.testing.assert_allclose(array, plain.p[name].detach(), rtol=0, atol=3e-5, err_msg=name)
        assert np.abs(array - before[name]).max() > 3e-3, f"{name} hardly moved"


# ---------------------------------------------------------------- what else a gradient step promises


def test_ddpg_is_td3_with_one_critic_no_delay_and_no_noise_on_targets(make_trainer: MakeTrainer) -> None:
    same = {"num_critics": 1, "actor_delay": 1, "target_noise": 0.0}
    trainers = [made(make_trainer, trainer="ddpg"), made(make_trainer, trainer="td3", **same)]
    for trainer in trainers:
        for seed in range(3):
            trainer.gradient_step(random_batch(trainer, False, seed))
    ours, theirs = (trainer.state_dict()["model"] for trainer in trainers)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])


def test_the_targets_start_as_the_networks_and_take_no_gradient(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer(IdentityEnvironment(2, continuous=PARTS))
    state = trainer.state_dict()["model"]
    targets = [name for name in state if name.startswith("target.")]
    assert {name.split(".")[1] for name in targets} == {"actor", "policy_head", "critics"}
    for name in targets:
        np.testing.assert_array_equal(state[name], state[name.removeprefix("target.")])
    assert not np.array_equal(state["critics.0.head.weight"], state["critics.1.head.weight"]), "twins that differ"
    assert not any(parameter.requires_grad for parameter in trainer.model.target.parameters())


def test_the_delay_continues_over_updates_whose_statistics_are_of_the_steps_that_moved_the_actor(
    make_trainer: MakeTrainer,
) -> None:
    """Two gradient steps in each update: the actor moves at the third, the sixth and the ninth."""
    environment = IdentityEnvironment(2, continuous=PARTS)
    trainer = make_trainer(environment, actor_delay=3, batch_size=2)
    [name] = environment.behaviors
    batch = environment.reset(EpisodeSeeds(1), np.zeros(2, np.int64))[name]
    trainer.begin(batch)
    reported = []
    moved = []
    for _ in range(6):
        actions = trainer.act(batch)
        batch = environment.step({name: actions})[name]
        trainer.observe(actions, batch)
        before = trainer.model.policy_head.linear.weight.clone()
        stats = trainer.update()
        reported.append("Losses/Policy Loss" in stats)
        moved.append(not before.equal(trainer.model.policy_head.linear.weight))
    assert trainer.gradient_steps in (10, 12)
    assert reported == moved and moved.count(True) == trainer.gradient_steps // 3


def test_the_policy_acts_as_the_actor_that_learns(make_trainer: MakeTrainer) -> None:
    trainer = made(make_trainer)
    observations = {"reals": np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, PARTS)}
    learned = trainer.model.action((torch.from_numpy(observations["reals"]),)).detach().numpy()
    for deterministic in (True, False):
        acted = trainer.policy.act(observations, deterministic=deterministic).continuous
        np.testing.assert_allclose(acted, learned, atol=1e-6)
