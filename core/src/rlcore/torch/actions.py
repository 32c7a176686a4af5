"""Joint distributions over actions with continuous parts and discrete branches, written as plain functions.

The parts are independent given the observation, so log-probabilities and entropies add up: a diagonal Gaussian over
the continuous parts and a categorical for each branch. No distribution objects: building them costs more than the
arithmetic.

Two kinds of continuous action appear. *Raw* ones are what the Gaussian drew, and what a loss needs. The environment
gets them clipped to [-1, 1] and stretched to its bounds; an unbounded part passes unchanged.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.environment import Actions, BehaviorSpec
from rlcore.torch.mlp import refuse_second_derivative

MASKED_LOGIT = -1e8  # finite, so that the entropy's p * log p stays 0 and never NaN
LOG_STD_RANGE = (-20.0, 2.0)  # of squashed Gaussians (Haarnoja et al. 2018, as in their code)


class ActionLayout:
    """How one behavior's actions are laid out, and how raw continuous actions become the environment's."""

    def __init__(self, behavior: BehaviorSpec) -> None:
        self.continuous = behavior.continuous
        self.branches = behavior.discrete
        self.logits = sum(behavior.discrete)
        self.offsets = np.cumsum((0, *behavior.discrete))[:-1].tolist()  # first logit of each branch
        self.low = np.asarray(behavior.low, np.float32)
        self.high = np.asarray(behavior.high, np.float32)
        bounded = np.isfinite(self.low) & np.isfinite(self.high)
        # Halved before they are added or subtracted: the widest bounds of float32 would overflow.
        low, high = np.where(bounded, self.low / 2, -0.5), np.where(bounded, self.high / 2, 0.5)
        self.middle = (high + low).astype(np.float32)  # [continuous]
        self.half_range = (high - low).astype(np.float32)
        self.clip = np.where(bounded, np.float32(1.0), np.float32(np.inf))  # [continuous]
        # The most common bounds need no stretching; a step saved in every step of the environment.
        self._only_clip = bool(np.all(self.low == -self.clip) and np.all(self.high == self.clip))

    def to_environment(self, raw: NDArray[np.float32]) -> NDArray[np.float32]:
        """Raw continuous actions [..., continuous] in the environment's units, within its bounds."""
        clipped: NDArray[np.float32] = np.clip(raw, -self.clip, self.clip)
        if not self._only_clip:
            # The outer clip: rounding can step outside bounds that are not powers of two.
            clipped = np.clip(clipped * self.half_range + self.middle, self.low, self.high)
        return clipped

    def to_raw(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """The raw actions that :meth:`to_environment` makes these of, within [-1, 1] where there are bounds."""
        # A part without any range has the same raw action whatever it does.
        raw = (actions - self.middle) / np.where(self.half_range > 0, self.half_range, np.float32(1))
        return np.clip(raw, -self.clip, self.clip)

    def greedy_choices(self, logits: NDArray[np.float32]) -> NDArray[np.int64]:
        """The largest logit of each branch: [R, branches] from [R, logits]."""
        if len(self.branches) == 1:
            choice: NDArray[np.int64] = logits.argmax(-1)[:, None]
            return choice
        columns = [
            logits[:, offset : offset + size].argmax(-1)
            for offset, size in zip(self.offsets, self.branches, strict=True)
        ]
        return np.stack(columns, axis=-1)

    def actions(self, raw: NDArray[np.float32] | None, choices: NDArray[np.int64] | None) -> Actions:
        return Actions(None if raw is None else self.to_environment(raw), choices)


def gumbel_noise(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Standard Gumbel noise: the argmax of logits plus this noise is a draw from their softmax (Gumbel 1954)."""
    # random() is a multiple of 2^-24 in [0, 1), so 1 - random() is in (0, 1] and its logarithm finite. Exactly 1 would
    # give log(0): it stands for all numbers from 1 - 2^-24 on, and the middle of those takes its place.
    exponential = -np.log(1.0 - generator.random(shape, dtype=np.float32))
    noise: NDArray[np.float32] = -np.log(np.maximum(exponential, np.float32(2.0**-25)))
    return noise


def mask_logits(logits: Tensor, mask: Tensor) -> Tensor:
    """Logits with forbidden options (mask False) put out of reach."""
    return torch.where(mask, logits, MASKED_LOGIT)


def gaussian_log_prob(mean: Tensor, log_std: Tensor, raw: Tensor) -> Tensor:
    """log N(raw; mean, diag(exp(log_std))^2), summed over parts: [B] from [B, C], [C], [B, C]."""
    scaled = (raw - mean) * torch.exp(-log_std)
    return -0.5 * scaled.square().sum(-1) - (log_std.sum() + 0.5 * math.log(2 * math.pi) * mean.shape[-1])


def gaussian_entropy(log_std: Tensor) -> Tensor:
    """Entropy of the diagonal Gaussian in nats, a scalar."""
    return log_std.sum() + 0.5 * (1.0 + math.log(2 * math.pi)) * log_std.shape[-1]


def squashed_gaussian(columns: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions tanh(mean + std * noise) [B, C] and their joint log-probability [B]; differentiable in ``columns``.

    ``columns`` [B, 2C] holds the means, then the log standard deviations; ``noise`` [B, C] is standard normal. The
    log-probability is corrected for the change of variables (Haarnoja et al. 2018, arXiv:1801.01290, appendix C).
    """
    return _SquashedGaussian.apply(columns, noise)  # type: ignore[no-any-return, no-untyped-call]


class _SquashedGaussian(torch.autograd.Function):
    """With a = tanh(u), u = mean + std * noise: da/du = 1 - a^2, and d log_prob = 2 a du - d log_std."""

    @staticmethod
    def forward(ctx: Any, columns: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        parts = noise.shape[1]
        mean, given = columns[:, :parts], columns[:, parts:]
        log_std = given.clamp(*LOG_STD_RANGE)
        spread = log_std.exp() * noise
        u = mean + spread
        action = u.tanh()
        # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), which does not cancel for large u.
        log_slope = 2.0 * (math.log(2.0) - u - torch.nn.functional.softplus(-2.0 * u))
        log_prob = -(0.5 * noise.square() + log_std + log_slope).sum(-1) - 0.5 * math.log(2 * math.pi) * parts
        ctx.save_for_backward(action, spread, (given == log_std))
        return action, log_prob

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        refuse_second_derivative("write it with torch.distributions")
        of_action, of_log_prob = gradients
        action, spread, inside = ctx.saved_tensors
        of_log_prob = of_log_prob.unsqueeze(-1)
        of_u = of_action * (1.0 - action.square()) + of_log_prob * (2.0 * action)
        return torch.cat([of_u, (of_u * spread - of_log_prob) * inside], dim=1), None


def categorical_log_prob_entropy(logits: Tensor, choice: Tensor) -> tuple[Tensor, Tensor]:
    """log-probability of ``choice`` [B] and entropy [B] under ``logits`` [B, options]."""
    return _Categorical.apply(logits, choice.unsqueeze(-1))  # type: ignore[no-any-return, no-untyped-call]


class _Categorical(torch.autograd.Function):
    """One node of the autograd graph instead of eight.

    With p the softmax of the logits and H its entropy: d log p_c / d logits = onehot(c) - p, and
    d H / d logits = -p (log p + H).
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, choice: Tensor) -> tuple[Tensor, Tensor]:
        log_p = torch.log_softmax(logits, dim=-1)
        p = log_p.exp()
        entropy = -(p * log_p).sum(-1)
        ctx.save_for_backward(log_p, p, entropy, choice)
        ctx.set_materialize_grads(False)  # a loss without an entropy bonus has no gradient of the entropy
        return log_p.gather(-1, choice).squeeze(-1), entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        refuse_second_derivative("write it with torch.distributions.Categorical")
        of_log_prob, of_entropy = gradients
        log_p, p, entropy, choice = ctx.saved_tensors
        answer: Tensor | None = None
        if of_log_prob is not None:
            of_log_prob = of_log_prob.unsqueeze(-1)
            answer = (p * -of_log_prob).scatter_add_(-1, choice, of_log_prob)
        if of_entropy is not None:
            slope = p * (log_p + entropy.unsqueeze(-1)) * of_entropy.unsqueeze(-1)
            answer = -slope if answer is None else answer.sub_(slope)
        return answer, None


def joint_log_prob_entropy(
    layout: ActionLayout,
    mean: Tensor | None,  # [B, continuous]
    log_std: Tensor | None,  # [continuous]
    logits: Tensor | None,  # [B, logits], already masked
    raw: Tensor | None,  # [B, continuous]
    choices: Tensor | None,  # [B, branches]
) -> tuple[Tensor, Tensor]:
    """Joint log-probability [B] and joint entropy ([B], or a scalar where it does not depend on the observation)."""
    log_prob: Tensor | None = None
    entropy: Tensor | None = None
    if mean is not None and log_std is not None and raw is not None:
        log_prob = gaussian_log_prob(mean, log_std, raw)
        entropy = gaussian_entropy(log_std)
    if logits is not None and choices is not None:
        for k, (offset, size) in enumerate(zip(layout.offsets, layout.branches, strict=True)):
            branch = logits if len(layout.branches) == 1 else logits[:, offset : offset + size]
            branch_log_prob, branch_entropy = categorical_log_prob_entropy(branch, choices[:, k])
            log_prob = branch_log_prob if log_prob is None else log_prob + branch_log_prob
            entropy = branch_entropy if entropy is None else entropy + branch_entropy
    if log_prob is None or entropy is None:
        raise ValueError("a behavior needs at least one continuous part or one discrete branch")
    return log_prob, entropy
