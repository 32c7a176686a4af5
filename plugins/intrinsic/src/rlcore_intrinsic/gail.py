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
        rewards = self.in_parts(self._rewards, *inputs, *(() if extra is None else (extra,)))
        return rewards.cpu().numpy().reshape(transitions.reward.shape)

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        """Implement :meth:`rlcore.RewardProvider.update`."""
        assert self.expert is not None, "an evaluation does not update rewards"
        inputs, extra = self._seen(transitions)
        statistics = []
        for rows in self.minibatches(transitions.reward.size):
            drawn = self.expert.take(self.generator.integers(len(self.expert), size=len(rows)))
            policy = picked(inputs, rows), None if extra is None else extra.index_select(0, rows)
            statistics.append(self._learn(self._seen(drawn), policy))
        return mean_of(statistics)

    def _learn(self, expert: Seen, policy: Seen) -> dict[str, Tensor]:
        """Take a gradient step on as many transitions of the expert as of the policy; return statistics."""
        model = self.model
        count = len(policy[0][0])
        # Of both in equal parts: in units of the expert's deviations alone, agents far from it would all look alike.
        for inputs, _ in (expert, policy):
            model.inputs.update_normalizer(inputs)
        expert, policy = ((model.inputs(inputs), extra) for inputs, extra in (expert, policy))
        noise = [self._noise(count, Z_SIZE) if model.use_vail else None for _ in range(3)]
        expert_logit, expert_mean = model.logits(*expert, noise[0])
        policy_logit, policy_mean = model.logits(*policy, noise[1])
        loss = softplus(-expert_logit).mean() + softplus(policy_logit).mean()  # -log D, -log(1 - D)
        mix = torch.from_numpy(self.generator.random((count, 1), np.float32)).to(self.device)
        penalty = PENALTY_WEIGHT * model.gradient_penalty(expert, policy, mix, noise[2])
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
            statistics |= {"Losses/GAIL KL Loss": information.detach(), "Policy/GAIL Beta": model.beta.clone()}
        self.gradient_step(total)
        if expert_mean is not None:
            model.adapt_beta(statistics["Losses/GAIL KL Loss"])
        return statistics

    def _seen(self, transitions: Transitions) -> Seen:
        """What the discriminator sees of N transitions: inputs, not normalized, and actions with ``use_actions``."""
        inputs = self.raw_inputs(transitions.observations, transitions.reward.ndim)
        if not self.settings.use_actions:
            return inputs, None
        terminated = torch.from_numpy(transitions.terminated.reshape(-1, 1).astype(np.float32)).to(self.device)
        return inputs, torch.cat((self.encoded_actions(transitions), terminated), 1)

    def _rewards(self, *rows: Tensor) -> Tensor:
        """Rewards [B] of inputs, not normalized, and actions with ``use_actions``."""
        inputs, extra = (rows[:-1], rows[-1]) if self.settings.use_actions else (rows, None)
        logits, _ = self.model.logits(self.model.inputs(inputs), extra)
        return softplus(logits).clamp(max=LARGEST_REWARD)

    def _noise(self, *shape: int) -> Tensor:
        return torch.from_numpy(self.generator.standard_normal(shape, np.float32)).to(self.device)
