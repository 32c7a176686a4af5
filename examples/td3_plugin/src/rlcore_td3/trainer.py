"""TD3 (Fujimoto et al. 2018, arXiv:1802.09477, algorithm 1): twin critics, smoothed targets, a delayed actor.

Shapes: B transitions, R reward providers, C continuous parts of an action, which lie in [-1, 1].
"""

import copy

import numpy as np
import torch
from torch import Tensor, nn

from rlcore import AgentBatch, BehaviorSpec
from rlcore_td3.plugin import TD3Settings
from rlcore_torch import (
    Actor,
    Critic,
    DeterministicTanh,
    GradientStep,
    Inputs,
    NetworkSettings,
    OffPolicyTrainer,
    Optimizer,
    RawActions,
    TransitionBatch,
    min_q,
)


class TD3Networks(Actor):
    """An actor that acts with the tanh of its output, two critics with a value for each reward, and targets of all."""

    def __init__(self, behavior: BehaviorSpec, settings: NetworkSettings, rewards: int) -> None:
        super().__init__(behavior, settings, DeterministicTanh(behavior))
        self.critics = nn.ModuleList(Critic(self.inputs, settings, rewards, behavior.continuous) for _ in range(2))
        self.target = copy.deepcopy(self).requires_grad_(False)
        del self.target.inputs  # the inputs of a batch are normalized already

    def action(self, inputs: Inputs) -> Tensor:
        """Return the actions [B, C] of the actor, as the policy acts and is evaluated and exported."""
        columns = self.actor.into(inputs, self.policy_head.linear)
        assert self.policy_head.distribution is not None
        return self.policy_head.distribution.deterministic(columns)


class TD3Trainer(OffPolicyTrainer):
    """TD3 for continuous actions. ``actor_delay`` critic steps come before each step of the actor and the targets."""

    hyperparameters: TD3Settings
    model: TD3Networks

    def build_model(self, value_heads: int) -> TD3Networks:
        return TD3Networks(self.behavior, self.settings.network_settings, value_heads)

    def build_optimizers(self) -> dict[str, Optimizer]:
        actor = [*self.model.actor.parameters(), *self.model.policy_head.parameters()]
        return {"policy": self.make_optimizer(actor), "critics": self.make_optimizer(self.model.critics.parameters())}

    def explore(self, batch: AgentBatch) -> tuple[RawActions, None]:
        raw, _ = self.policy.choose(self.policy.parameters(batch.observations, None), None)
        assert raw is not None
        noise = self.action_generator.standard_normal(raw.shape, dtype=np.float32)
        return np.clip(raw + self.hyperparameters.exploration_noise * noise, -1.0, 1.0, dtype=np.float32), None

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        h, model = self.hyperparameters, self.model
        with torch.no_grad():
            next_action = model.target.action(batch.next_inputs)
            noise = self.generator.standard_normal(tuple(next_action.shape), dtype=np.float32) * h.target_noise
            noise = noise.clip(-h.target_noise_clip, h.target_noise_clip)
            next_action = (next_action + torch.from_numpy(noise).to(self.device)).clamp(-1.0, 1.0)
            next_q = min_q(*(critic(batch.next_inputs, next_action) for critic in model.target.critics))
            target_q = batch.reward + batch.discount * next_q  # [B, R]
        weight = 1.0 if batch.weight is None else batch.weight.unsqueeze(1)
        q1, q2 = (critic(batch.inputs, batch.raw) for critic in model.critics)
        critic_loss = (weight * ((q1 - target_q).square() + (q2 - target_q).square())).mean()
        self._step("critics", critic_loss)
        stats = {"Losses/Critic Loss": critic_loss.detach(), "Policy/Value": q1.detach().sum(1).mean()}
        if (self.gradient_steps + 1) % h.actor_delay == 0:
            policy_loss = -model.critics[0](batch.inputs, model.action(batch.inputs), frozen=True).sum(1).mean()
            self._step("policy", policy_loss)
            with torch.no_grad():  # the target networks are the last of all parameters
                for target, online in zip(model.target.parameters(), model.parameters(), strict=False):
                    target.lerp_(online, h.tau)
            stats["Losses/Policy Loss"] = policy_loss.detach()
        return GradientStep(stats, td_error=(q1 - target_q).detach().sum(1))

    def _step(self, name: str, loss: Tensor) -> None:
        self.optimizers[name].zero_grad()
        loss.backward()
        self.optimizers[name].step()
