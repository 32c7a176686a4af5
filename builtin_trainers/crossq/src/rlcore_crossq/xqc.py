"""XQC (Palenicek et al. 2026, arXiv:2509.25174) for continuous actions: CrossQ with critics that predict distributions.

Three things are added to :mod:`rlcore_crossq.trainer`, which has the policy's loss, the temperature's and all else. A
critic predicts the probabilities of atoms, and learns them by cross-entropy. The weights of every unit have norm 1, so
that normalization over minibatches does not let them grow and their steps shrink. Target critics follow the critics.

This file has the update, from top to bottom; ``networks.py`` has the networks. Which statistics a network normalizes
with depends on the call:

=========================================  ===========================================
the policy's actions a' for targets        running
the target critics                         those of all 2 B rows; running ones unread
the critics' losses                        those of all 2 B rows
the policy's actions a in its own loss     those of the B rows, in every gradient step
the critics in the policy's loss           running
acting, evaluation, export, imitation      running
=========================================  ===========================================

Shapes: as there, with K atoms of each value.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlcore import BehaviorSettings, BehaviorSpec, RunContext
from rlcore_crossq.networks import CategoricalCritics, PolicyDraw, StateActions, project_units
from rlcore_crossq.settings import XQCSettings
from rlcore_crossq.trainer import CriticLoss, CrossQTrainer
from rlcore_torch import GradientStep, StepNoise, TransitionBatch, function_of_tensors


class XQCTrainer(CrossQTrainer):
    """XQC with two critics and a learned temperature."""

    hyperparameters: XQCSettings
    model: CategoricalCritics

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        model = self.model
        self._targets = list(zip(model.targets.parameters(), model.critics.parameters(), strict=True))

    # ------------------------------------------------------------ the update

    @function_of_tensors()
    def learn(self, batch: TransitionBatch, noise: StepNoise, moves_policy: bool) -> GradientStep:
        """Move the critics, then their targets; with ``moves_policy``, then the policy and the temperature.

        The policy sees the minibatch in every gradient step: its running statistics follow also where it stays. A
        function of tensors, as in CrossQ.
        """
        critic_loss = self.critic_loss(batch, noise)
        self.descend(critic_loss.total, batch, "critics")  # then `after_step`, as of every optimizer
        self.move_targets()
        stats = self.statistics(critic_loss)
        if moves_policy:
            stats |= self.learn_policy(batch, noise.here)
        else:
            with torch.no_grad():
                self.model.policy(batch.inputs, batch_statistics=True)
        return GradientStep(stats, critic_loss.td_error)

    def after_step(self, name: str) -> None:
        """Give the weights of every unit that the optimizer moved the norm 1."""
        model = self.model
        if name == "critics":
            project_units(model.critics)
        elif name == "policy":
            project_units(model.actor)
            project_units(model.policy_head)

    @torch.no_grad()
    def move_targets(self) -> None:
        """Let the parameters of the targets move a share tau of the way to the critics; running statistics stay."""
        for target, critic in self._targets:
            target.lerp_(critic, self.hyperparameters.tau)

    # ------------------------------------------------------------ the critics' loss

    def critic_loss(self, batch: TransitionBatch, noise: StepNoise) -> CriticLoss:
        """The cross-entropy of each critic's probabilities with those of the target."""
        model = self.model
        rows, drawn = self.joint_rows(batch, noise.next)
        target = self.target(batch, rows, drawn, noise.between)
        logits, *_ = model.joint_logits(model.critics, rows)  # [2, B, R, K]
        losses, divergence = model.returns.losses(logits, target)  # [2, B, R]
        of_critics = losses.mean((1, 2))
        q_losses = tuple(of_critics.detach())
        q_values = model.returns.expected(logits[0].detach())
        if batch.weight is None:
            return CriticLoss(of_critics.sum(), q_losses, q_values)
        weighted = batch.weight * losses.mean(2)  # [2, B]
        return CriticLoss(weighted.mean(1).sum(), q_losses, q_values, divergence.sum(2).mean(0))

    @torch.no_grad()
    def target(
        self, batch: TransitionBatch, rows: Sequence[StateActions], drawn: Sequence[PolicyDraw], noise: Tensor | None
    ) -> Tensor:
        """The probabilities [B, R, K] of reward + discount * (return + entropy bonus), projected to the atoms.

        The return is that of the target critic that expects less, in each row.
        """
        returns = self.model.returns
        _, *following = self.model.joint_logits(self.model.targets, rows)
        least = [returns.least_expected(logits) for logits in following]  # each [B, R, K]
        bonuses = [self.entropy_bonus(draw) for draw in drawn]  # each [B, 1]
        next_logits = least[0]
        bonus = bonuses[0]
        if batch.after_ends is not None:
            ignores_done = batch.after_ends.ignores_done  # [R]
            next_logits = torch.where(ignores_done.unsqueeze(1), least[1], next_logits)
            bonus = torch.where(ignores_done, bonuses[1], bonus)
        reward = batch.reward
        if batch.between is not None:
            reward = reward + self.bonus_between(batch, noise)
        return returns.target(next_logits.softmax(-1), reward, batch.discount, bonus)

    # ------------------------------------------------------------ networks

    def build_model(self, value_heads: int) -> CategoricalCritics:
        return CategoricalCritics(self.behavior, self.settings.network_settings, value_heads, self.hyperparameters)
