"""The loss of PPO with its gradient written by hand, for a policy and a critic of linear layers on a CPU.

:meth:`rlcore_ppo.trainer.PPOTrainer.loss` says what is computed. This computes the same numbers, up to rounding,
without autograd, and for as many rows at once as fit in the cache of a core. ``torch_settings.fast_cpu: false`` runs
without it, and ``benchmarks/fast_cpu.py`` measures what it is worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore_ppo.settings import PPOSettings
from rlcore_torch import (
    LEAST_LOG_PROB,
    ActorCritic,
    ActorPolicy,
    Gaussian,
    LinearStack,
    Loss,
    Minibatch,
    OnPolicyTrainer,
    actor_critic_layers,
    numpy_mask_logits,
)

FloatArray = NDArray[np.float32]


class PPO(Protocol):
    """The part of :class:`rlcore_ppo.trainer.PPOTrainer` that the loss reads."""

    model: ActorCritic
    policy: ActorPolicy
    providers: Sequence[Any]
    hyperparameters: PPOSettings
    clip_range: Tensor
    entropy_weight: Tensor


def loss_by_hand(trainer: PPO) -> LossByHand | None:
    """Return the loss of ``trainer`` with its gradient; None if it has a part that this is not written for.

    Such parts are methods that a subclass overrides, networks that are more than linear layers on vector observations,
    and distributions of continuous actions other than the Gaussian.
    """
    methods = ("evaluate", "likelihood")
    if any(getattr(type(trainer), name) is not getattr(OnPolicyTrainer, name) for name in methods):
        return None
    distribution = trainer.model.policy_head.distribution
    if distribution is not None and type(distribution) is not Gaussian:
        return None
    made = actor_critic_layers(trainer.model)
    return None if made is None else LossByHand(trainer, *made)


class LossByHand:
    """Arrays of B rows that are computed at once are [numbers, B], as the layers return them."""

    def __init__(self, trainer: PPO, policy: LinearStack, critic: LinearStack, rows: int) -> None:
        self._trainer, self._policy, self._critic, self._rows = trainer, policy, critic, rows
        distribution = trainer.model.policy_head.distribution
        self._log_std = distribution.log_std if isinstance(distribution, Gaussian) else None

    @np.errstate(over="ignore", invalid="ignore")  # a loss that is not finite ends the run with a message
    @torch.no_grad()
    def __call__(self, batch: Minibatch) -> Loss:
        """Return the loss of a minibatch, and leave its gradient in the parameters."""
        trainer, rows = self._trainer, len(batch.advantage)
        clip, entropy_weight = float(trainer.clip_range), float(trainer.entropy_weight)
        log_ratio: FloatArray = np.empty(rows, np.float32)
        policy_loss = value_loss = entropy = 0.0
        self._policy.begin()
        self._critic.begin()
        of_log_std: FloatArray = np.zeros(trainer.policy.layout.continuous, np.float32)
        size = -(-rows // -(-rows // self._rows))
        for start in range(0, rows, size):
            piece = slice(start, min(start + size, rows))
            x, advantage = batch.inputs[0][piece], batch.advantage.numpy()[piece]
            parts = self._parts(batch, piece, self._policy.forward(x).numpy(), of_log_std)
            log_prob = sum(part.log_prob for part in parts)
            np.subtract(log_prob, batch.old_log_prob.numpy()[piece], out=log_ratio[piece])
            ratio = np.exp(log_ratio[piece])
            surrogate, clipped = ratio * advantage, ratio.clip(1.0 - clip, 1.0 + clip) * advantage
            policy_loss -= float(np.minimum(surrogate, clipped).sum())
            entropy += sum(part.entropy for part in parts)
            # The derivative of ratio * advantage by the log-probability is itself; where it is clipped there is none.
            slope = np.where(surrogate <= clipped, surrogate, np.float32(0.0))
            slope *= np.float32(-1.0 / rows)
            given = [part.gradient(slope, np.float32(entropy_weight / rows)) for part in parts]
            self._policy.backward(torch.from_numpy(given[0] if len(given) == 1 else np.concatenate(given)))
            of_piece, of_value = self._value_loss(batch, piece, self._critic.forward(x).numpy())
            value_loss += of_piece
            self._critic.backward(torch.from_numpy(of_value))
        for parameter, gradient in (*self._policy.gradients.items(), *self._critic.gradients.items()):
            parameter.grad = gradient
        if self._log_std is not None:
            self._log_std.grad = torch.from_numpy(of_log_std)
        policy_loss, value_loss, entropy = policy_loss / rows, value_loss / rows, entropy / rows
        total = policy_loss + trainer.hyperparameters.value_coefficient * value_loss - entropy_weight * entropy
        numbers = torch.tensor((total, policy_loss, value_loss / len(trainer.providers), entropy))
        return Loss(numbers[0], numbers[1], numbers[2], numbers[3], torch.from_numpy(log_ratio))

    def _parts(
        self, batch: Minibatch, piece: slice, output: FloatArray, of_log_std: FloatArray
    ) -> list[GaussianPart | Branch]:
        """The parts of the actions of B rows under the policy's ``output``; their gradient is added to that given."""
        parts: list[GaussianPart | Branch] = []
        first = len(of_log_std)
        if self._log_std is not None and batch.raw is not None:
            raw = batch.raw.numpy()[piece].T
            parts.append(GaussianPart(output[:first], self._log_std.numpy(), raw, of_log_std))
        if batch.choices is not None:
            layout = self._trainer.policy.layout
            logits, choices = output[first:], batch.choices.numpy()[piece].T
            allowed = None if batch.mask is None else batch.mask.numpy()[piece].T
            for offset, size, choice in zip(layout.offsets, layout.branches, choices, strict=True):
                own = slice(offset, offset + size)
                parts.append(Branch(logits[own], choice, None if allowed is None else allowed[own]))
        return parts

    def _value_loss(self, batch: Minibatch, piece: slice, value: FloatArray) -> tuple[float, FloatArray]:
        """The sum of the losses of ``value`` [R, B], and the gradient of their weighted mean over the minibatch."""
        h, returns = self._trainer.hyperparameters, batch.returns.numpy()[piece].T
        error = value - returns
        loss, slope = np.square(error), error * np.float32(2.0 * h.value_coefficient / len(batch.returns))
        if h.value_clip is not None:
            old = batch.old_value.numpy()[piece].T
            change = value - old
            limited = change.clip(-h.value_clip, h.value_clip)
            near = np.square(old + limited - returns)
            slope[(near > loss) & (limited != change)] = 0.0
            np.maximum(loss, near, out=loss)
        return float(loss.sum()), slope


class Branch:
    """The choices of a discrete branch of n options in B rows.

    Attributes:
        log_prob: [B] log-probabilities of the choices.
        entropy: The sum of the entropies of all rows, in nats.
    """

    def __init__(self, logits: FloatArray, choice: NDArray[np.int64], allowed: NDArray[np.bool_] | None) -> None:
        """``logits`` and ``allowed`` are [n, B], ``choice`` [B]."""
        if allowed is not None:
            logits = numpy_mask_logits(logits, allowed)
        shifted = logits - logits.max(0)
        exponentials = np.exp(shifted)
        total = exponentials.sum(0)
        self._p = exponentials / total
        self._log_p: FloatArray = np.maximum(shifted - np.log(total), np.float32(LEAST_LOG_PROB))
        self._chosen = choice, np.arange(len(choice))
        self.log_prob: FloatArray = self._log_p[self._chosen]
        self._entropy: FloatArray = -(self._p * self._log_p).sum(0)
        self.entropy = float(self._entropy.sum())

    def gradient(self, slope: FloatArray, entropy_weight: np.float32) -> FloatArray:
        """The gradient by the logits, [n, B], of ``slope`` [B] times log_prob less ``entropy_weight`` times entropy."""
        given: FloatArray = -self._p * slope
        given[self._chosen] += slope
        if entropy_weight:
            given += entropy_weight * self._p * (self._log_p + self._entropy)
        return given


class GaussianPart:
    """The C continuous parts of the actions of B rows; attributes as those of :class:`Branch`."""

    def __init__(self, mean: FloatArray, log_std: FloatArray, raw: FloatArray, of_log_std: FloatArray) -> None:
        """``mean`` and ``raw`` are [C, B], ``log_std`` and its gradient ``of_log_std`` [C]."""
        self._of_log_std = of_log_std
        self._inverse_std: FloatArray = np.exp(-log_std)[:, None]
        self._scaled: FloatArray = (raw - mean) * self._inverse_std
        self._squares: FloatArray = np.square(self._scaled)
        constant = float(log_std.sum()) + 0.5 * math.log(2 * math.pi) * len(log_std)
        self.log_prob: FloatArray = np.float32(-0.5) * self._squares.sum(0) - np.float32(constant)
        self.entropy = mean.shape[1] * (constant + 0.5 * len(log_std))

    def gradient(self, slope: FloatArray, entropy_weight: np.float32) -> FloatArray:
        """The gradient by the means, [C, B], as of :meth:`Branch.gradient`; that by ``log_std`` is added to its own."""
        self._of_log_std += self._squares @ slope
        self._of_log_std -= float(slope.sum()) + float(entropy_weight) * len(slope)
        given: FloatArray = self._scaled * (self._inverse_std * slope)
        return given
