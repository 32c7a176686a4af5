"""Advantage actor-critic, A2C: algorithm S3 of Mnih et al. 2016 (arXiv:1602.01783), with all environments in step."""

from __future__ import annotations

from collections.abc import Mapping

from torch.nn.functional import mse_loss

from rlcore_a2c.plugin import A2CSettings
from rlcore_torch import ActorCritic, Loss, Minibatch, OnPolicyTrainer, Statistic, mean_over_rows


class A2CTrainer(OnPolicyTrainer):
    """One gradient step for each rollout."""

    hyperparameters: A2CSettings

    def build_model(self, value_heads: int) -> ActorCritic:
        settings = self.settings.network_settings
        return ActorCritic(self.behavior, settings, value_heads, shared=False)

    def update(self) -> Mapping[str, Statistic]:
        rollout = self.rollout()
        advantages, returns = self.advantages(rollout)
        minibatches = self.minibatches(rollout, advantages, returns)
        losses = [self.minimize(self.loss, batch) for batch in minibatches]
        return self.finish(rollout, losses)

    @mean_over_rows
    def loss(self, batch: Minibatch) -> Loss:
        h = self.hyperparameters
        log_prob, entropy, value = self.evaluate(batch)
        policy_loss = -(batch.advantage * log_prob).mean()
        value_loss = mse_loss(value, batch.returns)
        entropy = entropy.mean()
        # mse_loss averages over the values of all rewards; each of them counts in full.
        value_weight = h.value_coefficient * len(self.providers)
        total = policy_loss + value_weight * value_loss - h.beta * entropy
        log_ratio = log_prob - batch.old_log_prob
        return Loss(total, policy_loss, value_loss, entropy, log_ratio)
