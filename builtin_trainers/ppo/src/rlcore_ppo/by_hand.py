"""The loss of PPO with its gradient written by hand, for a policy and a critic of linear layers on a CPU.

:meth:`rlcore_ppo.trainer.PPOTrainer.loss` says what is computed. This computes the same numbers, up to rounding,
without autograd, and for as many rows at once as fit in the cache of a core. ``torch_settings.fast_cpu: false`` runs
without it, and ``benchmarks/fast_cpu.py`` measures what it is worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore_ppo.trainer import PPOTrainer
from rlcore_torch import (
    LEAST_LOG_PROB,
    Acceleration,
    Gaussian,
    LinearStack,
    Loss,
    Minibatch,
    OnPolicyTrainer,
    actor_critic_layers,
    numpy_mask_logits,
)

FloatArray = NDArray[np.float32]
Function = Callable[..., Any]


def _gradients(trainer: PPOTrainer) -> Mapping[Function, Function] | None:
    """Leave networks that are more than linear layers, and distributions other than the Gaussian, to autograd."""
    distribution = trainer.model.policy_head.distribution
    if distribution is not None and type(distribution) is not Gaussian:
        return None
    # Minibatches have about `batch_size` rows, and fewer than one and a half times as many.
    most_rows = 2 * trainer.hyperparameters.batch_size
    stacks = actor_critic_layers(trainer.model, most_rows)
    if stacks is None:
        return None
    by_hand = LossByHand(trainer, *stacks)
    return {OnPolicyTrainer.backward: by_hand.backward}


class LossByHand:
    """Arrays of B rows that are computed at once are [numbers, B], as the layers return them."""

    def __init__(self, trainer: PPOTrainer, policy: LinearStack, critic: LinearStack, inputs: Tensor) -> None:
        self._trainer = trainer
        self._policy = policy
        self._critic = critic
        self._inputs = inputs
        self._columns: FloatArray = inputs.numpy()[:, :-1]
        self._numbers = np.arange(len(inputs))
        distribution = trainer.model.policy_head.distribution
        self._log_std: Tensor | None = None
        if isinstance(distribution, Gaussian):
            self._log_std = distribution.log_std

    def backward(self, loss: Function, batch: Minibatch) -> Loss:
        """Leave the gradient of ``loss`` of ``batch`` in the parameters; any loss but PPO's is left to autograd."""
        is_ppos = getattr(loss, "__func__", None) is PPOTrainer.loss
        if is_ppos and len(batch.advantage):
            return self(batch)
        return OnPolicyTrainer.backward(self._trainer, loss, batch)

    @np.errstate(over="ignore", invalid="ignore")  # a loss that is not finite ends the run with a message
    @torch.no_grad()
    def __call__(self, batch: Minibatch) -> Loss:
        """Return the loss of a minibatch, and leave its gradient in the parameters."""
        trainer = self._trainer
        policy = self._policy
        critic = self._critic
        rows = len(batch.advantage)
        clip_range = float(trainer.clip_range)
        least = np.float32(1.0 - clip_range)
        most = np.float32(1.0 + clip_range)
        entropy_weight = float(trainer.entropy_weight)
        entropy_weight_of_row = np.float32(entropy_weight / rows)
        inputs = batch.inputs[0].numpy()
        advantages = batch.advantage.numpy()
        old_log_prob = batch.old_log_prob.numpy()
        log_ratio: FloatArray = np.empty(rows, np.float32)
        log_std_gradient: FloatArray = np.zeros(trainer.policy.layout.continuous, np.float32)
        policy_loss = value_loss = entropy = 0.0
        policy.begin()
        critic.begin()
        # Pieces of about equal size, each within the memory of the stacks.
        pieces = math.ceil(rows / len(self._inputs))
        size = math.ceil(rows / pieces)
        for start in range(0, rows, size):
            piece = slice(start, min(start + size, rows))
            advantage = advantages[piece]
            count = len(advantage)
            self._columns[:count] = inputs[piece]
            output = policy.forward(count).numpy()
            parts = self._parts(batch, piece, output, log_std_gradient)
            log_prob = sum(part.log_prob for part in parts)
            of_piece = np.subtract(log_prob, old_log_prob[piece], out=log_ratio[piece])
            ratio = np.exp(of_piece)
            surrogate = ratio * advantage
            np.putmask(surrogate, advantage == 0.0, 0.0)  # an infinite ratio has no weight there either
            np.maximum(ratio, least, out=ratio)
            clipped = np.minimum(ratio, most, out=ratio)
            clipped *= advantage
            smaller = np.minimum(surrogate, clipped)  # eq. 7
            policy_loss -= float(smaller.sum())
            entropy += sum(part.entropy for part in parts)
            # The derivative of ratio * advantage by the log-probability is itself; where it is clipped there is none.
            np.putmask(surrogate, surrogate > clipped, 0.0)
            slope = surrogate
            slope *= np.float32(-1.0 / rows)
            gradients = [part.gradient(slope, entropy_weight_of_row) for part in parts]
            output_gradient = gradients[0]
            if len(gradients) > 1:
                output_gradient = np.concatenate(gradients)
            policy.backward(torch.from_numpy(output_gradient))
            values = critic.forward(count).numpy()
            squares, value_gradient = self._value_loss(batch, piece, values)
            value_loss += squares
            critic.backward(torch.from_numpy(value_gradient))
        for stack in (policy, critic):
            for parameter, gradient in stack.gradients.items():
                parameter.grad = gradient
        if self._log_std is not None:
            self._log_std.grad = torch.from_numpy(log_std_gradient)
        policy_loss = policy_loss / rows
        value_loss = value_loss / rows
        entropy = entropy / rows
        total = policy_loss + trainer.hyperparameters.value_coefficient * value_loss - entropy_weight * entropy
        mean_value_loss = value_loss / len(trainer.providers)
        numbers = torch.tensor((total, policy_loss, mean_value_loss, entropy))
        return Loss(numbers[0], numbers[1], numbers[2], numbers[3], torch.from_numpy(log_ratio))

    def _parts(
        self, batch: Minibatch, piece: slice, output: FloatArray, log_std_gradient: FloatArray
    ) -> list[GaussianPart | Branch]:
        """Return the parts of the actions of B rows under the policy's ``output``.

        Their :meth:`Branch.gradient` adds to ``log_std_gradient``.
        """
        parts: list[GaussianPart | Branch] = []
        continuous = len(log_std_gradient)
        if self._log_std is not None and batch.raw is not None:
            raw = batch.raw.numpy()[piece].T
            mean = output[:continuous]
            parts.append(GaussianPart(mean, self._log_std.numpy(), raw, log_std_gradient))
        if batch.choices is None:
            return parts
        layout = self._trainer.policy.layout
        logits = output[continuous:]
        choices = batch.choices.numpy()[piece].T
        for offset, size, choice in zip(layout.offsets, layout.branches, choices, strict=True):
            options = slice(offset, offset + size)
            allowed = None
            if batch.mask is not None:
                mask = batch.mask.numpy()[piece].T
                allowed = mask[options]
            row = self._numbers[: len(choice)]
            parts.append(Branch(logits[options], choice, allowed, row))
        return parts

    def _value_loss(self, batch: Minibatch, piece: slice, value: FloatArray) -> tuple[float, FloatArray]:
        """The sum of the losses of ``value`` [R, B], and the gradient of their weighted mean over the minibatch."""
        h = self._trainer.hyperparameters
        limit = h.value_clip
        targets = batch.returns.numpy()
        returns = targets[piece].T
        error = value - returns
        slope = error * np.float32(2.0 * h.value_coefficient / len(targets))
        if limit is None:
            return float(np.vdot(error, error)), slope
        loss = np.square(error)
        old = batch.old_value.numpy()[piece].T
        change = value - old
        limited = change.clip(-limit, limit)
        near = np.square(old + limited - returns)
        # Where the limited value is farther from its target, the loss is its own, which does not depend on the value.
        is_limited = (near > loss) & (limited != change)
        slope[is_limited] = 0.0
        np.maximum(loss, near, out=loss)
        return float(loss.sum()), slope


class Branch:
    """The choices of a discrete branch of n options in B rows.

    Attributes:
        log_prob: [B] log-probabilities of the choices.
        entropy: The sum of the entropies of all rows, in nats.
    """

    def __init__(
        self, logits: FloatArray, choice: NDArray[np.int64], allowed: NDArray[np.bool_] | None, row: NDArray[np.int64]
    ) -> None:
        """``logits`` and ``allowed`` are [n, B], ``choice`` and ``row`` [B]; the rows count from 0."""
        if allowed is not None:
            logits = numpy_mask_logits(logits, allowed)
        self._log_p: FloatArray = np.subtract(logits, logits.max(0), order="C")
        self._p: FloatArray = np.exp(self._log_p)
        total = self._p.sum(0)
        self._p /= total
        self._log_p -= np.log(total)
        # The limit of `log_probabilities`: 0 times minus infinity would make an entropy NaN.
        np.maximum(self._log_p, np.float32(LEAST_LOG_PROB), out=self._log_p)
        self._chosen = choice * len(row) + row  # places in an array [n, B], taken as one row
        flat = self._log_p.reshape(-1)
        self.log_prob: FloatArray = flat[self._chosen]
        self.entropy = -float(np.vdot(self._p, self._log_p))

    def gradient(self, slope: FloatArray, entropy_weight: np.float32) -> FloatArray:
        """The gradient by the logits, [n, B], of ``slope`` [B] times log_prob less ``entropy_weight`` times entropy."""
        gradient: FloatArray = self._p * -slope
        flat = gradient.reshape(-1)
        flat[self._chosen] += slope
        if entropy_weight:
            entropy = -(self._p * self._log_p).sum(0)
            gradient += entropy_weight * self._p * (self._log_p + entropy)
        return gradient


class GaussianPart:
    """The C continuous parts of the actions of B rows; attributes as those of :class:`Branch`."""

    def __init__(self, mean: FloatArray, log_std: FloatArray, raw: FloatArray, log_std_gradient: FloatArray) -> None:
        """``mean`` and ``raw`` are [C, B], ``log_std`` and ``log_std_gradient`` [C]."""
        self._log_std_gradient = log_std_gradient
        self._inverse_std: FloatArray = np.exp(-log_std)[:, None]
        self._scaled: FloatArray = (raw - mean) * self._inverse_std
        self._squares: FloatArray = np.square(self._scaled)
        parts = len(log_std)
        constant = float(log_std.sum()) + 0.5 * math.log(2 * math.pi) * parts
        squared_distance = self._squares.sum(0)
        self.log_prob: FloatArray = np.float32(-0.5) * squared_distance - np.float32(constant)
        entropy_of_row = constant + 0.5 * parts
        self.entropy = mean.shape[1] * entropy_of_row

    def gradient(self, slope: FloatArray, entropy_weight: np.float32) -> FloatArray:
        """The gradient by the means, [C, B], as of :meth:`Branch.gradient`; that by ``log_std`` is added to its own."""
        self._log_std_gradient += self._squares @ slope
        self._log_std_gradient -= float(slope.sum()) + float(entropy_weight) * len(slope)
        gradient: FloatArray = self._scaled * (self._inverse_std * slope)
        return gradient


GRADIENTS = Acceleration[PPOTrainer](
    piece="by_hand",
    methods=(PPOTrainer.loss, OnPolicyTrainer.backward, OnPolicyTrainer.evaluate, OnPolicyTrainer.likelihood),
    make=_gradients,
)
