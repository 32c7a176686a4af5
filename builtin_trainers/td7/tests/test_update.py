# mypy: allow-untyped-calls
"""Gradient steps against plain ones: float64 and PyTorch's autograd, in the order of the authors' code."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from off_policy_updates import far_from_start, random_batch
from torch import Tensor
from torch.nn.functional import elu, linear

from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.environments import IdentityEnvironment
from rlcore_td7.trainer import TD7Trainer
from rlcore_torch import TransitionBatch

MakeTrainer = Callable[..., TD7Trainer]

ROWS = 24
PARTS = 2
LEARNING = {"learning_rate": 0.01, "adam_epsilon": 1e-2, "target_noise_clip": 0.3, "target_update_interval": 3}


def made(make_trainer: MakeTrainer, rewards: int = 1, **settings: Any) -> TD7Trainer:
    return far_from_start(make_trainer, IdentityEnvironment(2, continuous=PARTS), rewards, **{**LEARNING, **settings})


# ---------------------------------------------------------------- the plain gradient step


def by_mean_size(x: Tensor) -> Tensor:
    return x / x.abs().mean(1, keepdim=True)


class Plain:
    """The trainer's parameters in float64, with nothing else in common with the trainer."""

    def __init__(self, trainer: TD7Trainer) -> None:
        self.h = trainer.hyperparameters
        self.generator = copy.deepcopy(trainer.generator)
        self.p = {name: tensor.double() for name, tensor in trainer.model.state_dict().items()}
        self.moments = {name: (torch.zeros_like(p), torch.zeros_like(p), [0]) for name, p in self.p.items()}
        self.steps = 0
        self.targets: list[Tensor] = []

    def through(self, layers: str, x: Tensor, activation: Callable[[Tensor], Tensor], count: int = 3) -> Tensor:
        for layer in range(count):
            x = linear(x, self.p[f"{layers}.{layer}.weight"], self.p[f"{layers}.{layer}.bias"])
            x = activation(x) if layer < 2 else x
        return x

    def one(self, layer: str, x: Tensor) -> Tensor:
        return linear(x, self.p[f"{layer}.weight"], self.p[f"{layer}.bias"])

    def zs(self, of: str, x: Tensor) -> Tensor:
        return by_mean_size(self.one(f"{of}.head", self.through(f"{of}.body.layers", x, elu, 2)))

    def zsa(self, of: str, zs: Tensor, action: Tensor) -> Tensor:
        return self.through(f"{of}.layers", torch.cat([zs, action], 1), elu)

    def action(self, of: str, x: Tensor) -> Tensor:
        first = by_mean_size(self.one(f"{of}actor.first", x))
        features = torch.cat([first, self.zs(f"{of}actor.zs", x)], 1)
        features = self.through(f"{of}actor.hidden", features, torch.relu, 2)
        return self.one(f"{of}policy_head.linear", features).tanh()

    def values(self, of: str, x: Tensor, action: Tensor) -> list[Tensor]:
        """[B, R] of both critics."""
        zs = self.zs(f"{of}actor.zs", x)
        zsa = self.zsa(f"{of}zsa", zs, action)
        found = []
        for k in range(2):
            first = by_mean_size(self.one(f"{of}critics.{k}.first", torch.cat([x, action], 1)))
            found.append(self.through(f"{of}critics.{k}.layers", torch.cat([first, zsa, zs], 1), elu))
        return found

    def smaller(self, x: Tensor, noise: Tensor) -> Tensor:
        """[B, R]: in each row, the values of the target critic whose sum is the smaller one."""
        action = (self.action("target.", x) + noise).clamp(-1, 1)
        values = torch.stack(self.values("target.", x, action))  # [2, B, R]
        return values[values.sum(2).argmin(0), torch.arange(ROWS)]

    def adam(self, loss: Tensor, names: list[str]) -> None:
        for name, slope in zip(names, torch.autograd.grad(loss, [self.p[n] for n in names]), strict=True):
            mean, square, count = self.moments[name]
            count[0] += 1
            mean.mul_(0.9).add_(0.1 * slope)
            square.mul_(0.999).add_(0.001 * slope**2)
            root = (square / (1 - 0.999 ** count[0])).sqrt() + self.h.adam_epsilon
            self.p[name] = self.p[name].detach() - self.h.learning_rate * (mean / (1 - 0.9 ** count[0])) / root

    def learn(self, *starts: str, but: str = "nothing") -> list[str]:
        names = [name for name in self.p if name.startswith(starts) and not name.startswith(but)]
        for name in names:
            self.p[name] = self.p[name].detach().requires_grad_()
        return names

    def gradient_step(self, batch: TransitionBatch) -> tuple[dict[str, float], Tensor]:
        self.steps += 1
        x = batch.inputs[0].double()
        following = batch.next_inputs[0].double()
        assert batch.raw is not None
        taken = batch.raw.double()
        drawn = torch.from_numpy(self.generator.standard_normal((ROWS, PARTS), np.float32)).double()
        noise = (self.h.target_noise * drawn).clamp(-self.h.target_noise_clip, self.h.target_noise_clip)

        names = self.learn("encoder.")
        goal = self.zs("encoder.zs", following).detach()
        loss = (self.zsa("encoder.zsa", self.zs("encoder.zs", x), taken) - goal).square().mean()
        self.adam(loss, names)
        stats = {"Losses/Encoder Loss": loss.item()}

        with torch.no_grad():
            value = self.smaller(following, noise)
            if batch.after_ends is not None:  # of the second reward
                goes_on = self.smaller(batch.after_ends.inputs[0].double(), noise)
                value = torch.stack([value[:, 0], goes_on[:, 1]], dim=1)
            value = torch.maximum(torch.minimum(value, self.p["clip_high"]), self.p["clip_low"])
            target = batch.reward + batch.discount * value
            self.targets.append(target)
            self.p["lowest_target"] = torch.cat(self.targets).min(0).values
            self.p["highest_target"] = torch.cat(self.targets).max(0).values
            self.p["saw_targets"] = torch.ones(())
        names = self.learn("critics.")
        weight = torch.ones(ROWS) if batch.weight is None else batch.weight
        total = torch.zeros(())
        errors = []
        for k, q in enumerate(self.values("", x, taken)):
            error = q - target
            size = error.abs()
            huber = torch.where(size < 1, size.square() / 2, size - 0.5)
            of_critic = (weight[:, None] * huber).mean()
            total = total + of_critic
            stats[f"Losses/Q{k + 1} Loss"] = of_critic.item()
            errors.append(error.sum(1).abs().detach())
            if k == 0:
                means = q.mean(0).tolist()
                stats |= dict(zip(("Policy/Extrinsic Value", "Policy/Learning Value"), means, strict=False))
        self.adam(total, names)

        if self.steps % self.h.actor_delay == 0:
            names = self.learn("actor.", "policy_head.", but="actor.zs")
            one, two = self.values("", x, self.action("", x))
            loss = -((one + two) / 2).sum(1).mean()
            self.adam(loss, names)
            stats["Losses/Policy Loss"] = loss.item()

        if self.steps % self.h.target_update_interval == 0:
            for name in [name for name in self.p if name.startswith("target.")]:
                self.p[name] = self.p[name.removeprefix("target.")].detach()
            for name in [name for name in self.p if name.startswith("encoder.")]:
                fixed = name.replace("encoder.zsa", "zsa").replace("encoder.zs.", "actor.zs.")
                self.p[fixed] = self.p[name].detach()
            self.p["clip_low"], self.p["clip_high"] = self.p["lowest_target"], self.p["highest_target"]
        return stats, torch.stack(errors).amax(0)


@pytest.mark.parametrize(("weighted", "rewards", "delay"), [(False, 1, 2), (True, 2, 2), (False, 2, 1)])
def test_gradient_steps_are_those_of_a_plain_implementation(
    make_trainer: MakeTrainer, weighted: bool, rewards: int, delay: int
) -> None:
    trainer = made(make_trainer, rewards, actor_delay=delay)
    before = trainer.state_dict()["model"]
    plain = Plain(trainer)
    clipped = set()
    for seed in range(8):  # so that moments, targets, the delay, the copies and the order of things count
        batch = random_batch(trainer, weighted, seed)
        batch.reward.mul_(2 + seed)  # errors beyond the knee of the loss, and a range that grows
        ours, (stats, errors) = trainer.gradient_step(batch), plain.gradient_step(batch)
        trainer.gradient_steps += 1
        assert ours.td_error is not None and errors.max() > 1
        torch.testing.assert_close(ours.td_error.double(), errors, rtol=1e-4, atol=1e-4)
        assert ours.stats.keys() == stats.keys()
        for tag, value in stats.items():
            assert ours.stats[tag].item() == pytest.approx(value, rel=1e-4, abs=1e-4), tag
        clipped.add(tuple(plain.p["clip_high"].tolist()))
    assert len(clipped) >= 3, "0 before the first copy, then two ranges"
    for name, array in trainer.state_dict()["model"].items():
        np.testing.assert_allclose(array, plain.p[name].detach(), rtol=1e-5, atol=5e-5, err_msg=name)
        assert np.abs(1.0 * array - before[name]).max() > 1e-3, f"{name} hardly moved"


# ---------------------------------------------------------------- what else a gradient step promises


def test_fixed_encoders_start_as_the_encoder_and_targets_as_the_networks(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer(IdentityEnvironment(2, continuous=PARTS))
    model = trainer.model
    pairs = [*zip(model.fixed_parameters(), model.encoder.parameters(), strict=True), *trainer._targets]
    assert len(pairs) == 12 + 36
    for copied, learned in pairs:
        assert copied is not learned and copied.equal(learned) and not copied.requires_grad


def test_the_saved_and_exported_policy_has_the_fixed_encoder_and_acts_as_the_actor(make_trainer: MakeTrainer) -> None:
    trainer = made(make_trainer)
    saved = trainer.policy.state_dict()
    assert any(name.startswith("actor.zs.") for name in saved)
    assert not any(name.startswith(("encoder.", "critics.", "target.", "zsa.")) for name in saved)
    observations = {"reals": np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, PARTS)}
    learned = trainer.model.action((torch.from_numpy(observations["reals"]),)).detach().numpy()
    acted = trainer.policy.act(observations, deterministic=True).continuous
    np.testing.assert_allclose(acted, learned, atol=1e-6)
    module = trainer.policy.module()
    low, high = trainer.behavior.low, trainer.behavior.high
    traced = module({"reals": torch.from_numpy(observations["reals"])}).continuous
    np.testing.assert_allclose(traced, (low + high) / 2 + (high - low) / 2 * learned, atol=1e-5)


def test_priorities_are_at_least_one_and_new_ones_the_largest_of_now(make_trainer: MakeTrainer) -> None:
    environment = IdentityEnvironment(2, continuous=PARTS)
    trainer = make_trainer(environment, target_update_interval=4, batch_size=4, steps_per_update=2)
    trainer.buffer.priorities.largest = 1e6  # as of an error long ago
    learn(trainer, environment, 13)
    assert 8 <= trainer.gradient_steps < 12
    priorities = trainer.buffer.priorities
    assert priorities is not None
    priorities.refresh(trainer.buffer.flags)
    leaves = priorities.tree.leaves[trainer.buffer.flags != 0]
    assert (leaves >= 1.0).all()
    assert priorities.largest == pytest.approx(leaves.max())


def test_a_prioritized_row_counts_its_error_to_the_power_of_alpha(make_trainer: MakeTrainer) -> None:
    environment = IdentityEnvironment(2, continuous=PARTS)
    trainer = make_trainer(environment, batch_size=4)
    learn(trainer, environment, 3)
    rows = np.flatnonzero(trainer.buffer.flags)[:3]
    trainer.sampler.learned(trainer.buffer, rows, np.array([0.5, -3.0, 9.0], np.float32))
    assert trainer.buffer.priorities.tree.leaves[rows] == pytest.approx([1.0, 3**0.4, 9**0.4], rel=1e-5)
