"""TD7 (Fujimoto et al. 2023, arXiv:2306.02451): TD3 with embeddings of states and actions, and prioritized replay.

:class:`rlcore_torch.OffPolicyTrainer` stores transitions and has the parts of an update; the docstring of its module
names their files. This file has the update, from top to bottom, then the losses. ``networks.py`` has the networks, and
``sampler.py`` the replay.

An encoder learns to predict the embedding zs of the next state from the embedding zsa of a state and an action. Actor
and critics see the embeddings of an earlier copy of it, the *fixed* encoder, which changes at every
``target_update_interval``-th gradient step together with all target networks. Values that targets continue with are
clipped to the range of the targets before.

The policy that is evaluated is the one that learns. The paper evaluates *checkpoints*: the policy whose worst of
several episodes was best, for which it also takes its gradient steps between episodes (section 4.3). Its scores have
both.

Each of the R reward providers has its own value and its own discount. The actor maximizes the sum of the R values. This
sum decides which critic counts (:func:`rlcore_torch.min_q`).

Shapes: S agents, B transitions, R reward providers, C continuous parts of an action, in the policy's range [-1, 1], Z
numbers of an embedding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import huber_loss, mse_loss

from rlcore import AgentBatch, BehaviorSettings, BehaviorSpec, ConfigError, RunContext
from rlcore_td7.networks import EncodedActorCritic
from rlcore_td7.settings import TD7Settings
from rlcore_torch import (
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


class TD7Trainer(OffPolicyTrainer):
    """TD7 for continuous actions, without the checkpoints of its policy."""

    hyperparameters: TD7Settings
    model: EncodedActorCritic

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        followed = dict(self.model.named_parameters())
        self._targets = [(target, followed[name]) for name, target in self.model.target.named_parameters()]
        self._fixed = list(zip(self.model.fixed_parameters(), self.model.encoder.parameters(), strict=True))

    # ------------------------------------------------------------ the update

    def explore(self, batch: AgentBatch) -> tuple[RawActions, None]:
        """Return the actor's actions [S, C] with Gaussian noise."""
        raw, _ = self.policy.choose(self.parameters(batch), None)
        assert raw is not None
        if self.settings.network_settings.deterministic:
            return raw, None
        normal, _ = self.action_noise.next()
        noisy = raw + np.float32(self.hyperparameters.exploration_noise) * normal
        return np.clip(noisy, -1.0, 1.0, dtype=np.float32), None

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        """Learn from one minibatch; at every ``target_update_interval``-th, copy to the targets and fixed encoders."""
        h = self.hyperparameters
        number = self.gradient_steps + 1  # the template counts a step when it is done
        moves_actor = number % h.actor_delay == 0
        step = self.learn(batch, self.draw_target_noise(batch), moves_actor)
        if number % h.target_update_interval == 0:
            self.move_targets()
        return step

    @function_of_tensors()
    def learn(self, batch: TransitionBatch, noise: Tensor | None, moves_actor: bool) -> GradientStep:
        """Move the encoder and the critics; with ``moves_actor``, then the actor.

        A function of tensors: nothing in it depends on their values or waits for a device, so it can be captured in a
        CUDA graph.
        """
        encoder_loss = self.encoder_loss(batch)
        self.descend(encoder_loss, batch, "encoder")
        critic_loss = self.critic_loss(batch, noise)
        self.descend(critic_loss.total, batch, "critics")
        stats = self._statistics(encoder_loss, critic_loss)
        if moves_actor:
            policy_loss = self.policy_loss(batch)
            optimizer = self.optimizers["policy"]
            optimizer.zero_grad()
            policy_loss.backward(inputs=list(optimizer.parameters))  # type: ignore[no-untyped-call]
            self.move(batch, "policy")
            stats["Losses/Policy Loss"] = policy_loss.detach()
        return GradientStep(stats, critic_loss.td_error)

    @torch.no_grad()
    def move_targets(self) -> None:
        """Copy actor, critics and fixed encoder to the targets, then the encoder to the fixed one (section 4.1)."""
        for target, network in self._targets:
            target.copy_(network)
        for fixed, encoder in self._fixed:
            fixed.copy_(encoder)
        self.model.take_range()

    def prioritize(self, batch: TransitionBatch, step: GradientStep) -> None:
        """Give the sampler the errors of a gradient step, and new transitions the largest priority of now."""
        super().prioritize(batch, step)
        number = self.gradient_steps + 1
        if self.sampler.priority_alpha is not None and number % self.hyperparameters.target_update_interval == 0:
            self.buffer.reset_largest_priority()

    # ------------------------------------------------------------ the losses

    def encoder_loss(self, batch: TransitionBatch) -> Tensor:
        """The squared error of the prediction zsa of the next state's embedding (eq. 1)."""
        encoder = self.model.encoder
        with torch.no_grad():
            next_zs = encoder.zs(batch.next_inputs)  # [B, Z]
        assert batch.raw is not None
        predicted = encoder.zsa(encoder.zs(batch.inputs), batch.raw)
        return mse_loss(predicted, next_zs)

    def critic_loss(self, batch: TransitionBatch, noise: Tensor | None) -> CriticLoss:
        """The Huber loss of each critic against the target: reward + discount * clipped value (eq. 3 and 5)."""
        model = self.model
        with torch.no_grad():
            next_value = self._target_value(batch.next_inputs, noise)
            after = batch.after_ends
            if after is not None:  # rewards with ignore_done continue in the next episode
                continued = self._target_value(after.inputs, noise)
                next_value = torch.where(after.ignores_done, continued, next_value)
            clipped = next_value.clamp(model.clip_low, model.clip_high)
            target_q = batch.reward + batch.discount * clipped  # [B, R]
            model.widen_range(target_q)
            zs = model.actor.zs(batch.inputs)

        assert batch.raw is not None
        q_values = model.q_values(batch.inputs, batch.raw, zs)
        losses = []
        sizes = []
        for q in q_values:
            loss = huber_loss(q, target_q, reduction="none")  # linear from 1 on
            if batch.weight is not None:
                loss = loss * batch.weight.unsqueeze(1)
            losses.append(loss.mean())
            error = (q - target_q).detach()
            sizes.append(error.sum(1).abs())
        detached = [loss.detach() for loss in losses]
        td_error = torch.stack(sizes).amax(0)
        return CriticLoss(torch.stack(losses).sum(), detached, q_values[0].detach(), td_error)

    def _target_value(self, inputs: Inputs, noise: Tensor | None) -> Tensor:
        """The smaller value [B, R] that the target critics give to the target actor's action, with ``noise``."""
        target = self.model.target
        action = target.action(inputs)
        if noise is not None:
            action = (action + noise).clamp(-1.0, 1.0)
        return min_q(*target.q_values(inputs, action, target.actor.zs(inputs)))

    def policy_loss(self, batch: TransitionBatch) -> Tensor:
        """Minus the mean of both critics' values of the actor's actions."""
        model = self.model
        with torch.no_grad():
            zs = model.actor.zs(batch.inputs)
        action = model.action(batch.inputs)
        values = torch.stack(model.q_values(batch.inputs, action, zs))  # [2, B, R]
        return -values.sum(2).mean()

    # ------------------------------------------------------------ networks, optimizers, noise and statistics

    def build_model(self, value_heads: int) -> EncodedActorCritic:
        network = self.settings.network_settings
        plain = NetworkSettings()
        for key in ("layer_norm", "dropout", "blocks"):
            chosen = {getattr(network, key), getattr(network.of_critic, key)}
            if chosen != {getattr(plain, key)}:
                raise ConfigError(
                    "is not a part of TD7, whose networks have plain layers, with embeddings of one size; leave it out",
                    key=("behaviors", self.behavior.name, "network_settings", key),
                )
        return EncodedActorCritic(self.behavior, network, value_heads, self.hyperparameters.embedding_units)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        model = self.model
        of_actor = [parameter for parameter in model.actor.parameters() if parameter.requires_grad]
        return {
            "encoder": self.make_optimizer(model.encoder.parameters()),
            "critics": self.make_optimizer(model.critics.parameters()),
            "policy": self.make_optimizer([*of_actor, *model.policy_head.parameters()]),
        }

    def draw_target_noise(self, batch: TransitionBatch) -> Tensor | None:
        """Clipped noise [B, C] for the actions of the target actor; None without noise."""
        h = self.hyperparameters
        return self.smoothing_noise(batch, h.target_noise, h.target_noise_clip)

    @torch.no_grad()
    def _statistics(self, encoder_loss: Tensor, critic_loss: CriticLoss) -> dict[str, Tensor]:
        stats = {"Losses/Encoder Loss": encoder_loss.detach()}
        stats |= {f"Losses/Q{k} Loss": loss for k, loss in enumerate(critic_loss.q_losses, start=1)}
        for name, value in zip(self.provider_names, critic_loss.q_values.mean(0), strict=True):
            stats[f"Policy/{name.capitalize()} Value"] = value
        return stats


@attrs.define(eq=False)
class CriticLoss:
    """The loss of both critics, with the tensors that statistics and replay priorities need."""

    total: Tensor
    q_losses: Sequence[Tensor]  # of each critic
    q_values: Tensor  # [B, R] of the first critic
    td_error: Tensor  # [B], the larger one of both critics' absolute errors of the sum of values
