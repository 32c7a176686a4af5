"""Deep Q-learning (Mnih et al. 2015, doi:10.1038/nature14236) with double Q targets (van Hasselt et al. 2016)."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from rlcore import AgentBatch, BehaviorSettings, BehaviorSpec, ConfigError, RunContext
from rlcore_dqn.settings import DQNSettings
from rlcore_torch import (
    Actor,
    GradientStep,
    Inputs,
    NetworkSettings,
    OffPolicyTrainer,
    Optimizer,
    RawActions,
    Schedule,
    TransitionBatch,
    linear,
    mask_logits,
)


class QNetwork(Actor):
    """An actor whose logits are action values, so its greedy policy takes the best action; with a target network."""

    def __init__(self, behavior: BehaviorSpec, settings: NetworkSettings) -> None:
        super().__init__(behavior, settings)
        self.target_body = copy.deepcopy(self.actor).requires_grad_(False)
        self.target_head = copy.deepcopy(self.policy_head).requires_grad_(False)

    def values(self, inputs: Inputs) -> Tensor:
        """Return the action values [B, options]."""
        return self.actor.into(inputs, self.policy_head.linear)

    def target_values(self, inputs: Inputs) -> Tensor:
        """Return the action values of the target network [B, options]."""
        return self.target_body.into(inputs, self.target_head.linear)

    def update_target(self) -> None:
        self.target_body.load_state_dict(self.actor.state_dict())
        self.target_head.load_state_dict(self.policy_head.state_dict())


class DQNTrainer(OffPolicyTrainer):
    """DQN with one value per branch and a shared target, the mean (Tavakoli et al. 2018, arXiv:1711.08946, eq. 6)."""

    hyperparameters: DQNSettings
    model: QNetwork

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        if len({(provider.gamma, provider.ignore_done) for provider in self.providers}) > 1:
            raise ConfigError(
                f"behaviors.{behavior.name}.reward_signals: dqn learns one value for all signals, so they need "
                "the same gamma and ignore_done"
            )
        h = self.hyperparameters
        self._exploration = Schedule(linear, h.exploration, h.final_exploration, h.exploration_steps)

    def build_model(self, value_heads: int) -> QNetwork:
        return QNetwork(self.behavior, self.settings.network_settings)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        return {"q": self.make_optimizer([*self.model.actor.parameters(), *self.model.policy_head.parameters()])}

    def explore(self, batch: AgentBatch) -> tuple[RawActions, NDArray[np.int64] | None]:
        """Choose the best action, or a random one with the current exploration probability."""
        _, best = self.policy.choose(self.policy.parameters(batch.observations, batch.action_mask), None)
        _, random = self.random_actions(batch)
        assert best is not None and random is not None
        draw = self.action_generator.random((self.behavior.slots, 1))
        return None, np.where(draw < self._exploration(self.steps), random, best)

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        assert batch.choices is not None
        with torch.no_grad():  # the online network chooses the action, the target network values it
            next_q = self.model.values(batch.next_inputs)
            if batch.next_mask is not None:
                next_q = mask_logits(next_q, batch.next_mask)
            best = [branch.argmax(1) for branch in torch.split(next_q, [*self.behavior.discrete], 1)]
            next_value = self.chosen(self.model.target_values(batch.next_inputs), torch.stack(best, 1)).mean(1)
            target_q = batch.reward.sum(1) + batch.discount[:, 0] * next_value  # [B]

        q = self.chosen(self.model.values(batch.inputs), batch.choices)  # [B, branches]
        losses = smooth_l1_loss(q, target_q.unsqueeze(1).expand_as(q), reduction="none").mean(1)
        loss = losses.mean() if batch.weight is None else (losses * batch.weight).mean()
        optimizer = self.optimizers["q"]
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.clip_grad_norm(10.0)
        optimizer.step()

        if (self.gradient_steps + 1) % self.hyperparameters.target_update_interval == 0:
            self.model.update_target()
        stats = {"Losses/Q Loss": loss.detach(), "Policy/Extrinsic Value": q.detach().mean()}
        return GradientStep(stats, td_error=q.detach().mean(1) - target_q)

    def chosen(self, values: Tensor, choices: Tensor) -> Tensor:
        """Select the values of ``choices`` [B, branches] from ``values`` [B, options of all branches]."""
        return values.gather(1, choices + torch.tensor(self.policy.layout.offsets, device=self.device))
