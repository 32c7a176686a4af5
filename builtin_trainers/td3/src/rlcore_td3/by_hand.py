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

from rlcore_td3.critic_loss import CriticLoss
from rlcore_td3.trainer import DeterministicActorCritic, TD3Trainer
from rlcore_torch import Acceleration, MinibatchStacks, TransitionBatch, chosen_threads

Function = Callable[..., Any]


def _gradients(trainer: TD3Trainer) -> Mapping[Function, Function] | None:
    """Leave several rewards or ranks, and networks that are more than linear layers, to autograd."""
    model = trainer.model
    if len(trainer.providers) > 1 or trainer.ranks.size > 1:
        return None
    learned = [*model.actor.parameters(), *model.policy_head.parameters(), *model.critics.parameters()]
    if not all(each.requires_grad for each in learned):
        return None
    target = model.target
    critics = [*model.critics, *target.critics]
    memories = [0, *(1 for _ in (target, *critics))]  # each is done before another one needs it, except the policy
    stacks = MinibatchStacks.of([model, target], critics, trainer.hyperparameters.batch_size, memories)
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
        trainer = self._trainer
        rows = len(batch.inputs[0])
        if batch.weight is not None or batch.after_ends is not None or batch.raw is None or rows > self._stacks.rows:
            with torch.enable_grad():
                found: CriticLoss = TD3Trainer.critic_gradients(trainer, batch, noise)
                return found
        self._stacks.begin()
        following = batch.next_inputs[0]
        action = self._stacks.act(self._stacks.actors[1], following).tanh()
        if noise is not None:
            action = action.add_(noise).clamp_(-1.0, 1.0)
        next_value = reduce(torch.minimum, self._stacks.judge(self._targets, following, action))  # [1, B]
        target_q = batch.reward.t() + batch.discount.t() * next_value
        losses = []
        values = []
        for critic in self._critics:
            values += [value.clone() for value in self._stacks.judge([critic], batch.inputs[0], batch.raw)]
            error = values[-1] - target_q
            losses.append(error.square().mean())
            critic.backward(error.mul_(2.0 / rows))
            critic.leave()
        return CriticLoss(torch.stack(losses).sum(), losses, values[0].t())

    @torch.no_grad()
    def policy_gradients(self, batch: TransitionBatch) -> Tensor:
        trainer = self._trainer
        observed = batch.inputs[0]
        if len(observed) > self._stacks.rows:
            with torch.enable_grad():
                found: Tensor = TD3Trainer.policy_gradients(trainer, batch)
                return found
        policy = self._stacks.actors[0]
        critic = self._critics[0]
        policy.begin()
        critic.begin()  # its weights have moved
        action = self._stacks.act(policy, observed).tanh()
        [value] = self._stacks.judge([critic], observed, action)
        of_inputs = critic.backward_to_inputs(torch.full_like(value, -1.0 / len(observed)))
        policy.backward((of_inputs[:, observed.shape[1] :] * (1.0 - action.square())).t())
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
