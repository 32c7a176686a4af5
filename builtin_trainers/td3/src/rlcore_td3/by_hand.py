"""The gradients of TD3's losses written by hand, for networks of linear layers on a CPU.

:class:`rlcore_td3.trainer.TD3Trainer` says what is computed. This computes the same numbers, up to rounding, without
autograd. ``torch_settings.fast_cpu: false`` runs without it, and ``benchmarks/fast_cpu.py`` measures what it is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from rlcore_td3.trainer import CriticLoss, DeterministicActorCritic, TD3Trainer
from rlcore_torch import Acceleration, MinibatchStacks, TransitionBatch, chosen_threads

Function = Callable[..., Any]


def _gradients(trainer: TD3Trainer) -> Mapping[Function, Function] | None:
    """Leave several rewards or ranks, and networks that are more than linear layers, to autograd."""
    model = trainer.model
    if len(trainer.providers) > 1 or trainer.ranks.size > 1:
        return None
    learned = [*model.actor.parameters(), *model.policy_head.parameters(), *model.critics.parameters()]
    if not all(parameter.requires_grad for parameter in learned):
        return None
    target = model.target
    critics = [*model.critics, *target.critics]
    shared = [1] * (1 + len(critics))  # each is done before another one needs it, except the policy
    rows = trainer.hyperparameters.batch_size
    stacks = MinibatchStacks.of([model, target], critics, rows, [0, *shared])
    if stacks is None:
        return None
    by_hand = GradientsByHand(trainer, stacks)
    return {
        TD3Trainer.critic_gradients: by_hand.critic_gradients,
        TD3Trainer.policy_gradients: by_hand.policy_gradients,
    }


class GradientsByHand:
    """Leaves the gradients of a minibatch of B transitions in the parameters; values of layers are [outputs, B]."""

    def __init__(self, trainer: TD3Trainer, stacks: MinibatchStacks) -> None:
        self._trainer = trainer
        self._stacks = stacks
        count = len(stacks.critics) // 2
        self._critics = stacks.critics[:count]
        self._targets = stacks.critics[count:]

    @torch.no_grad()
    def critic_gradients(self, batch: TransitionBatch, noise: Tensor | None) -> CriticLoss:
        stacks = self._stacks
        observed = batch.inputs[0]
        rows = len(observed)
        plain = batch.weight is None and batch.after_ends is None and rows <= stacks.rows
        if not plain or batch.raw is None:
            with torch.enable_grad():
                by_autograd: CriticLoss = TD3Trainer.critic_gradients(self._trainer, batch, noise)
                return by_autograd
        stacks.begin()
        following = batch.next_inputs[0]
        action = stacks.act(stacks.actors[1], following).tanh()
        if noise is not None:
            action = action.add_(noise).clamp_(-1.0, 1.0)
        next_values = stacks.judge(self._targets, following, action)
        next_value = reduce(torch.minimum, next_values)  # [1, B]
        target_q = batch.reward.t() + batch.discount.t() * next_value
        losses = []
        values = []
        for critic in self._critics:
            (value,) = stacks.judge([critic], observed, batch.raw)
            values.append(value.clone())
            error = value - target_q
            losses.append(error.square().mean())
            critic.backward(error.mul_(2.0 / rows))
            critic.leave()
        return CriticLoss(torch.stack(losses).sum(), losses, values[0].t())

    @torch.no_grad()
    def policy_gradients(self, batch: TransitionBatch) -> Tensor:
        stacks = self._stacks
        observed = batch.inputs[0]
        if len(observed) > stacks.rows:
            with torch.enable_grad():
                by_autograd: Tensor = TD3Trainer.policy_gradients(self._trainer, batch)
                return by_autograd
        policy = stacks.actors[0]
        critic = self._critics[0]
        policy.begin()
        critic.begin()  # its weights have moved
        action = stacks.act(policy, observed).tanh()
        (value,) = stacks.judge([critic], observed, action)
        weight = torch.full_like(value, -1.0 / len(observed))
        of_inputs = critic.backward_to_inputs(weight)
        of_action = of_inputs[:, observed.shape[1] :]
        of_output = of_action * (1.0 - action.square())  # through tanh
        policy.backward(of_output.t())
        policy.leave()
        return -value.mean()


GRADIENTS = Acceleration[TD3Trainer](
    piece="by_hand",
    methods=(
        TD3Trainer.critic_gradients,
        TD3Trainer.policy_gradients,
        TD3Trainer.critic_loss,
        TD3Trainer.policy_loss,
        TD3Trainer._target_value,
    ),
    model_methods=(DeterministicActorCritic.action, DeterministicActorCritic.q_values),
    make=_gradients,
)
THREADS = chosen_threads(TD3Trainer, lambda trainer: trainer.hyperparameters.actor_delay)
