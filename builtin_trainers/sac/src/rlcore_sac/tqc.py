"""Truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269): SAC whose critics predict distributions.

Each of N critics has M quantiles of the return of an action. A target pools the quantiles of all target critics, and
leaves out the largest of them, d for each critic: this is what keeps values from growing too large, with a strength
that can be chosen. The policy maximizes the mean of all quantiles, none left out. All else is SAC's:
:mod:`rlcore_sac.trainer` has the update, the policy, its temperature and the networks.

Shapes: as there, with M quantiles of each value, and J numbers of a target.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec
from rlcore_sac.settings import TQCSettings
from rlcore_sac.trainer import CriticLoss, Encoded, SACNoise, SACTrainer, SoftActorCritic
from rlcore_torch import Inputs, NetworkSettings, QuantileReturns, TransitionBatch


class TQCTrainer(SACTrainer):
    """TQC for continuous actions."""

    hyperparameters: TQCSettings
    model: TruncatedQuantileCritics

    def critic_loss(self, batch: TransitionBatch, noise: SACNoise, encoded: Encoded = None) -> CriticLoss:
        """The quantile Huber loss of every critic towards the numbers of the target, a mean over all (eq. 13, 14)."""
        model = self.model
        target = self.target(batch, noise.next, noise.between)  # [B, R, J]
        quantiles = model.quantiles(model.critics, batch.inputs, batch.raw, encoded=encoded)  # [N, B, R, M]
        losses = model.returns.losses(quantiles, target) / model.returns.size  # [N, B, R]
        of_critics = tuple(losses.detach().mean((1, 2)))
        values = model.returns.expected(quantiles.detach())  # [N, B, R]
        if batch.weight is None:
            return CriticLoss(losses.mean(), of_critics, values[0])
        weighted = batch.weight * losses.mean((0, 2))  # [B]
        error = values.mean(0) - target.mean(2)  # [B, R]
        return CriticLoss(weighted.mean(), of_critics, values[0], error.sum(1).abs())

    @torch.no_grad()
    def target(self, batch: TransitionBatch, next_noise: Tensor | None, between_noise: Tensor | None) -> Tensor:
        """Reward + discount * (a next return that is kept + the bonus of the entropy) (eq. 11, 12), [B, R, J]."""
        kept = self._kept(batch.next_inputs, next_noise)
        after = batch.after_ends
        if after is not None:  # rewards with ignore_done continue in the next episode
            continued = self._kept(after.inputs, next_noise)
            kept = torch.where(after.ignores_done.unsqueeze(1), continued, kept)
        reward = batch.reward
        if batch.between is not None:
            reward = reward + self._bonus_between(batch, between_noise)
        return self.model.returns.target(kept, reward, batch.discount)

    def _kept(self, inputs: Inputs, noise: Tensor | None) -> Tensor:
        """The smallest quantiles of all target critics together, with the bonus of the entropy, [B, R, J]."""
        h = self.hyperparameters
        model = self.model
        drawn = model.draw(inputs, None, noise)
        quantiles = model.quantiles(model.targets, inputs, drawn.action)  # [N, B, R, M]
        pooled = quantiles.permute(1, 2, 0, 3).flatten(2)  # [B, R, N M]
        count = h.num_critics * (h.num_quantiles - h.dropped_quantiles)
        kept = pooled.sort(2).values[:, :, :count]
        bonus = model.entropy_bonus(drawn) / len(self.providers)
        return kept + bonus.view(-1, 1, 1)

    def build_model(self, value_heads: int) -> TruncatedQuantileCritics:
        return TruncatedQuantileCritics(
            self.behavior, self.settings.network_settings, value_heads, self.hyperparameters
        )


class TruncatedQuantileCritics(SoftActorCritic):
    """SAC's networks, with M quantiles of each value.

    Attributes:
        returns: What the quantiles mean.
    """

    def __init__(self, behavior: BehaviorSpec, settings: NetworkSettings, rewards: int, h: TQCSettings) -> None:
        super().__init__(behavior, settings, rewards, h.init_entcoef, h.num_critics, h.num_quantiles)
        self.returns = QuantileReturns(h.num_quantiles)

    def quantiles(
        self,
        critics: Iterable[nn.Module],
        inputs: Inputs,
        action: Tensor | None,
        frozen: bool = False,
        encoded: Encoded = None,
    ) -> Tensor:
        """The quantiles of each of N ``critics``, [N, B, R, M]; with ``frozen`` only the action gets a gradient."""
        outputs = []
        for k, critic in enumerate(critics):
            of_critic = encoded[k] if encoded else None
            output = critic(inputs, action, frozen, of_critic)
            outputs.append(output.view(-1, self.rewards, self.returns.size))
        return torch.stack(outputs)

    def q_values(
        self,
        critics: Iterable[nn.Module],
        inputs: Inputs,
        action: Tensor | None,
        frozen: bool = False,
        encoded: Encoded = None,
    ) -> list[Tensor]:
        """The expected values of each of ``critics``, [B, R, 1]."""
        quantiles = self.quantiles(critics, inputs, action, frozen, encoded)
        expected = self.returns.expected(quantiles)
        return list(expected.unsqueeze(3))
