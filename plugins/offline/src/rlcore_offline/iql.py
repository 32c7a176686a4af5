"""Implicit Q-Learning (Kostrikov, Nair and Levine 2021, arXiv:2110.06169); one gradient step, in reading order.

The value of a state is an upper expectile of the values of the actions recorded there, so an action that was never
recorded is never evaluated. The policy imitates recorded actions, better ones more.
:class:`rlcore_torch.OfflineTrainer` reads the data.

With several reward providers each has a value of its own, with its own discount. Which critic is the smaller, whether
an action is better than its state, and by how much, are decided by their sums, so the values of the parts belong to
one policy. The README of rlcore-offline lists the differences from the authors' code.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from rlcore import BehaviorSpec
from rlcore_offline.likelihood import Imitation
from rlcore_offline.settings import IQLSettings
from rlcore_torch import (
    ActionBatch,
    ActionLayout,
    Actor,
    Critic,
    DiscreteOptions,
    GradientStep,
    NetworkSettings,
    OfflineTrainer,
    Optimizer,
    TransitionBatch,
    min_q,
)


class ImplicitActorCritic(Actor):
    """The policy, a value of states and two critics of actions, with a number for each of R rewards, and the critics'
    target networks.
    """

    def __init__(self, behavior: BehaviorSpec, settings: NetworkSettings, rewards: int) -> None:
        super().__init__(behavior, settings)
        layout = ActionLayout(behavior)
        self.options = DiscreteOptions(layout)
        self.rewards = rewards
        self.value = Critic(self.inputs, settings, rewards)
        outputs = rewards * self.options.columns
        self.critics = nn.ModuleList(Critic(self.inputs, settings, outputs, layout.continuous) for _ in range(2))
        self.targets = nn.ModuleList(copy.deepcopy(critic) for critic in self.critics)
        self.targets.requires_grad_(False)

    def q_values(self, critics: nn.ModuleList, batch: ActionBatch) -> list[Tensor]:
        """The value of the recorded actions, [B, R], by each of ``critics``."""
        shape = (-1, self.rewards, self.options.columns)
        return [self.options.chosen(critic(batch.inputs, batch.raw).view(shape), batch.choices) for critic in critics]


class IQLTrainer(OfflineTrainer):
    """IQL with twin critics, for continuous, discrete and hybrid actions."""

    hyperparameters: IQLSettings
    model: ImplicitActorCritic

    def build_model(self, value_heads: int) -> ImplicitActorCritic:
        return ImplicitActorCritic(self.behavior, self.settings.network_settings, value_heads)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        model = self.model
        return {
            "policy": self.make_optimizer([*model.actor.parameters(), *model.policy_head.parameters()]),
            "value": self.make_optimizer(model.value.parameters()),
            "critic_0": self.make_optimizer(model.critics[0].parameters()),
            "critic_1": self.make_optimizer(model.critics[1].parameters()),
        }

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        model = self.model
        h = self.hyperparameters
        with torch.no_grad():
            q = min_q(*model.q_values(model.targets, batch))  # [B, R] of the recorded actions

        # The value moves towards an upper expectile of the recorded actions' values (eq. 5).
        value_loss = expectile_loss(q - model.value(batch.inputs), h.expectile)
        self.descend(value_loss, batch, "value")

        # Recorded actions become likelier, each by the exponential of its advantage (eq. 7).
        with torch.no_grad():
            value = model.value(batch.inputs)  # [B, R]
            target_q = batch.reward + batch.discount * model.value(batch.next_inputs)  # [B, R]
            advantage = (q - value).sum(1)  # [B]
            weight = (h.inverse_temperature * advantage).exp().clamp(max=h.max_weight)
        imitation = Imitation.of(model, self.policy.layout, batch)
        policy_loss = -(weight * imitation.log_prob).mean()
        self.descend(policy_loss, batch, "policy")
        Imitation.limit_std(model)

        # The critics move towards reward and discounted value of what followed (eq. 6).
        q1_loss, q2_loss = (mse_loss(q, target_q) for q in model.q_values(model.critics, batch))
        self.descend(q1_loss + q2_loss, batch, "critic_0", "critic_1")
        with torch.no_grad():
            for slow, critic in zip(model.targets.parameters(), model.critics.parameters(), strict=True):
                slow.lerp_(critic, h.tau)

        return GradientStep(
            {
                "Losses/Policy Loss": policy_loss.detach(),
                "Losses/Value Loss": value_loss.detach(),
                "Losses/Q1 Loss": q1_loss.detach(),
                "Losses/Q2 Loss": q2_loss.detach(),
                "Policy/Advantage": advantage.mean(),
                **{
                    f"Policy/{name.capitalize()} Value": mean
                    for name, mean in zip(self.provider_names, value.mean(0), strict=True)
                },
                **imitation.statistics(self.policy.layout, batch),
            }
        )


def expectile_loss(gap: Tensor, expectile: float) -> Tensor:
    """Squared ``gap`` [B, R], weighted by ``expectile`` where its sum is positive and by 1 - ``expectile`` elsewhere.

    For one reward this is the paper's eq. 4: least where a share ``expectile`` of the gaps' absolute sum is positive.
    """
    below = gap.detach().sum(1, keepdim=True) < 0
    return (torch.where(below, 1.0 - expectile, expectile) * gap.square()).mean()
