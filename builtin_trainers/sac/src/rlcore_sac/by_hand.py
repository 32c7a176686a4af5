"""The gradients of SAC's losses written by hand, for networks of linear layers and continuous actions on a CPU.

:meth:`rlcore_sac.trainer.SACTrainer.gradients` says what is computed. This computes the same numbers, up to rounding,
with autograd for the distribution of the actions alone: recording and walking the graph of five networks takes a fifth
of a gradient step. ``torch_settings.fast_cpu: false`` runs without it, and ``benchmarks/fast_cpu.py`` measures what it
is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from rlcore_sac.step_parts import CriticLoss, Gradients, PolicyDraw, StepNoise
from rlcore_sac.trainer import SACTrainer, SoftActorCritic
from rlcore_torch import Acceleration, MinibatchStacks, SquashedGaussian, TransitionBatch, chosen_threads

Function = Callable[..., Any]


def _gradients(trainer: SACTrainer) -> Mapping[Function, Function] | None:
    """Leave discrete branches, several rewards, steps or ranks, and networks that are more than layers to autograd."""
    model = trainer.model
    h = trainer.hyperparameters
    several = model.rewards > 1 or h.n_steps > 1 or trainer.ranks.size > 1
    if trainer.policy.layout.branches or several or model.privileged is not None:
        return None
    if type(model.policy_head.distribution) is not SquashedGaussian:
        return None
    learned = [*model.actor.parameters(), *model.policy_head.parameters(), *model.critics.parameters()]
    if not all(each.requires_grad for each in learned):
        return None
    # One after the other, each is done before another one needs the memory, except the policy and one critic.
    stacks = MinibatchStacks.of([model], [*model.critics, *model.targets], h.batch_size, (0, 1, 2, 1, 1))
    return None if stacks is None else {SACTrainer.gradients: GradientsByHand(trainer, stacks)}


class GradientsByHand:
    """Leaves the gradients of a minibatch of B transitions in the parameters; values of layers are [outputs, B]."""

    def __init__(self, trainer: SACTrainer, stacks: MinibatchStacks) -> None:
        self._trainer = trainer
        self._stacks = stacks
        self._policy = stacks.actors[0]
        self._critics = stacks.critics[:2]
        self._targets = stacks.critics[2:]

    @torch.no_grad()
    def __call__(self, batch: TransitionBatch, noise: StepNoise) -> Gradients:
        trainer = self._trainer
        model = self._trainer.model
        rows = len(batch.inputs[0])
        plain = batch.weight is None and batch.after_ends is None and rows <= self._stacks.rows
        if not plain or noise.here is None or noise.next is None or batch.raw is None:
            with torch.enable_grad():
                found: Gradients = SACTrainer.gradients(trainer, batch, noise)
                return found
        self._stacks.begin()
        # [1]
        observed = batch.inputs[0]
        temperature = model.log_temperature.exp()

        columns = self._stacks.act(self._policy, observed).clone().requires_grad_()
        with torch.enable_grad():
            action, log_prob = self._draw(columns, noise.here)
        one, two = self._stacks.judge(self._critics, observed, action)  # [1, B]
        chosen = one <= two
        policy_loss = (temperature * log_prob - torch.where(chosen, one, two)).mean()
        share = chosen.to(one.dtype).mul_(-1.0 / rows)
        of_action = self._critics[0].backward_to_inputs(share)
        of_action = of_action + self._critics[1].backward_to_inputs((~chosen).to(one.dtype).mul_(-1.0 / rows))
        of_log_prob = (temperature / rows).expand(rows)
        torch.autograd.backward([action, log_prob], [of_action[:, observed.shape[1] :], of_log_prob])
        assert columns.grad is not None
        self._policy.backward(columns.grad.t())
        self._policy.leave()
        log_prob = log_prob.detach()
        model.log_temperature.grad = (-log_prob - trainer.continuous_target).mean().unsqueeze(0)

        following = batch.next_inputs[0]
        next_action, next_log_prob = self._draw(self._stacks.act(self._policy, following), noise.next)
        first, second = self._stacks.judge(self._targets, following, next_action)
        next_value = torch.minimum(first, second).t() - (temperature * next_log_prob).unsqueeze(1)
        target_q = (batch.reward + batch.discount * next_value).t()  # [1, B]
        losses = []
        values = []
        for critic in self._critics:
            values += [value.clone() for value in self._stacks.judge([critic], observed, batch.raw)]
            error = values[-1] - target_q
            losses.append(0.5 * error.square().mean())
            critic.backward(error.div_(rows))
            critic.leave()
        critic_loss = CriticLoss(losses[0] + losses[1], (losses[0], losses[1]), values[0].t())
        return Gradients(PolicyDraw(action.detach(), log_prob, None, None), policy_loss, critic_loss)

    def _draw(self, columns: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        distribution = self._trainer.model.policy_head.distribution
        assert distribution is not None
        drawn: tuple[Tensor, Tensor] = distribution.sample_log_prob(columns, noise)
        return drawn


GRADIENTS = Acceleration[SACTrainer](
    piece="by_hand",
    methods=(
        SACTrainer.gradients,
        SACTrainer.policy_loss,
        SACTrainer.temperature_loss,
        SACTrainer.critic_loss,
        SACTrainer._soft_value,
    ),
    model_methods=(
        SoftActorCritic.draw,
        SoftActorCritic.q_values,
        SoftActorCritic.encode_once,
        SoftActorCritic.entropy_bonus,
        SoftActorCritic.policy,
        SoftActorCritic.of_actor,
    ),
    make=_gradients,
)
THREADS = chosen_threads(SACTrainer)
