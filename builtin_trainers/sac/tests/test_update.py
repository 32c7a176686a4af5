# mypy: allow-untyped-calls
"""Gradient steps against plain ones: float64, PyTorch's autograd and distributions, each joint option by itself."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from off_policy_updates import ROWS, far_from_start, random_batch
from torch import Tensor
from torch.distributions import Categorical, Normal, TanhTransform, TransformedDistribution
from torch.nn.functional import linear, silu

from rlcore import ConfigError
from rlcore_devkit.environments import IdentityEnvironment
from rlcore_sac.trainer import SACTrainer
from rlcore_torch import TransitionBatch
from rlcore_torch.networks import actions
from rlcore_torch.networks.distributions import LOG_STD_RANGE

MakeTrainer = Callable[..., SACTrainer]

SPACES: dict[str, tuple[int, tuple[int, ...]]] = {
    "continuous": (2, ()),
    "discrete": (0, (4,)),
    "multi-branch": (0, (3, 2, 4)),
    "hybrid": (2, (3,)),
    "hybrid, multi-branch": (1, (2, 3)),
}
LEARNING = {"learning_rate": 0.02, "adam_epsilon": 1e-2, "tau": 0.1, "init_entcoef": 0.3}


def made(make_trainer: MakeTrainer, space: str, rewards: int = 1, seed: int = 1, **hyperparameters: Any) -> SACTrainer:
    continuous, discrete = SPACES[space]
    environment = IdentityEnvironment(2, continuous=continuous, discrete=discrete)
    return far_from_start(make_trainer, environment, rewards, seed, **{**LEARNING, **hyperparameters})


# ---------------------------------------------------------------- the plain gradient step


class Plain:
    """The trainer's parameters in float64, with nothing else in common with the trainer."""

    def __init__(self, trainer: SACTrainer) -> None:
        self.h = trainer.hyperparameters
        self.continuous, self.branches = trainer.behavior.continuous, trainer.behavior.discrete
        self.combinations = list(itertools.product(*(range(size) for size in self.branches)))
        self.rewards = len(trainer.providers)
        self.joint = len(self.combinations) <= actions.MAX_JOINT_OPTIONS
        self.generator = copy.deepcopy(trainer.generator)
        self.p = {name: tensor.double() for name, tensor in trainer.model.state_dict().items()}
        self.moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in self.p.items()}
        self.steps = 0

    def network(self, body: str, head: str, x: Tensor) -> Tensor:
        x = silu(linear(x, self.p[f"{body}.layers.0.weight"], self.p[f"{body}.layers.0.bias"]))
        return linear(x, self.p[f"{head}.weight"], self.p[f"{head}.bias"])

    def columns(self, critic: str, x: Tensor, action: Tensor | None) -> Tensor:
        """[B, R, columns]"""
        x = x if action is None else torch.cat([x, action], dim=1)
        return self.network(f"{critic}.body", f"{critic}.head", x).reshape(ROWS, self.rewards, -1)

    def of_combinations(self, columns: Tensor) -> Tensor:
        """[..., columns] to [..., combinations]: a column each, or the mean over branches."""
        if self.joint:
            assert columns.shape[-1] == len(self.combinations)
            return columns
        starts = [sum(self.branches[:k]) for k in range(len(self.branches))]
        values = []
        for combination in self.combinations:
            parts = [columns[..., start + option] for start, option in zip(starts, combination, strict=True)]
            values.append(sum(parts) / len(parts))
        return torch.stack(values, dim=-1)  # type: ignore[arg-type]

    def policy(
        self, x: Tensor, mask: Tensor | None, noise: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, list[Categorical], Tensor]:
        """Action, its log-probability, a distribution for each branch, probabilities of combinations [B, J]."""
        output = self.network("actor", "policy_head.linear", x)
        action = log_prob = None
        if noise is not None:
            mean = output[:, : self.continuous]
            log_std = output[:, self.continuous : 2 * self.continuous]
            std = log_std.clamp(*LOG_STD_RANGE).exp()
            squash = TanhTransform(cache_size=1)
            action = squash(mean + std * noise)
            log_prob = TransformedDistribution(Normal(mean, std), [squash]).log_prob(action).sum(1)
        logits = output[:, 2 * self.continuous :]
        if mask is not None:
            logits = logits.masked_fill(~mask, -1e30)
        branches = [Categorical(logits=part) for part in logits.split(self.branches, dim=1)] if self.branches else []
        probabilities = []
        for combination in self.combinations:  # one empty combination where there is no branch
            parts = [branch.probs[:, option] for branch, option in zip(branches, combination, strict=True)]
            probabilities.append(torch.stack([torch.ones(ROWS, dtype=torch.float64), *parts]).prod(0))
        return action, log_prob, branches, torch.stack(probabilities, dim=1)

    def bonus(self, log_prob: Tensor | None, branches: list[Categorical]) -> Tensor:
        temperatures = list(self.p["log_temperature"].detach().exp())
        total = torch.zeros(ROWS, dtype=torch.float64)
        if log_prob is not None:
            total = total - temperatures.pop(0) * log_prob
        for temperature, branch in zip(temperatures, branches, strict=True):
            total = total + temperature * branch.entropy()
        return total

    def adam(self, loss: Tensor, names: list[str]) -> None:
        steps = self.steps
        if names[0].startswith(("actor.", "log_temperature")):
            steps //= self.h.policy_delay
        for name, slope in zip(names, torch.autograd.grad(loss, [self.p[n] for n in names]), strict=True):
            mean, square = self.moments[name]
            mean.mul_(0.9).add_(0.1 * slope)
            square.mul_(0.999).add_(0.001 * slope**2)
            root = (square / (1 - 0.999**steps)).sqrt() + self.h.adam_epsilon
            step = self.h.learning_rate * (mean / (1 - 0.9**steps)) / root
            self.p[name] = self.p[name].detach() - step

    def learn(self, names: list[str]) -> None:
        for name in names:
            self.p[name] = self.p[name].detach().requires_grad_()

    def noise(self) -> Tensor | None:
        if not self.continuous:
            return None
        return torch.from_numpy(self.generator.standard_normal((ROWS, self.continuous), np.float32)).double()

    def soft_value(self, x: Tensor, mask: Tensor | None, noise: Tensor | None, critics: list[int]) -> Tensor:
        action, log_prob, branches, chance = self.policy(x, mask, noise)
        opinions = torch.stack([self.columns(f"targets.{k}", x, action) for k in critics])
        least = opinions.sum(2).argmin(0)  # [B, columns]
        lesser = opinions.gather(0, least[None, :, None].expand(1, *opinions.shape[1:]))[0]
        value = (self.of_combinations(lesser) * chance[:, None]).sum(2)
        return value + self.bonus(log_prob, branches)[:, None] / self.rewards

    def gradient_step(self, batch: TransitionBatch) -> tuple[dict[str, float], Tensor]:
        self.steps += 1
        x = batch.inputs[0].double()
        following = batch.next_inputs[0].double()
        noise = self.noise()
        noise_after = self.noise()
        in_targets = list(range(self.h.num_critics))
        if self.h.target_critics is not None:
            in_targets = self.generator.choice(self.h.num_critics, self.h.target_critics, replace=False).tolist()
        starts: dict[str, tuple[str, ...]] = {"policy": ("actor.", "policy_head.")}
        starts |= {str(k): (f"critics.{k}.",) for k in range(self.h.num_critics)}
        names = {part: [name for name in self.p if name.startswith(start)] for part, start in starts.items()}

        with torch.no_grad():
            soft = self.soft_value(following, batch.next_mask, noise_after, in_targets)
            if batch.after_ends is not None:  # of the second reward
                after = batch.after_ends
                goes_on = self.soft_value(after.inputs[0].double(), after.mask, noise_after, in_targets)
                soft = torch.stack([soft[:, 0], goes_on[:, 1]], dim=1)
            target = batch.reward + batch.discount * soft

        # The policy's gradient is of the critics as they were; theirs, of targets made by the policy as it was.
        moves_policy = self.steps % self.h.policy_delay == 0
        stats = {}
        if moves_policy:
            self.learn(names["policy"])
        action, log_prob, branches, chance = self.policy(x, batch.mask, noise)
        if moves_policy:
            sums = [self.columns(f"critics.{k}", x, action).sum(1) for k in range(self.h.num_critics)]
            opinions = torch.stack(sums)
            opinion = opinions.mean(0) if self.h.policy_value == "mean" else opinions.amin(0)
            expected = (self.of_combinations(opinion) * chance).sum(1)
            loss = -(expected + self.bonus(log_prob, branches)).mean()
            self.adam(loss, names["policy"])
            stats = {"Losses/Policy Loss": loss.item()}
        errors = []

        done = torch.zeros(ROWS, dtype=torch.int64)
        if batch.choices is not None:
            done = torch.tensor([self.combinations.index(tuple(row)) for row in batch.choices.tolist()])
        weight = torch.ones(ROWS) if batch.weight is None else batch.weight
        raw = None if batch.raw is None else batch.raw.double()
        for k in range(self.h.num_critics):
            self.learn(names[str(k)])
            values = self.of_combinations(self.columns(f"critics.{k}", x, raw))
            error = values[torch.arange(ROWS), :, done] - target
            self.adam(0.5 * (weight[:, None] * error**2).mean(), names[str(k)])
            stats[f"Losses/Q{k + 1} Loss"] = 0.5 * error.square().mean().item()
            errors.append(error.sum(1).abs().detach())
            if k == 0:
                means = (error + target).mean(0).tolist()
                stats |= dict(zip(("Policy/Extrinsic Value", "Policy/Learning Value"), means, strict=False))

        for name in [name for name in self.p if name.startswith("targets.")]:
            critic = self.p[name.replace("targets.", "critics.")]
            self.p[name] = (1 - self.h.tau) * self.p[name] + self.h.tau * critic

        size = torch.stack(errors).mean(0)
        if not moves_policy:
            return stats, size
        if self.h.learn_entcoef:
            self.learn_temperatures(batch, log_prob, branches)
        temperatures = self.p["log_temperature"].exp().tolist()
        entropies = [branch.entropy().mean().item() for branch in branches]
        if log_prob is not None:
            stats["Policy/Continuous Entropy Coeff"] = temperatures.pop(0)
            entropies.append(-log_prob.mean().item())
        if branches:
            stats["Policy/Discrete Entropy Coeff"] = sum(temperatures) / len(branches)
        return {**stats, "Policy/Entropy": sum(entropies)}, size

    def learn_temperatures(self, batch: TransitionBatch, log_prob: Tensor | None, branches: list[Categorical]) -> None:
        excess = []  # of entropy, over its target
        if log_prob is not None:
            excess.append((-log_prob - self.h.continuous_target_entropy * self.continuous).mean())
        allowed = torch.ones(ROWS, sum(self.branches)) if batch.mask is None else batch.mask.double()
        for branch, some in zip(branches, allowed.split(self.branches, dim=1) if branches else [], strict=True):
            excess.append((branch.entropy() - self.h.discrete_target_entropy * some.sum(1).log()).mean())
        self.learn(["log_temperature"])
        self.adam((self.p["log_temperature"] * torch.stack(excess).detach()).sum(), ["log_temperature"])


def check(trainer: SACTrainer, masked: bool, weighted: bool) -> None:
    before = trainer.state_dict()["model"]
    plain = Plain(trainer)
    for seed in range(3):  # so that moments, targets and the order of things count
        batch = random_batch(trainer, weighted, seed, masked)
        ours, (stats, errors) = trainer.gradient_step(batch), plain.gradient_step(batch)
        trainer.gradient_steps += 1  # as the template counts
        assert (ours.td_error is not None) == weighted, "only prioritized replay needs it"
        if ours.td_error is not None:
            torch.testing.assert_close(ours.td_error.double(), errors, rtol=1e-4, atol=1e-4)
        assert ("Losses/Policy Loss" in ours.stats) == ("Losses/Policy Loss" in stats)
        for tag, value in stats.items():
            assert ours.stats[tag].item() == pytest.approx(value, rel=1e-4, abs=1e-4), tag
    for name, array in trainer.state_dict()["model"].items():
        np.testing.assert_allclose(array, plain.p[name].detach(), rtol=0, atol=3e-5, err_msg=name)
        if name != "log_temperature" or trainer.hyperparameters.learn_entcoef:
            assert np.abs(array - before[name]).max() > 3e-3, f"{name} hardly moved"


@pytest.mark.parametrize("rewards", [1, 2])
@pytest.mark.parametrize("special", ["", "masked", "weighted", "masked and weighted"])
@pytest.mark.parametrize("space", SPACES)
def test_three_gradient_steps_are_those_of_a_plain_implementation(
    make_trainer: MakeTrainer, space: str, special: str, rewards: int
) -> None:
    check(made(make_trainer, space, rewards), "masked" in special, "weighted" in special)


@pytest.mark.parametrize("rewards", [1, 2])
@pytest.mark.parametrize("space", ["multi-branch", "hybrid, multi-branch"])
def test_with_many_combinations_each_option_has_a_value(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, space: str, rewards: int
) -> None:
    monkeypatch.setattr(actions, "MAX_JOINT_OPTIONS", 5)
    trainer = made(make_trainer, space, rewards)
    assert trainer.model.options.columns == sum(SPACES[space][1])
    check(trainer, masked=True, weighted=True)


OTHERS: dict[str, dict[str, Any]] = {
    "one": {"num_critics": 1},
    "five": {"num_critics": 5},
    "mean": {"num_critics": 3, "policy_value": "mean"},
    "delay": {"policy_delay": 2},
    "two of five in targets": {"num_critics": 5, "target_critics": 2},
    "all": {"num_critics": 4, "target_critics": 3, "policy_value": "mean", "policy_delay": 3},
}


@pytest.mark.parametrize("special", ["", "weighted"])
@pytest.mark.parametrize("rewards", [1, 2])
@pytest.mark.parametrize("other", OTHERS)
def test_other_critics_and_a_policy_that_moves_less_often_are_those_of_a_plain_implementation(
    make_trainer: MakeTrainer, other: str, rewards: int, special: str
) -> None:
    trainer = made(make_trainer, "hybrid, multi-branch", rewards, **OTHERS[other])
    check(trainer, masked=False, weighted=bool(special))


@pytest.mark.parametrize("space", ["continuous", "hybrid, multi-branch"])
def test_a_fixed_temperature_stays(make_trainer: MakeTrainer, space: str) -> None:
    trainer = made(make_trainer, space, learn_entcoef=False)
    before = trainer.model.log_temperature.clone()
    check(trainer, masked=False, weighted=False)
    assert before.equal(trainer.model.log_temperature)


# ---------------------------------------------------------------- what else a gradient step promises


def test_each_gradient_step_draws_the_critics_of_its_targets(make_trainer: MakeTrainer) -> None:
    trainer = made(make_trainer, "continuous", num_critics=4, target_critics=2)
    batch = random_batch(trainer, False, 0, False)
    drawn = [trainer.step_noise(batch).target_critics for _ in range(200)]
    assert all(len(set(pair)) == 2 for pair in drawn)
    counts = np.bincount(np.concatenate(drawn), minlength=4)
    assert len(counts) == 4 and counts.min() > 70, "each critic is in half of the pairs"


def test_the_targets_start_as_the_critics_and_take_no_gradient(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer(IdentityEnvironment(2, continuous=2, discrete=(3,)))
    state = trainer.state_dict()["model"]
    pairs = [(name, name.replace("targets.", "critics.")) for name in state if name.startswith("targets.")]
    assert len(pairs) == 8
    for target, critic in pairs:
        np.testing.assert_array_equal(state[target], state[critic])
    assert not np.array_equal(state["critics.0.head.weight"], state["critics.1.head.weight"]), "twins that differ"
    assert not any(parameter.requires_grad for parameter in trainer.model.targets.parameters())


def test_a_distribution_that_does_not_know_how_likely_its_draws_are_is_refused(make_trainer: MakeTrainer) -> None:
    told = r"'gaussian' does not give the log-probability of its draws.*'sac' needs; choose squashed_gaussian or "
    with pytest.raises(ConfigError, match=told):
        make_trainer(IdentityEnvironment(2, continuous=1), network={"action_distribution": "gaussian"})
