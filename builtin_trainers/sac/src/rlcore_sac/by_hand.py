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

from rlcore_sac.trainer import CriticLoss, Gradients, PolicyDraw, SACNoise, SACTrainer, SoftActorCritic
from rlcore_torch import Acceleration, MinibatchStacks, SquashedGaussian, TransitionBatch, chosen_threads

Function = Callable[..., Any]


def _gradients(trainer: SACTrainer) -> Mapping[Function, Function] | None:
    """Leave branches, several rewards, steps or ranks, other critics than two, and more than layers to autograd."""
    model = trainer.model
    h = trainer.hyperparameters
    several = model.rewards > 1 or h.n_steps > 1 or trainer.ranks.size > 1
    if h.num_critics != 2 or h.target_critics is not None or h.policy_value != "min" or h.policy_delay != 1:
        return None
    if trainer.policy.layout.branches or several or model.privileged is not None:
        return None
    if type(model.policy_head.distribution) is not SquashedGaussian:
        return None
    learned = [*model.actor.parameters(), *model.policy_head.parameters(), *model.critics.parameters()]
    if not all(parameter.requires_grad for parameter in learned):
        return None
    critics = [*model.critics, *model.targets]
    # One after the other, each is done before another one needs the memory, except the policy and one critic.
    memories = (0, 1, 2, 1, 1)
    stacks = MinibatchStacks.of([model], critics, h.batch_size, memories)
    if stacks is None:
        return None
    return {SACTrainer.gradients: GradientsByHand(trainer, stacks)}


class GradientsByHand:
    """Leaves the gradients of a minibatch of B transitions in the parameters; values of layers are [outputs, B]."""

    def __init__(self, trainer: SACTrainer, stacks: MinibatchStacks) -> None:
        self._trainer = trainer
        self._stacks = stacks
        self._policy = stacks.actors[0]
        self._critics = stacks.critics[:2]
        self._targets = stacks.critics[2:]

    @torch.no_grad()
    def __call__(self, batch: TransitionBatch, noise: SACNoise) -> Gradients:
        trainer = self._trainer
        stacks = self._stacks
        model = trainer.model
        rows = len(batch.inputs[0])
        plain = batch.weight is None and batch.after_ends is None and rows <= stacks.rows
        if not plain or batch.raw is None:
            with torch.enable_grad():
                gradients: Gradients = SACTrainer.gradients(trainer, batch, noise)
                return gradients
        stacks.begin()
        observed = batch.inputs[0]
        temperature = model.log_temperature.exp()  # [1]

        # The policy (eq. 7): alpha log pi(a) less the smaller Q of a, whose gradient by a comes through that critic.
        columns = stacks.act(self._policy, observed).clone().requires_grad_()
        with torch.enable_grad():
            action, log_prob = self._draw(columns, noise.here)
        q1, q2 = stacks.judge(self._critics, observed, action)  # [1, B]
        is_first = q1 <= q2
        policy_loss = (temperature * log_prob - torch.where(is_first, q1, q2)).mean()
        weight1 = is_first.to(q1.dtype).mul_(-1.0 / rows)
        weight2 = (~is_first).to(q1.dtype).mul_(-1.0 / rows)
        critic1, critic2 = self._critics
        of_inputs = critic1.backward_to_inputs(weight1)
        of_inputs = of_inputs + critic2.backward_to_inputs(weight2)
        of_action = of_inputs[:, observed.shape[1] :]
        of_log_prob = (temperature / rows).expand(rows)
        torch.autograd.backward([action, log_prob], [of_action, of_log_prob])
        assert columns.grad is not None
        self._policy.backward(columns.grad.t())
        self._policy.leave()
        log_prob = log_prob.detach()
        excess = -log_prob - trainer.continuous_target  # of entropy, eq. 18
        model.log_temperature.grad = excess.mean().unsqueeze(0)

        # The critics (eq. 5), against the soft value of eq. 3.
        following = batch.next_inputs[0]
        next_columns = stacks.act(self._policy, following)
        next_action, next_log_prob = self._draw(next_columns, noise.next)
        target1, target2 = stacks.judge(self._targets, following, next_action)
        next_bonus = (temperature * next_log_prob).unsqueeze(1)
        next_value = torch.minimum(target1, target2).t() - next_bonus
        target_q = (batch.reward + batch.discount * next_value).t()  # [1, B]
        losses = []
        values = []
        for critic in self._critics:
            (value,) = stacks.judge([critic], observed, batch.raw)
            values.append(value.clone())
            error = value - target_q
            losses.append(0.5 * error.square().mean())
            critic.backward(error.div_(rows))
            critic.leave()
        loss1, loss2 = losses
        critic_loss = CriticLoss(loss1 + loss2, (loss1, loss2), values[0].t())
        drawn = PolicyDraw(action.detach(), log_prob, None, None)
        return Gradients(drawn, policy_loss, critic_loss)

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
