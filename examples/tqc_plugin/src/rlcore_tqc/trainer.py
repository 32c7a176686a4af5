"""Truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269): SAC whose critics predict distributions.

Shapes: B transitions, R reward providers, N critics with M quantiles each, C continuous parts of an action in [-1, 1].
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec
from rlcore_torch import (
    Actor,
    Critic,
    GradientStep,
    Inputs,
    NetworkSettings,
    OffPolicyTrainer,
    Optimizer,
    SquashedGaussian,
    TransitionBatch,
    squashed_gaussian,
)
from rlcore_tqc.settings import TQCSettings


class TQCNetworks(Actor):
    """A policy, N critics with M quantiles of each of R returns, their targets, and the temperature of the entropy."""

    def __init__(self, behavior: BehaviorSpec, settings: NetworkSettings, rewards: int, h: TQCSettings) -> None:
        super().__init__(behavior, settings, SquashedGaussian(behavior))
        self.shape = (-1, rewards, h.num_quantiles)
        outputs = rewards * h.num_quantiles
        self.critics = nn.ModuleList(
            Critic(self.inputs, settings, outputs, behavior.continuous) for _ in range(h.num_critics)
        )
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = nn.Parameter(torch.zeros(()))

    def draw(self, inputs: Inputs, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions [B, C] and their log-probabilities [B]."""
        columns, _ = self.policy(inputs)
        assert columns is not None
        return squashed_gaussian(columns, noise)

    def quantiles(self, critics: nn.ModuleList, inputs: Inputs, action: Tensor | None, frozen: bool = False) -> Tensor:
        """Return [B, R, N, M]; with ``frozen`` only the action gets a gradient."""
        outputs = [critic(inputs, action, frozen).view(self.shape) for critic in critics]
        return torch.stack(outputs, dim=2)


class TQCTrainer(OffPolicyTrainer):
    """TQC for continuous actions."""

    soft_values = True
    hyperparameters: TQCSettings
    model: TQCNetworks

    def build_model(self, value_heads: int) -> TQCNetworks:
        settings = self.settings.network_settings
        return TQCNetworks(self.behavior, settings, value_heads, self.hyperparameters)

    def build_optimizers(self) -> dict[str, Optimizer]:
        model = self.model
        of_policy = [*model.actor.parameters(), *model.policy_head.parameters()]
        return {
            "policy": self.make_optimizer(of_policy),
            "critics": self.make_optimizer(model.critics.parameters()),
            "temperature": self.make_optimizer([model.log_temperature]),
        }

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        model = self.model
        target = self.target(batch)  # [B, R, kept]
        quantiles = model.quantiles(model.critics, batch.inputs, batch.raw)
        losses = quantile_huber(quantiles, target).sum(1)  # [B]
        if batch.weight is not None:  # of a replay sampler that does not draw uniformly
            losses = losses * batch.weight
        critic_loss = losses.mean()

        # The policy maximizes the mean of all quantiles of all critics, and its entropy.
        action, log_prob = model.draw(batch.inputs, self.noise_for(batch, batch.inputs))
        drawn = model.quantiles(model.critics, batch.inputs, action, frozen=True)
        value = drawn.mean((2, 3)).sum(1)  # [B]
        temperature = model.log_temperature.detach().exp()
        policy_loss = (temperature * log_prob - value).mean()

        # The temperature rises while the entropy is below its target.
        target_entropy = self.hyperparameters.target_entropy * self.behavior.continuous
        missing_entropy = (log_prob.detach() + target_entropy).mean()
        temperature_loss = -model.log_temperature * missing_entropy

        # One backward pass: no parameter is in two of the losses, since the critics are frozen for the policy's.
        loss = critic_loss + policy_loss + temperature_loss
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in self.optimizers.values():
            optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(model.targets.parameters(), model.critics.parameters(), strict=True):
                slow.lerp_(fast, self.hyperparameters.tau)
        stats = {
            "Losses/Critic Loss": critic_loss.detach(),
            "Losses/Policy Loss": policy_loss.detach(),
            "Policy/Entropy": -log_prob.detach().mean(),
            "Policy/Value": value.detach().mean(),
        }
        error = target.mean(2) - quantiles.detach().mean((2, 3))  # [B, R]
        return GradientStep(stats, td_error=error.sum(1))

    @torch.no_grad()
    def target(self, batch: TransitionBatch) -> Tensor:
        """The smallest quantiles of all target critics together (eq. 11), [B, R, N (M - dropped)]."""
        h = self.hyperparameters
        model = self.model
        rewards = len(self.providers)  # they share the entropy
        temperature = model.log_temperature.exp()

        action, log_prob = model.draw(batch.next_inputs, self.noise_for(batch, batch.next_inputs))
        quantiles = model.quantiles(model.targets, batch.next_inputs, action)
        pooled = quantiles.flatten(2).sort(2).values  # [B, R, N M]
        count = h.num_critics * (h.num_quantiles - h.dropped_quantiles)
        kept = pooled[:, :, :count]
        entropy_cost = temperature * log_prob / rewards  # [B]
        value = kept - entropy_cost.view(-1, 1, 1)

        reward = batch.reward
        steps = batch.between
        if steps is not None:  # the entropy of the steps between, with n_steps > 1
            _, log_prob = model.draw(steps.inputs, self.noise_for(batch, steps.inputs))
            bonus = -temperature * log_prob.view(len(steps.discount), -1, 1) / rewards
            reward = reward + (steps.discount * bonus).sum(0)
        return reward.unsqueeze(2) + batch.discount.unsqueeze(2) * value


def quantile_huber(quantiles: Tensor, target: Tensor) -> Tensor:
    """The loss [B, R] of quantiles [B, R, N, M] at the fractions (m - 1/2) / M towards samples [B, R, K] (eq. 13).

    The mean over samples, quantiles and critics (Dabney et al. 2018, arXiv:1710.10044, eq. 10).
    """
    count = quantiles.shape[3]
    fractions = (torch.arange(count, device=quantiles.device) + 0.5) / count  # [M]
    error = target[:, :, None, None, :] - quantiles.unsqueeze(4)  # [B, R, N, M, K]
    size = error.abs()
    huber = torch.where(size > 1.0, size - 0.5, 0.5 * size.square())
    weight = (fractions.unsqueeze(1) - (error.detach() < 0).float()).abs()
    return (weight * huber).mean((2, 3, 4))
