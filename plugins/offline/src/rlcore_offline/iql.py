"""Implicit Q-Learning (Kostrikov, Nair and Levine 2021, arXiv:2110.06169), in reading order.

What a state is worth is an upper expectile of what the recorded actions are worth there, so that no action which was
never recorded is ever judged. The policy imitates recorded actions, the better ones more. Reading the data and
bootstrapping are :class:`rlcore.torch.offline.OfflineTrainer`.

With several reward providers each has a value of its own, with its own discount. Which critic is the less favourable,
whether an action is better than its state, and by how much, are asked of their sums; so the values of the parts are
those of one policy.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlcore.torch.flat import FlatParameters
from rlcore.torch.minibatch_trainer import GradientStep
from rlcore.torch.networks import lesser
from rlcore.torch.offline import OfflineTrainer
from rlcore.torch.optimizer import Adam
from rlcore.torch.transition_batch import TransitionBatch
from rlcore_offline.imitation import Imitation
from rlcore_offline.networks import ImplicitActorCritic
from rlcore_offline.settings import IQLSettings


class IQLTrainer(OfflineTrainer):
    """IQL with twin critics, for continuous, discrete and hybrid actions."""

    hyperparameters: IQLSettings
    model: ImplicitActorCritic

    def build_model(self, value_heads: int) -> ImplicitActorCritic:
        return ImplicitActorCritic(self.behavior, self.settings.network_settings, value_heads)

    def build_optimizers(self) -> Mapping[str, Adam]:
        model = self.model
        self._targets = [FlatParameters(target.parameters()) for target in model.targets]
        self._critic_optimizers = [self.adam(critic.parameters()) for critic in model.critics]
        return {
            "policy": self.adam([*model.actor.parameters(), *model.policy_head.parameters()]),
            "value": self.adam(model.value.parameters()),
            "critic_0": self._critic_optimizers[0],
            "critic_1": self._critic_optimizers[1],
        }

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        # What was done is worth what the less favourable of the slow critics says.
        with torch.no_grad():
            worth = lesser(*(self.model.judged(target, batch) for target in self.model.targets))
        value_loss = self._learn_value(batch, worth)
        with torch.no_grad():
            value = self.model.value(batch.inputs)
            target = batch.reward + batch.discount * self.model.value(batch.next_inputs)
            advantage = (worth - value).sum(1)
        policy_loss, imitation = self._learn_policy(batch, advantage)
        critic_losses = [self._learn_critic(k, batch, target) for k in (0, 1)]
        self._follow_critics()
        return GradientStep(
            {
                "Losses/Policy Loss": policy_loss,
                "Losses/Value Loss": value_loss,
                "Losses/Q1 Loss": critic_losses[0],
                "Losses/Q2 Loss": critic_losses[1],
                "Policy/Advantage": advantage.mean(),
                **{
                    f"Policy/{name.capitalize()} Value": mean
                    for name, mean in zip(self.provider_names, value.mean(0), strict=True)
                },
                **imitation.statistics(self.policy.layout, batch),
            }
        )

    # ------------------------------------------------------------ the parts of a gradient step

    def _learn_value(self, batch: TransitionBatch, worth: Tensor) -> Tensor:
        """The value moves towards the expectile of what the recorded actions are worth (eq. 5)."""
        gap = worth - self.model.value(batch.inputs)  # [B, R]
        loss = expectile_loss(gap, self.hyperparameters.expectile)
        step_down(self.optimizers["value"], loss)
        return loss.detach()

    def _learn_policy(self, batch: TransitionBatch, advantage: Tensor) -> tuple[Tensor, Imitation]:
        """Recorded actions become likelier, each by the exponential of its advantage (eq. 7)."""
        h = self.hyperparameters
        weight = (h.inverse_temperature * advantage).exp().clamp(max=h.max_weight)
        imitation = Imitation.of(self.model, self.policy.layout, batch)
        loss = -(weight * imitation.log_prob).mean()
        step_down(self.optimizers["policy"], loss)
        return loss.detach(), imitation

    def _learn_critic(self, k: int, batch: TransitionBatch, target: Tensor) -> Tensor:
        """A critic moves towards reward and discounted value of what followed (eq. 6)."""
        loss = (self.model.judged(self.model.critics[k], batch) - target).square().mean()
        step_down(self._critic_optimizers[k], loss)
        return loss.detach()

    @torch.no_grad()
    def _follow_critics(self) -> None:
        """Target critics take in a share ``tau`` of the critics."""
        for target, optimizer in zip(self._targets, self._critic_optimizers, strict=True):
            target.parameter.lerp_(optimizer.flat.parameter, self.hyperparameters.tau)


def expectile_loss(gap: Tensor, expectile: float) -> Tensor:
    """Squared ``gap`` [B, R], weighted by ``expectile`` where its sum is positive and by 1 - ``expectile`` elsewhere.

    For one reward this is the paper's eq. 4: least where a share ``expectile`` of the gaps' absolute sum is positive.
    """
    below = gap.detach().sum(1, keepdim=True) < 0
    return (torch.where(below, 1.0 - expectile, expectile) * gap.square()).mean()


def step_down(optimizer: Adam, loss: Tensor) -> None:
    optimizer.flat.zero_gradient()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
