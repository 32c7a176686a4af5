"""TD3 (Fujimoto et al. 2018, arXiv:1802.09477, algorithm 1) and DDPG (Lillicrap et al. 2016, arXiv:1509.02971).

:class:`rlcore_torch.OffPolicyTrainer` stores transitions and has the parts of an update; the docstring of its module
names their files. This file has the update, from top to bottom, then the networks. Lines are of TD3's algorithm 1.

TD3 adds three things to DDPG: a second critic, a delayed actor, and noise on the actions of targets. Each has a
setting, so this file is DDPG with ``num_critics: 1``, ``actor_delay: 1`` and ``target_noise: 0``, the defaults of the
trainer ``ddpg``.

Each of the R reward providers has its own value and its own discount. The actor maximizes the sum of the R values. This
sum decides which critic counts (:func:`rlcore_torch.min_q`).

Shapes: S agents, B transitions, R reward providers, C continuous parts of an action, in the policy's range [-1, 1].
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from rlcore import Actions, AgentBatch, BehaviorSettings, BehaviorSpec, RunContext, saved_mapping
from rlcore_td3.exploration import ExplorationNoise
from rlcore_td3.settings import TD3Settings
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
    function_of_tensors,
    min_q,
)


class TD3Trainer(OffPolicyTrainer):
    """TD3 and DDPG for continuous actions."""

    hyperparameters: TD3Settings
    model: DeterministicActorCritic

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        followed = dict(self.model.named_parameters())
        self._targets = [(target, followed[name]) for name, target in self.model.target.named_parameters()]
        self._exploration_noise = ExplorationNoise(self.hyperparameters, behavior.slots, behavior.continuous)

    # ------------------------------------------------------------ the update

    def explore(self, batch: AgentBatch) -> tuple[RawActions, None]:
        """Return the actor's actions [S, C] with noise (line 4)."""
        raw, _ = self.policy.choose(self.parameters(batch), None)
        assert raw is not None
        if self.settings.network_settings.deterministic:
            return raw, None
        normal, _ = self.action_noise.next()
        noisy = raw + self._exploration_noise.next(normal)
        return np.clip(noisy, -1.0, 1.0, dtype=np.float32), None

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        """Learn from one minibatch: the critics, and the actor and the targets once in ``actor_delay`` times."""
        number = self.gradient_steps + 1  # the template counts a step when it is done
        moves_actor = number % self.hyperparameters.actor_delay == 0
        return self.learn(batch, self.draw_target_noise(batch), moves_actor)

    @function_of_tensors()
    def learn(self, batch: TransitionBatch, noise: Tensor | None, moves_actor: bool) -> GradientStep:
        """Move the critics; with ``moves_actor``, then the actor and all target networks.

        A function of tensors: nothing in it depends on their values or waits for a device, so it can be captured in a
        CUDA graph.
        """
        critic_loss = self.critic_gradients(batch, noise)
        self.move(batch, "critics")
        stats = self._statistics(critic_loss)
        if moves_actor:
            policy_loss = self.policy_gradients(batch)
            self.move(batch, "policy")
            with torch.no_grad():  # targets move a share tau of the way to the networks (the last lines of algorithm 1)
                for target, network in self._targets:
                    target.lerp_(network, self.hyperparameters.tau)
            stats["Losses/Policy Loss"] = policy_loss.detach()
        return GradientStep(stats, critic_loss.td_error)

    def critic_gradients(self, batch: TransitionBatch, noise: Tensor | None) -> CriticLoss:
        """Leave the gradients of the critics' loss in them."""
        loss = self.critic_loss(batch, noise)
        self.optimizers["critics"].zero_grad()
        loss.total.backward()  # type: ignore[no-untyped-call]
        return loss

    def policy_gradients(self, batch: TransitionBatch) -> Tensor:
        """Leave the gradients of the policy's loss in it; return the loss []."""
        loss = self.policy_loss(batch)
        self.optimizers["policy"].zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    # ------------------------------------------------------------ the losses

    def critic_loss(self, batch: TransitionBatch, noise: Tensor | None) -> CriticLoss:
        """The squared difference between each critic and the target: reward + discount * value (lines 7 to 9)."""
        with torch.no_grad():
            next_value = self._target_value(batch.next_inputs, noise)
            after = batch.after_ends
            if after is not None:  # rewards with ignore_done continue in the next episode
                continued = self._target_value(after.inputs, noise)
                next_value = torch.where(after.ignores_done, continued, next_value)
            target_q = batch.reward + batch.discount * next_value  # [B, R]

        q_values = self.model.q_values(batch.inputs, batch.raw)
        losses = [mse_loss(q, target_q) for q in q_values]
        detached = [loss.detach() for loss in losses]
        first = q_values[0].detach()
        if batch.weight is None:
            return CriticLoss(torch.stack(losses).sum(), detached, first)

        weight = batch.weight.unsqueeze(1)
        weighted = []
        sizes = []
        for q in q_values:
            error = q - target_q
            squares = weight * error.square()
            weighted.append(squares.mean())
            sizes.append(error.detach().sum(1).abs())
        td_error = torch.stack(sizes).mean(0)
        total = torch.stack(weighted).sum()
        return CriticLoss(total, detached, first, td_error)

    def _target_value(self, inputs: Inputs, noise: Tensor | None) -> Tensor:
        """The smallest value [B, R] that the target critics give to the target actor's action, with ``noise``."""
        target = self.model.target
        action = target.action(inputs)
        if noise is not None:  # smooths the target over near actions (section 5.3)
            action = (action + noise).clamp(-1.0, 1.0)
        return reduce(min_q, target.q_values(inputs, action))

    def policy_loss(self, batch: TransitionBatch) -> Tensor:
        """Minus the first critic's value of the actor's actions, whose gradient is that of line 12."""
        action = self.model.action(batch.inputs)
        values: Tensor = self.model.critics[0](batch.inputs, action, frozen=True)  # [B, R]
        return -values.sum(1).mean()

    # ------------------------------------------------------------ networks, optimizers, noise and statistics

    def build_model(self, value_heads: int) -> DeterministicActorCritic:
        critics = self.hyperparameters.num_critics
        return DeterministicActorCritic(self.behavior, self.settings.network_settings, value_heads, critics)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        model = self.model
        policy = self.make_optimizer([*model.actor.parameters(), *model.policy_head.parameters()])
        critics = self.make_optimizer(model.critics.parameters())
        return {"policy": policy, "critics": critics}

    def draw_target_noise(self, batch: TransitionBatch) -> Tensor | None:
        """Clipped noise [B, C] for the actions of the target actor; None without noise."""
        h = self.hyperparameters
        return self.smoothing_noise(batch, h.target_noise, h.target_noise_clip)

    @torch.no_grad()
    def _statistics(self, critic_loss: CriticLoss) -> dict[str, Tensor]:
        stats = {f"Losses/Q{k} Loss": loss for k, loss in enumerate(critic_loss.q_losses, start=1)}
        for name, value in zip(self.provider_names, critic_loss.q_values.mean(0), strict=True):
            stats[f"Policy/{name.capitalize()} Value"] = value
        return stats

    # ------------------------------------------------------------ episodes and state of the exploration

    def begin(self, batch: AgentBatch) -> None:
        super().begin(batch)
        self._exploration_noise.start()

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        super().observe(actions, batch)
        self._exploration_noise.start(batch.ended)
        if batch.aborted is not None:
            self._exploration_noise.start(batch.aborted)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "exploration": self._exploration_noise.state_dict()}

    def require_fit(self, state: Mapping[str, Any]) -> None:
        super().require_fit(state)
        self._exploration_noise.require_fit(saved_mapping(state, "exploration"))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._exploration_noise.load_state_dict(state["exploration"])


@attrs.define(eq=False)
class CriticLoss:
    """The loss of all critics, with the tensors that statistics and replay priorities need."""

    total: Tensor
    q_losses: Sequence[Tensor]  # of each critic, without importance weights
    q_values: Tensor  # [B, R] of the first critic
    # [B], under prioritized replay: the mean over critics of the absolute error of the sum of values
    td_error: Tensor | None = None


# ---------------------------------------------------------------- the networks


class DeterministicActorCritic(Actor):
    """A policy that acts with the tanh of its output, critics with a value for each of R rewards, and their targets."""

    def __init__(self, behavior: BehaviorSpec, settings: NetworkSettings, rewards: int, critics: int) -> None:
        super().__init__(behavior, settings, DeterministicTanh(behavior))
        self.critics = nn.ModuleList()
        for k in range(critics):
            critic = Critic(self.inputs, settings, rewards, behavior.continuous, memory_place=k + 1)
            self.critics.append(critic)
        self.target = copy.deepcopy(self).requires_grad_(False)
        del self.target.inputs  # the module that normalizes observations, which a batch's are already

    def action(self, inputs: Inputs) -> Tensor:
        """Return the actions [B, C] of the actor, those of :class:`rlcore_torch.DeterministicTanh`; differentiable."""
        return self.actor.into(inputs, self.policy_head.linear).tanh()

    def q_values(self, inputs: Inputs, action: Tensor | None) -> list[Tensor]:
        """Return the values [B, R] of each critic."""
        return [critic(inputs, action) for critic in self.critics]
