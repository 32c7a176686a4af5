"""Soft Actor-Critic (Haarnoja et al. 2018, arXiv:1812.05905) for continuous, discrete and hybrid actions.

Storing, sampling, bootstrapping and the ratio of gradient steps to agent steps are
:class:`rlcore.torch.off_policy.OffPolicyTrainer`; one gradient step is below, in reading order. Discrete branches enter
by exact expectations over their options (Christodoulou 2019, arXiv:1910.07207), so that only continuous parts are
drawn.

With several reward providers each has a value of its own, with its own discount. The policy maximises their sum, the
less favourable critic is the one whose sum is smaller, and every value carries an equal share of the entropy bonus, so
that their sum is the soft value.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import attrs
import numpy as np
import torch
from torch import Tensor

from rlcore import RunContext
from rlcore.config import BehaviorSettings
from rlcore.environment import BehaviorSpec
from rlcore.torch.flat import FlatParameters
from rlcore.torch.minibatch_trainer import GradientStep
from rlcore.torch.networks import Inputs
from rlcore.torch.off_policy import OffPolicyTrainer
from rlcore.torch.optimizer import Adam
from rlcore.torch.parallel import Pair
from rlcore.torch.transition_batch import TransitionBatch
from rlcore_sac.networks import PolicyDraw, SoftActorCritic
from rlcore_sac.settings import SACSettings


@attrs.define(eq=False)
class CriticStep:
    """What came of one critic's gradient step."""

    value: Tensor  # [B, R] of what was done, before the step
    error: Tensor  # [B, R] of that
    opinion: Tensor  # [B, R, columns] of what the policy does now, after the step
    action: Tensor | None  # [B, continuous] the leaf that ``opinion`` has a gradient for


class SACTrainer(OffPolicyTrainer):
    """SAC with twin critics and a learned temperature for the continuous parts and for each discrete branch."""

    hyperparameters: SACSettings
    model: SoftActorCritic

    def __init__(self, behavior: BehaviorSpec, settings: BehaviorSettings, run: RunContext) -> None:
        super().__init__(behavior, settings, run)
        self._pair = Pair(self.device)  # for the two critics, which share nothing
        h, layout = self.hyperparameters, self.policy.layout
        self._continuous_target = h.continuous_target_entropy * layout.continuous  # nats
        self._options = torch.tensor([float(size) for size in layout.branches], device=self.device)  # [branches]

    def build_model(self, value_heads: int) -> SoftActorCritic:
        return SoftActorCritic(
            self.behavior, self.settings.network_settings, value_heads, self.hyperparameters.init_entcoef
        )

    def build_optimizers(self) -> Mapping[str, Adam]:
        model = self.model
        self._targets = [FlatParameters(target.parameters()) for target in model.targets]
        self._critic_optimizers = [self.adam(critic.parameters()) for critic in model.critics]
        return {
            "policy": self.adam([*model.actor.parameters(), *model.policy_head.parameters()]),
            "critic_0": self._critic_optimizers[0],
            "critic_1": self._critic_optimizers[1],
            "temperature": self.adam([model.log_temperature]),
        }

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        both = self._pair.run
        # What the policy does now, at both ends of the transitions.
        now, after = both(
            partial(self._draw, batch.inputs, batch.mask, self._noise_like(batch.raw), True),
            partial(self._draw, batch.next_inputs, batch.next_mask, self._noise_like(batch.raw), False),
        )
        # Each critic learns the soft value of what followed (eq. 5 and 6), then judges what the policy does.
        target = self._target(batch, after, *both(*(partial(self._slow_values, k, batch, after) for k in (0, 1))))
        critics = both(*(partial(self._learn_critic, k, batch, target, now.action) for k in (0, 1)))
        # The policy moves towards what the less favourable critic values, and towards entropy (eq. 7).
        policy_loss = self._policy_loss(now, critics)
        both(partial(self._learn_policy, policy_loss), self._follow_critics)
        self._learn_temperature(now, batch.mask)
        return GradientStep(self._statistics(now, critics, policy_loss), self._td_error(critics))

    # ------------------------------------------------------------ the parts of a gradient step

    def _draw(self, inputs: Inputs, mask: Tensor | None, noise: Tensor | None, differentiable: bool) -> PolicyDraw:
        with torch.set_grad_enabled(differentiable):
            return self.model.draw(inputs, mask, noise)

    def _noise_like(self, raw: Tensor | None) -> Tensor | None:
        if raw is None:
            return None
        noise = self.generator.standard_normal(tuple(raw.shape), dtype=np.float32)
        return torch.from_numpy(noise).to(self.device)

    @torch.no_grad()
    def _slow_values(self, k: int, batch: TransitionBatch, after: PolicyDraw) -> Tensor:
        """[B, R, columns] of one target critic at the end of the transitions."""
        return self.model.values(self.model.targets[k], batch.next_inputs, after.action)

    @torch.no_grad()
    def _target(self, batch: TransitionBatch, after: PolicyDraw, one: Tensor, two: Tensor) -> Tensor:
        """[B, R]: rewards, and the discounted soft value of what the policy does after them."""
        lesser = torch.where(one.sum(1, keepdim=True) <= two.sum(1, keepdim=True), one, two)
        weights = self.model.options.weights(after.probabilities)
        value = lesser.squeeze(2) if weights is None else (lesser * weights.unsqueeze(1)).sum(2)
        bonus = self.model.entropy_bonus(after) / len(self.providers)
        return batch.reward + batch.discount * (value + bonus.unsqueeze(1))

    def _learn_critic(self, k: int, batch: TransitionBatch, target: Tensor, action: Tensor | None) -> CriticStep:
        """One step down half the squared error; runs beside the other critic's."""
        model, critic, optimizer = self.model, self.model.critics[k], self._critic_optimizers[k]
        with torch.enable_grad():
            value = model.options.chosen(model.values(critic, batch.inputs, batch.raw), batch.choices)
            error = value.detach() - target
            slope = error / error.numel()
            if batch.weight is not None:
                slope = slope * batch.weight.unsqueeze(1)
            optimizer.flat.zero_gradient()
            value.backward(slope)  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.set_grad_enabled(action is not None):
            leaf = None if action is None else action.detach().requires_grad_()
            opinion = model.values(critic, batch.inputs, leaf, frozen=True)
        return CriticStep(value.detach(), error, opinion, leaf)

    def _policy_loss(self, now: PolicyDraw, critics: tuple[CriticStep, CriticStep]) -> Tensor:
        """Minus the soft value of what the policy does, differentiable in the policy's parameters."""
        one, two = (critic.opinion.detach().sum(1) for critic in critics)  # [B, columns]
        first = one <= two
        weights = self.model.options.weights(now.probabilities)
        value = torch.minimum(one, two)
        expected = value.squeeze(1) if weights is None else (value * weights).sum(1)
        if now.action is not None:
            share = torch.ones_like(one) if weights is None else weights.detach()
            slopes = self._pair.run(
                partial(slope_at, critics[0], share * first), partial(slope_at, critics[1], share * ~first)
            )
            # Adds nothing to the value; its gradient is that of the critics by way of the action.
            expected = expected + ((slopes[0] + slopes[1]) * (now.action - now.action.detach())).sum(1)
        return -(expected + self.model.entropy_bonus(now)).mean()

    def _learn_policy(self, loss: Tensor) -> None:
        optimizer = self.optimizers["policy"]
        optimizer.flat.zero_gradient()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    @torch.no_grad()
    def _follow_critics(self) -> None:
        """Target critics take in a share ``tau`` of the critics."""
        for target, optimizer in zip(self._targets, self._critic_optimizers, strict=True):
            target.parameter.lerp_(optimizer.flat.parameter, self.hyperparameters.tau)

    @torch.no_grad()
    def _learn_temperature(self, now: PolicyDraw, mask: Tensor | None) -> None:
        """Temperatures rise while entropy is below its target (eq. 17, with the logarithm as the parameter)."""
        if not self.hyperparameters.learn_entcoef:
            return
        excess = []
        if now.log_prob is not None:
            excess.append((-now.log_prob.mean() - self._continuous_target).unsqueeze(0))
        if now.entropies is not None:
            options = self._options
            if mask is not None:
                options = torch.stack([part.sum(1) for part in self.model.options.branches(mask)], dim=1)
            target = self.hyperparameters.discrete_target_entropy * options.log()
            excess.append((now.entropies - target).mean(0))
        optimizer = self.optimizers["temperature"]
        optimizer.flat.gradient.copy_(torch.cat(excess))
        optimizer.step()

    # ------------------------------------------------------------ what is reported

    @torch.no_grad()
    def _statistics(
        self, now: PolicyDraw, critics: tuple[CriticStep, CriticStep], policy_loss: Tensor
    ) -> dict[str, Tensor]:
        stats = {
            "Losses/Policy Loss": policy_loss.detach(),
            "Losses/Q1 Loss": 0.5 * critics[0].error.square().mean(),
            "Losses/Q2 Loss": 0.5 * critics[1].error.square().mean(),
        }
        values = critics[0].value.mean(0)
        for k, name in enumerate(self.provider_names):
            stats[f"Policy/{name.capitalize()} Value"] = values[k]
        temperature = self.model.log_temperature.detach().exp()
        if now.log_prob is not None:
            stats["Policy/Entropy"] = -now.log_prob.mean()
            stats["Policy/Continuous Entropy Coeff"] = temperature[0]
        if now.entropies is not None:
            entropy = now.entropies.sum(1).mean()
            stats["Policy/Entropy"] = entropy + stats.get("Policy/Entropy", 0.0)
            stats["Policy/Discrete Entropy Coeff"] = temperature[-len(self.policy.layout.branches) :].mean()
        return stats

    def _td_error(self, critics: tuple[CriticStep, CriticStep]) -> Tensor:
        """[B]: the mean over both critics of the error of the sum of values."""
        return 0.5 * (critics[0].error.sum(1).abs() + critics[1].error.sum(1).abs())


def slope_at(critic: CriticStep, share: Tensor) -> Tensor:
    """[B, continuous]: the gradient, by the action, of the critic's values times ``share`` [B, columns]."""
    assert critic.action is not None
    (slope,) = torch.autograd.grad(critic.opinion, critic.action, share.unsqueeze(1).expand_as(critic.opinion))
    return slope
