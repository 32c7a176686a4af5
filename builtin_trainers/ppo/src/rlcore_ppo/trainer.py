"""Proximal Policy Optimization (Schulman et al. 2017, arXiv:1707.06347) with the clipped objective.

The algorithm is :meth:`PPOTrainer.update` and :meth:`PPOTrainer.loss`. The parts of an update are methods of
:class:`rlcore_torch.OnPolicyTrainer`, which also collects the rollouts. On a CPU, ``by_hand.py`` computes the gradient
of this loss for plain networks faster, up to rounding the same; a subclass that overrides the loss gets its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from rlcore import BehaviorSettings, BehaviorSpec, RunContext
from rlcore_ppo.settings import PPOSettings
from rlcore_torch import (
    ActorCritic,
    Loss,
    Minibatch,
    OnPolicyTrainer,
    clip_fraction,
    mean_over_rows,
    probability_ratio,
)

__all__ = ["PPOTrainer"]


class PPOTrainer(OnPolicyTrainer):
    """PPO for continuous, discrete and hybrid actions, with one value head for each reward provider.

    An algorithm that changes a part of PPO derives from this class, with a settings class that derives from
    :class:`PPOSettings`; its distribution requires ``rlcore-ppo``. Override :meth:`loss` for another objective,
    :meth:`update` for another order of the parts, :meth:`build_model` for another network, and the methods of
    :class:`rlcore_torch.OnPolicyTrainer` for the rest.

    Attributes:
        hyperparameters: The block ``hyperparameters``.
        clip_range: Tensor [] with the clip range of the probability ratio, as its schedule has it now.
        entropy_weight: Tensor [] with the weight of the entropy bonus, as its schedule has it now.
    """

    hyperparameters: PPOSettings

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        """Make the model, the optimizer and the schedules. Called by rlcore with keywords."""
        super().__init__(settings, behavior, run)
        self.clip_range = self.scheduled("epsilon", run)
        self.entropy_weight = self.scheduled("beta", run)
        # value_coefficient is the weight of each head's loss, and `loss` takes the mean over heads.
        self._weight_of_mean_value_loss = self.hyperparameters.value_coefficient * len(self.providers)

    def update(self) -> Mapping[str, float | Sequence[float]]:
        """Take ``num_epoch`` passes over the rollout (algorithm 1), then begin another.

        The rewards that learn do so in ``advantages``, and imitation (``behavioral_cloning``) after the update, in
        ``rlcore_torch.imitation.ImitatingTrainer``, which wraps this trainer. With ``target_kl``, the update ends
        before the step of the first minibatch whose KL divergence exceeds 1.5 ``target_kl``; its losses are reported
        with the others. Raises TrainingDiverged if a loss is not finite.
        """
        rollout = self.rollout()
        advantages, returns = self.advantages(rollout)
        losses: list[Loss] = []
        for _ in range(self.hyperparameters.num_epoch):
            for batch in self.minibatches(rollout, advantages, returns):
                losses.append(self.minimize(self.loss, batch))
                if not losses[-1].stepped:  # target_kl: the policy is too far from the one that acted
                    return self.finish(rollout, losses)
        return self.finish(rollout, losses)

    @mean_over_rows
    def loss(self, batch: Minibatch) -> Loss:
        """The clipped surrogate (eq. 7), the value loss and the entropy bonus (eq. 9) of one minibatch."""
        h = self.hyperparameters
        log_prob, entropy, value = self.evaluate(batch, differentiable_entropy=h.beta > 0.0)  # of joint actions

        # The clipped surrogate, eq. 7: a pessimistic bound of the surrogate of eq. 6.
        advantage = batch.advantage
        log_ratio = log_prob - batch.old_log_prob
        ratio = probability_ratio(log_ratio, advantage)
        clipped_ratio = ratio.clamp(1.0 - self.clip_range, 1.0 + self.clip_range)
        surrogate = torch.min(ratio * advantage, clipped_ratio * advantage)
        policy_loss = -surrogate.mean()

        # The squared error of eq. 9. The paper does not clip values; OpenAI's baselines do, by the same rule as ratios.
        value_loss = mse_loss(value, batch.returns)
        if h.value_clip is not None:
            change = value - batch.old_value
            limited_value = batch.old_value + change.clamp(-h.value_clip, h.value_clip)
            error = (value - batch.returns).square()
            limited_error = (limited_value - batch.returns).square()
            value_loss = torch.max(error, limited_error).mean()

        # Eq. 9, as a loss: signs are turned.
        entropy = entropy.mean()
        total = policy_loss + self._weight_of_mean_value_loss * value_loss - self.entropy_weight * entropy
        return Loss(total, policy_loss, value_loss, entropy, log_ratio)

    # ------------------------------------------------------------ the network, and statistics

    def build_model(self, value_heads: int) -> ActorCritic:
        """The network of policy and values, with a value head for each reward provider."""
        h = self.hyperparameters
        network = self.settings.network_settings
        return ActorCritic(self.behavior, network, value_heads, h.shared_critic, h.initial_log_std)

    def diagnostics(self, log_ratio: Tensor) -> dict[str, float]:
        """Statistics of an update: those of the template, and the share of ``log_ratio`` [rows] that is clipped."""
        clipped = clip_fraction(log_ratio, self.clip_range)
        return {**super().diagnostics(log_ratio), "Policy/Clip Fraction": clipped}
