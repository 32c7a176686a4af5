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
from rlcore.environment import BehaviorSpec
from rlcore.settings import BehaviorSettings
from rlcore.torch.flat import FlatParameters
from rlcore.torch.minibatch_trainer import GradientStep
from rlcore.torch.networks import Critic, lesser
from rlcore.torch.off_policy import OffPolicyTrainer
from rlcore.torch.optimizer import Adam
from rlcore.torch.parallel import Pair
from rlcore.torch.transition_batch import TransitionBatch
from rlcore_sac.networks import PolicyDraw, SoftActorCritic
from rlcore_sac.settings import SACSettings


@attrs.define(eq=False)
class CriticJudgement:
    """What one critic said of the transitions."""

    value: Tensor  # [B, R] of what was done
    error: Tensor  # [B, R] of that


class SACTrainer(OffPolicyTrainer):
    """SAC with twin critics and a learned temperature for the continuous parts and for each discrete branch."""

    hyperparameters: SACSettings
    model: SoftActorCritic

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        self._pair = Pair(self.device)
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
        return {
            "policy": self.adam([*model.actor.parameters(), *model.policy_head.parameters()]),
            "critic_0": self.adam(model.critics[0].parameters()),
            "critic_1": self.adam(model.critics[1].parameters()),
            "temperature": self.adam([model.log_temperature]),
        }

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        """All gradients are taken at the same parameters, as in the authors' own code, and then everything moves.

        So those of the policy and those of the critics can be computed side by side.
        """
        noise, noise_after = self._noise_like(batch.raw), self._noise_like(batch.raw)
        (now, policy_loss), critics = self._pair.run(
            partial(self._policy_gradient, batch, noise), partial(self._critic_gradients, batch, noise_after)
        )
        stats, _ = self._pair.run(partial(self._move_policy, batch, now, critics, policy_loss), self._move_critics)
        return GradientStep(stats, self._td_error(critics))

    # ------------------------------------------------------------ the parts of a gradient step

    def _noise_like(self, raw: Tensor | None) -> Tensor | None:
        if raw is None:
            return None
        noise = self.generator.standard_normal(tuple(raw.shape), dtype=np.float32)
        return torch.from_numpy(noise).to(self.device)

    def _critic_gradients(
        self, batch: TransitionBatch, noise: Tensor | None
    ) -> tuple[CriticJudgement, CriticJudgement]:
        """Each critic's gradient, of half its squared distance from the soft value of what followed (eq. 5, 6)."""
        target = self._target(batch, noise)
        return self._critic_gradient(0, batch, target), self._critic_gradient(1, batch, target)

    @torch.no_grad()
    def _target(self, batch: TransitionBatch, noise: Tensor | None) -> Tensor:
        """[B, R]: rewards, and the discounted soft value of what the policy does after them."""
        model = self.model
        after = model.draw(batch.next_inputs, batch.next_mask, noise)
        values = lesser(*(model.values(target, batch.next_inputs, after.action) for target in model.targets))
        weights = model.options.weights(after.probabilities)
        value = values.squeeze(2) if weights is None else (values * weights.unsqueeze(1)).sum(2)
        bonus = model.entropy_bonus(after) / len(self.providers)
        return batch.reward + batch.discount * (value + bonus.unsqueeze(1))

    def _critic_gradient(self, k: int, batch: TransitionBatch, target: Tensor) -> CriticJudgement:
        options, shape = self.model.options, (len(target), len(self.providers), -1)
        judgement: list[CriticJudgement] = []

        def slope(values: Tensor) -> Tensor:
            value = options.chosen(values.view(shape), batch.choices)
            error = value - target
            judgement.append(CriticJudgement(value, error))
            weighted = error if batch.weight is None else error * batch.weight.unsqueeze(1)
            return options.slope(weighted / error.numel(), batch.choices).flatten(1)

        critic = self.model.critics[k]
        assert isinstance(critic, Critic)
        critic.descend(batch.inputs, batch.raw, slope)
        return judgement[0]

    def _policy_gradient(self, batch: TransitionBatch, noise: Tensor | None) -> tuple[PolicyDraw, Tensor]:
        """The policy's gradient: towards what the less favourable critic values, and towards entropy (eq. 7)."""
        model = self.model
        now = model.draw(batch.inputs, batch.mask, noise)
        one, two = (model.values(critic, batch.inputs, now.action, frozen=True).sum(1) for critic in model.critics)
        value = torch.minimum(one, two)  # [B, columns]
        weights = model.options.weights(now.probabilities)
        expected = value.squeeze(1) if weights is None else (value * weights).sum(1)
        loss = -(expected + model.entropy_bonus(now)).mean()
        self.optimizers["policy"].flat.zero_gradient()
        loss.backward()  # type: ignore[no-untyped-call]
        return now, loss.detach()

    def _move_policy(
        self,
        batch: TransitionBatch,
        now: PolicyDraw,
        critics: tuple[CriticJudgement, CriticJudgement],
        policy_loss: Tensor,
    ) -> dict[str, Tensor]:
        """Steps of the policy and the temperatures; what is reported of the gradient step."""
        self.optimizers["policy"].step()
        self._learn_temperature(now, batch.mask)
        return self._statistics(now, critics, policy_loss)

    @torch.no_grad()
    def _move_critics(self) -> None:
        """Steps of the critics; target critics take in a share ``tau`` of them."""
        for k, target in enumerate(self._targets):
            optimizer = self.optimizers[f"critic_{k}"]
            optimizer.step()
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
        self, now: PolicyDraw, critics: tuple[CriticJudgement, CriticJudgement], policy_loss: Tensor
    ) -> dict[str, Tensor]:
        stats = {
            "Losses/Policy Loss": policy_loss,
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

    def _td_error(self, critics: tuple[CriticJudgement, CriticJudgement]) -> Tensor:
        """[B]: the mean over both critics of the error of the sum of values."""
        return 0.5 * (critics[0].error.sum(1).abs() + critics[1].error.sum(1).abs())
