"""Deep Q-learning (Mnih et al. 2015, doi:10.1038/nature14236) with double Q targets (van Hasselt et al. 2016)."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from rlcore import AgentBatch, BehaviorSpec, RunContext
from rlcore.errors import ConfigError
from rlcore.settings import BehaviorSettings, NetworkSettings
from rlcore.torch.actions import mask_logits
from rlcore.torch.minibatch_trainer import GradientStep
from rlcore.torch.networks import Actor, Inputs
from rlcore.torch.off_policy import OffPolicyTrainer
from rlcore.torch.optimizer import Adam
from rlcore.torch.policy import RawActions
from rlcore.torch.schedules import Schedule
from rlcore.torch.transition_batch import TransitionBatch
from rlcore_dqn.settings import DQNSettings


class QNetwork(Actor):
    """An actor whose logits are action values, so that its greedy policy takes the best action; and a slow copy."""

    def __init__(self, behavior: BehaviorSpec, settings: NetworkSettings) -> None:
        super().__init__(behavior, settings)
        self.slow_body = copy.deepcopy(self.actor).requires_grad_(False)
        self.slow_head = copy.deepcopy(self.policy_head).requires_grad_(False)

    def values(self, inputs: Inputs) -> Tensor:
        """[B, options]"""
        return self.actor.into(inputs, self.policy_head.linear)

    def slow_values(self, inputs: Inputs) -> Tensor:
        """[B, options]"""
        return self.slow_body.into(inputs, self.slow_head.linear)

    def update_slow(self) -> None:
        self.slow_body.load_state_dict(self.actor.state_dict())
        self.slow_head.load_state_dict(self.policy_head.state_dict())


class DQNTrainer(OffPolicyTrainer):
    """DQN; branches have values of their own and learn the mean (Tavakoli et al. 2018, arXiv:1711.08946, eq. 6)."""

    hyperparameters: DQNSettings
    model: QNetwork

    def __init__(self, behavior: BehaviorSpec, settings: BehaviorSettings, run: RunContext) -> None:
        super().__init__(behavior, settings, run)
        if len({(provider.gamma, provider.ignore_done) for provider in self.providers}) > 1:
            raise ConfigError(
                f"behaviors.{behavior.name}.reward_signals: dqn learns one value for all of them, so they need one "
                "gamma, and none may go on past the end of an episode (ignore_done) while another does not"
            )
        h = self.hyperparameters
        self._exploration = Schedule("linear", h.exploration, h.final_exploration, h.exploration_steps)

    def build_model(self, value_heads: int) -> QNetwork:
        return QNetwork(self.behavior, self.settings.network_settings)

    def build_optimizers(self) -> Mapping[str, Adam]:
        return {"q": self.adam([*self.model.actor.parameters(), *self.model.policy_head.parameters()])}

    def explore(self, batch: AgentBatch) -> tuple[RawActions, NDArray[np.int64] | None]:
        """The best action, or with a small probability any."""
        _, best = self.policy.choose(self.policy.parameters(batch.observations, batch.action_mask), None)
        _, other = self.random_actions(batch)
        assert best is not None and other is not None
        dice = self.action_generator.random((self.behavior.slots, 1))
        return None, np.where(dice < self._exploration(self.steps), other, best)

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        assert batch.choices is not None
        with torch.no_grad():  # the online network chooses, the slow one says what that is worth
            following = self.model.values(batch.next_inputs)
            if batch.next_mask is not None:
                following = mask_logits(following, batch.next_mask)
            best = [branch.argmax(1) for branch in torch.split(following, [*self.behavior.discrete], 1)]
            worth = self.chosen(self.model.slow_values(batch.next_inputs), torch.stack(best, 1)).mean(1)
            target = batch.reward.sum(1) + batch.discount[:, 0] * worth  # [B]

        value = self.chosen(self.model.values(batch.inputs), batch.choices)  # [B, branches]
        losses = smooth_l1_loss(value, target.unsqueeze(1).expand_as(value), reduction="none").mean(1)
        loss = losses.mean() if batch.weight is None else (losses * batch.weight).mean()
        optimizer = self.optimizers["q"]
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.clip_grad_norm(10.0)
        optimizer.step()

        if (self.gradient_steps + 1) % self.hyperparameters.target_update_interval == 0:
            self.model.update_slow()
        stats = {"Losses/Q Loss": loss.detach(), "Policy/Extrinsic Value": value.detach().mean()}
        return GradientStep(stats, td_error=value.detach().mean(1) - target)

    def chosen(self, values: Tensor, choices: Tensor) -> Tensor:
        """[B, branches]: the values [B, options of all branches] of ``choices`` [B, branches]."""
        return values.gather(1, choices + torch.tensor(self.policy.layout.offsets, device=self.device))
