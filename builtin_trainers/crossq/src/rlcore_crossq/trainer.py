"""CrossQ (Bhatt et al. 2024, arXiv:1902.05605, figure 2) for continuous actions: SAC without target networks.

:class:`rlcore_torch.OffPolicyTrainer` stores transitions and has the parts of an update; the docstring of its module
names their files. This file has the update, from top to bottom; ``networks.py`` has the networks.

The critics see (s, a) and (s', a') in one forward pass, so that batch normalization mixes both, and their values of
(s', a') are the targets. Which statistics a network normalizes with depends on the call:

=========================================  ============================
the policy's actions a' for targets        running
the critics' losses, and their targets     those of all 2 B rows
the policy's actions a in its own loss     those of the B rows
the critics in the policy's loss           running
acting, evaluation, export, imitation      running
=========================================  ============================

Each of the R reward providers has its own value and its own discount, and its value contains 1/R of the entropy bonus,
as in :mod:`rlcore_sac.trainer`. Rewards with ``ignore_done`` add the first observations of the next episodes to the
forward pass, and ``n_steps`` above 1 the bonus of every step in between; the paper has neither.

Shapes: B transitions, R reward providers, C continuous parts of an action, in the policy's range [-1, 1].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from rlcore_crossq.networks import PolicyDraw, SoftActorCritics, StateActions
from rlcore_crossq.settings import CrossQSettings
from rlcore_torch import (
    GradientStep,
    Inputs,
    OffPolicyTrainer,
    Optimizer,
    StepNoise,
    TransitionBatch,
    function_of_tensors,
    min_q,
)

BETA2 = 0.999  # of Adam, the authors' and PyTorch's


class CrossQTrainer(OffPolicyTrainer):
    """CrossQ with two critics and a learned temperature."""

    soft_values = True
    hyperparameters: CrossQSettings
    model: SoftActorCritics

    # ------------------------------------------------------------ the update

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        """Learn from one minibatch: the critics, and once in ``policy_delay`` times the policy and the temperature."""
        number = self.gradient_steps + 1  # the template counts a step when it is done
        moves_policy = number % self.hyperparameters.policy_delay == 0
        return self.learn(batch, self.step_noise(batch), moves_policy)

    @function_of_tensors()
    def learn(self, batch: TransitionBatch, noise: StepNoise, moves_policy: bool) -> GradientStep:
        """Move the critics; with ``moves_policy``, then the policy and the temperature.

        A function of tensors: nothing in it depends on their values or waits for a device, so it can be captured in a
        CUDA graph.
        """
        critic_loss = self.critic_loss(batch, noise)
        self.descend(critic_loss.total, batch, "critics")
        stats = self.statistics(critic_loss)
        if moves_policy:
            stats |= self.learn_policy(batch, noise.here)
        return GradientStep(stats, critic_loss.td_error)

    def learn_policy(self, batch: TransitionBatch, noise: Tensor) -> dict[str, Tensor]:
        """Move the policy, then the temperature; return their statistics."""
        drawn, policy_loss = self.policy_loss(batch, noise)
        self.descend(policy_loss, batch, "policy")
        self.descend(self.temperature_loss(drawn), batch, "temperature")
        return {"Losses/Policy Loss": policy_loss.detach(), "Policy/Entropy": -drawn.log_prob.detach().mean()}

    # ------------------------------------------------------------ the losses

    def critic_loss(self, batch: TransitionBatch, noise: StepNoise) -> CriticLoss:
        """Half the squared difference between each critic and the target: reward + discount * soft value."""
        parts, drawn = self.joint_rows(batch, noise.next)
        (q1, *following1), (q2, *following2) = self.model.joint_values(self.model.critics, parts)
        with torch.no_grad():
            soft_values = []
            for one, two, draw in zip(following1, following2, drawn, strict=True):
                soft_values.append(min_q(one, two) + self.entropy_bonus(draw))
            target_q = self._target(batch, soft_values, noise.between)

        q1_loss = 0.5 * mse_loss(q1, target_q)
        q2_loss = 0.5 * mse_loss(q2, target_q)
        losses = q1_loss.detach(), q2_loss.detach()
        if batch.weight is None:
            return CriticLoss(q1_loss + q2_loss, losses, q1.detach())
        error1 = q1 - target_q
        error2 = q2 - target_q
        squares = error1.square() + error2.square()
        total = 0.5 * (batch.weight.unsqueeze(1) * squares).mean()
        size1 = error1.detach().sum(1).abs()
        size2 = error2.detach().sum(1).abs()
        return CriticLoss(total, losses, q1.detach(), 0.5 * (size1 + size2))

    def joint_rows(self, batch: TransitionBatch, noise: Tensor) -> tuple[list[StateActions], list[PolicyDraw]]:
        """Return what passes through the critics together, and the policy's draws among it.

        Those are (s, a), then (s', a') with a drawn a', and then the first steps of next episodes where the batch has
        them, for rewards with ``ignore_done``.
        """
        assert batch.raw is not None
        ends: list[Inputs] = [batch.next_inputs]
        if batch.after_ends is not None:
            ends.append(batch.after_ends.inputs)
        with torch.no_grad():
            drawn = [self.model.draw(inputs, noise) for inputs in ends]
        parts = [(batch.inputs, batch.raw)]
        for inputs, draw in zip(ends, drawn, strict=True):
            parts.append((inputs, draw.action))
        return parts, drawn

    def _target(self, batch: TransitionBatch, soft_values: Sequence[Tensor], noise: Tensor | None) -> Tensor:
        """The targets [B, R], from the soft values [B, R] of the ends of the stretches, and of what follows these."""
        next_value = soft_values[0]
        if batch.after_ends is not None:
            next_value = torch.where(batch.after_ends.ignores_done, soft_values[1], next_value)
        target_q = batch.reward + batch.discount * next_value
        if batch.between is not None:
            target_q = target_q + self.bonus_between(batch, noise)
        return target_q

    def bonus_between(self, batch: TransitionBatch, noise: Tensor | None) -> Tensor:
        """[B, R]: what each step of a stretch between its ends earned for its entropy, discounted to the first."""
        steps = batch.between
        assert steps is not None and noise is not None
        bonus = self.entropy_bonus(self.model.draw(steps.inputs, noise))
        of_steps = bonus.view(len(steps.discount), -1, 1)  # [n - 1, B, 1]
        return (steps.discount * of_steps).sum(0)

    def entropy_bonus(self, drawn: PolicyDraw) -> Tensor:
        """The part [B, 1] of each value in minus the log-probability of an action, times the temperature."""
        bonus = -self.model.temperature * drawn.log_prob
        return bonus.unsqueeze(1) / len(self.providers)

    def policy_loss(self, batch: TransitionBatch, noise: Tensor) -> tuple[PolicyDraw, Tensor]:
        """Minus the smaller critic's value of the policy's actions, minus the entropy bonus."""
        model = self.model
        drawn = model.draw(batch.inputs, noise, batch_statistics=True)
        value = min_q(*model.values(batch.inputs, drawn.action)).sum(1)  # [B]
        return drawn, (model.temperature * drawn.log_prob - value).mean()

    def temperature_loss(self, drawn: PolicyDraw) -> Tensor:
        """Raise the temperature while the entropy is below its target; linear in the temperature, as in the code."""
        target_entropy = self.hyperparameters.target_entropy * self.behavior.continuous  # nats
        excess = -drawn.log_prob.detach() - target_entropy
        return self.model.log_temperature.exp() * excess.mean()

    # ------------------------------------------------------------ networks, optimizers and statistics

    def build_model(self, value_heads: int) -> SoftActorCritics:
        network = self.settings.network_settings
        return SoftActorCritics(self.behavior, network, value_heads, self.hyperparameters.init_entcoef)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        model = self.model
        h = self.hyperparameters
        betas = h.beta1, BETA2
        of_policy = [*model.actor.parameters(), *model.policy_head.parameters()]
        return {
            "policy": self.make_optimizer(of_policy, betas=betas),
            "critics": self.make_optimizer(model.critics.parameters(), h.critic_learning_rate, betas=betas),
            "temperature": self.make_optimizer([model.log_temperature], h.temperature_learning_rate),
        }

    @torch.no_grad()
    def statistics(self, critic_loss: CriticLoss) -> dict[str, Tensor]:
        stats = {f"Losses/Q{k} Loss": loss for k, loss in enumerate(critic_loss.q_losses, start=1)}
        for name, value in zip(self.provider_names, critic_loss.q_values.mean(0), strict=True):
            stats[f"Policy/{name.capitalize()} Value"] = value
        stats["Policy/Continuous Entropy Coeff"] = self.model.temperature
        return stats


@attrs.define(eq=False)
class CriticLoss:
    """The loss of both critics, with the tensors that statistics and replay priorities need."""

    total: Tensor
    q_losses: Sequence[Tensor]  # of each critic, without importance weights
    q_values: Tensor  # [B, R] of the first critic
    # [B], under prioritized replay: the mean over both critics of the absolute error of the sum of values
    td_error: Tensor | None = None
