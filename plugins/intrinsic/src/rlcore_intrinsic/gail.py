"""Generative adversarial imitation learning (Ho and Ermon 2016, arXiv:1606.03476): a reward for acting as an expert.

A discriminator D learns the probability that a transition is from recorded episodes of an expert and not from the
agents. The reward is -log(1 - D): large where the agents do what only the expert does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from rlcore import BehaviorSpec, RunContext, Transitions
from rlcore_intrinsic.demonstrations import Demonstrations, read_demonstrations
from rlcore_intrinsic.discriminator import TARGET_INFORMATION, Z_SIZE, Discriminator, Seen
from rlcore_intrinsic.network_reward import NetworkReward, mean_of, picked
from rlcore_intrinsic.settings import GAILSettings

PENALTY_WEIGHT = 10.0  # ML-Agents' weight of the gradient penalty
LARGEST_REWARD = -math.log(1e-7)  # ML-Agents' epsilon in the logarithm


class GAILReward(NetworkReward):
    """Rewards each transition by how much it resembles the expert's."""

    name = "gail"
    settings: GAILSettings
    model: Discriminator

    def __init__(self, settings: GAILSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        # Without training there is nothing to compare with, and the recording may be gone.
        self.expert: Demonstrations | None = None
        if not run.inference:
            self.expert = read_demonstrations(settings.demo_path, behavior, run)
        super().__init__(settings, behavior, run)

    def make_model(self) -> Discriminator:
        return Discriminator(self.behavior, self.settings)

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        """Implement :meth:`rlcore.RewardProvider.evaluate`: -log(1 - D), from 0 to 16.1."""
        inputs, extra = self._seen(transitions)
        rows = inputs
        if extra is not None:
            rows = (*inputs, extra)
        rewards = self.in_parts(self._rewards, *rows)
        return rewards.cpu().numpy().reshape(transitions.reward.shape)

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        """Implement :meth:`rlcore.RewardProvider.update`."""
        assert self.expert is not None, "an evaluation does not update rewards"
        inputs, extra = self._seen(transitions)
        statistics = []
        for rows in self.minibatches(transitions.reward.size):
            steps = self.generator.integers(len(self.expert), size=len(rows))
            recorded = self.expert.take(steps)
            expert = self._seen(recorded)
            policy_extra = None
            if extra is not None:
                policy_extra = extra.index_select(0, rows)
            policy = (picked(inputs, rows), policy_extra)
            statistics.append(self._learn(expert, policy))
        return mean_of(statistics)

    def _learn(self, expert: Seen, policy: Seen) -> dict[str, Tensor]:
        """Take a gradient step on as many transitions of the expert as of the policy; return statistics."""
        model = self.model
        expert_inputs, expert_extra = expert
        policy_inputs, policy_extra = policy
        count = len(policy_inputs[0])
        # Of both in equal parts: in units of the expert's deviations alone, agents far from it would all look alike.
        model.inputs.update_normalizer(expert_inputs)
        model.inputs.update_normalizer(policy_inputs)
        expert = (model.inputs(expert_inputs), expert_extra)
        policy = (model.inputs(policy_inputs), policy_extra)

        # All draws for VAIL come before that of the mix.
        expert_noise = self._noise(count)
        policy_noise = self._noise(count)
        penalty_noise = self._noise(count)
        expert_logit, expert_mean = model.logits(*expert, expert_noise)
        policy_logit, policy_mean = model.logits(*policy, policy_noise)
        expert_loss = softplus(-expert_logit).mean()  # -log D
        policy_loss = softplus(policy_logit).mean()  # -log(1 - D)
        loss = expert_loss + policy_loss
        shares = self.generator.random((count, 1), np.float32)
        mix = torch.from_numpy(shares).to(self.device)
        penalty = PENALTY_WEIGHT * model.gradient_penalty(expert, policy, mix, penalty_noise)
        statistics = {
            "Losses/GAIL Loss": loss.detach(),
            "Policy/GAIL Policy Estimate": policy_logit.detach().sigmoid().mean(),
            "Policy/GAIL Expert Estimate": expert_logit.detach().sigmoid().mean(),
            "Policy/GAIL Grad Mag Loss": penalty.detach(),
        }
        total = loss + penalty
        if expert_mean is not None and policy_mean is not None:
            information = model.information(expert_mean, policy_mean)
            total = total + model.beta * (information - TARGET_INFORMATION)
            statistics["Losses/GAIL KL Loss"] = information.detach()
            statistics["Policy/GAIL Beta"] = model.beta.clone()  # before it adapts
        self.gradient_step(total)
        if expert_mean is not None:
            model.adapt_beta(statistics["Losses/GAIL KL Loss"])
        return statistics

    def _seen(self, transitions: Transitions) -> Seen:
        """What the discriminator sees of N transitions: inputs, not normalized, and actions with ``use_actions``."""
        inputs = self.raw_inputs(transitions.observations, transitions.reward.ndim)
        if not self.settings.use_actions:
            return inputs, None
        actions = self.encoded_actions(transitions)
        column = transitions.terminated.reshape(-1, 1).astype(np.float32)
        terminated = torch.from_numpy(column).to(self.device)
        return inputs, torch.cat((actions, terminated), 1)

    def _rewards(self, *rows: Tensor) -> Tensor:
        """Rewards [B] of inputs, not normalized, and actions with ``use_actions``."""
        inputs = rows
        extra = None
        if self.settings.use_actions:
            inputs = rows[:-1]
            extra = rows[-1]
        normalized = self.model.inputs(inputs)
        logits, _ = self.model.logits(normalized, extra)
        return softplus(logits).clamp(max=LARGEST_REWARD)

    def _noise(self, count: int) -> Tensor | None:
        """Standard normal numbers [count, Z] for VAIL's bottleneck."""
        if not self.model.use_vail:
            return None
        noise = self.generator.standard_normal((count, Z_SIZE), np.float32)
        return torch.from_numpy(noise).to(self.device)
