"""Joint distributions over actions with continuous parts and discrete branches, and the noise to draw from them.

The parts are independent given the observation, so log-probabilities and entropies add up: those of the continuous
parts, for which :mod:`rlcore_torch.networks.distributions` has one object, and of a categorical for each branch.

Continuous actions have two forms. A *raw* action is what the distribution drew, and what a loss needs. The environment
gets it clipped to [-1, 1] and stretched to its bounds; an unbounded part passes unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import Actions, BehaviorSpec, SlotShare, UnsupportedSpace, saved_array, saved_count
from rlcore_torch.arrays import FloatArray, IntArray
from rlcore_torch.networks.distributions import LOG_STD_RANGE, ActionDistribution, squashed_draw

__all__ = [
    "ActionLayout",
    "DiscreteOptions",
    "joint_log_prob_entropy",
    "log_probabilities",
    "mask_logits",
    "squashed_gaussian",
]

MASKED_LOGIT = float(np.finfo(np.float32).min)
"""The logit of a forbidden option: the smallest float32, which stays the smallest when noise is added."""
LEAST_LOGIT = float(np.nextafter(np.float32(MASKED_LOGIT), np.float32(0.0)))
"""The smallest logit of an allowed option under a mask: smaller ones are raised to it."""
LARGEST_LOGIT = -MASKED_LOGIT
"""The logit that exported policies have instead of NaN and infinity, so that the choice is the policy's own."""
# With at most this many combinations of all branches, critics value each combination by itself.
MAX_JOINT_OPTIONS = 256
LEAST_LOG_PROB = -1e30
"""The smallest log-probability: finite, so that p * log p stays 0 and never NaN, also times an entropy coefficient."""


class ActionLayout:
    """How one behavior's actions are laid out, and how raw continuous actions become the environment's.

    Attributes:
        continuous: Number of continuous parts.
        branches: Number of options of each discrete branch.
        logits: Number of options of all branches.
        offsets: Index of the first logit of each branch.
        low: [continuous] lower bounds.
        high: [continuous] upper bounds.
        middle: [continuous] middle of the range; 0 where unbounded.
        half_range: [continuous] half of the range; 1 where unbounded.
        clip: [continuous] largest absolute value of a raw part: 1, or infinite where unbounded.
    """

    def __init__(self, behavior: BehaviorSpec) -> None:
        self.continuous = behavior.continuous
        self.branches = behavior.discrete
        self.logits = sum(behavior.discrete)
        ends = np.cumsum((0, *behavior.discrete))
        self.offsets = ends[:-1].tolist()  # first logit of each branch
        self.low = np.asarray(behavior.low, np.float32)
        self.high = np.asarray(behavior.high, np.float32)
        bounded = np.isfinite(self.low) & np.isfinite(self.high)
        # Halved before they are added or subtracted: the widest bounds of float32 would overflow.
        half_low = np.where(bounded, self.low / 2, -0.5)
        half_high = np.where(bounded, self.high / 2, 0.5)
        middle = half_high + half_low
        half_range = half_high - half_low
        self.middle = middle.astype(np.float32)
        self.half_range = half_range.astype(np.float32)
        self.clip = np.where(bounded, np.float32(1.0), np.float32(np.inf))  # [continuous]
        # The most common bounds need no stretching, which saves an operation in every environment step.
        is_clip = (self.low == -self.clip) & (self.high == self.clip)
        self._only_clip = bool(is_clip.all())

    def to_environment(self, raw: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return raw continuous actions [..., continuous] in the environment's units, within its bounds."""
        clipped: FloatArray = np.clip(raw, -self.clip, self.clip)
        if not self._only_clip:
            stretched = clipped * self.half_range + self.middle
            # Clipped again: rounding can step outside bounds that are not powers of two.
            clipped = np.clip(stretched, self.low, self.high)
        return clipped

    def to_raw(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the raw actions of ``actions`` [..., continuous] of the environment.

        They are within [-1, 1] where the action has bounds.
        """
        # A part without any range has the same raw action whatever it does.
        divisor = np.where(self.half_range > 0, self.half_range, np.float32(1))
        raw = (actions - self.middle) / divisor
        return np.clip(raw, -self.clip, self.clip)

    def greedy_choices(self, logits: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the index of the largest logit of each branch: [R, branches] from [R, logits]."""
        if len(self.branches) == 1:
            choice: IntArray = logits.argmax(-1, keepdims=True)
            return choice
        columns = []
        for offset, size in zip(self.offsets, self.branches, strict=True):
            branch = logits[:, offset : offset + size]
            columns.append(branch.argmax(-1))
        return np.stack(columns, axis=-1)

    def actions(self, raw: NDArray[np.float32] | None, choices: NDArray[np.int64] | None) -> Actions:
        """Return the actions of the environment for raw parts [R, continuous] and choices [R, branches]."""
        continuous = None if raw is None else self.to_environment(raw)
        return Actions(continuous, choices)


def require_bounds(behavior: BehaviorSpec, what: str, instead: str) -> None:
    """Raise UnsupportedSpace if a continuous part has no bounds: ``what`` draws from [-1, 1] only.

    The message advises to choose ``instead``.
    """
    bounds = zip(behavior.low.tolist(), behavior.high.tolist(), strict=True)
    for part, (low, high) in enumerate(bounds):
        if not (math.isfinite(low) and math.isfinite(high)):
            raise UnsupportedSpace(
                f"behavior {behavior.name!r}: part {part} of the {behavior.continuous} continuous parts of an action "
                f"has the bounds {low:g} and {high:g}, and {what} acts within bounds only; give the "
                f"action space finite bounds, or choose {instead}"
            )


def gumbel_noise(generator: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Standard Gumbel noise: the argmax of logits plus this noise is a draw from their softmax (Gumbel 1954)."""
    # random() is a multiple of 2^-24 in [0, 1), so 1 - random() is in (0, 1] and its logarithm finite. Exactly 1 would
    # give log(0): it stands for all numbers from 1 - 2^-24 on, and the middle of those takes its place.
    uniform = generator.random(shape, dtype=np.float32)
    exponential = -np.log(1.0 - uniform)
    above_zero = np.maximum(exponential, np.float32(2.0**-25))
    noise: FloatArray = -np.log(above_zero)
    return noise


class ActionNoise:
    """Noise for acting, drawn for many steps at once: a draw for one step costs as much as the network."""

    def __init__(
        self,
        behavior: BehaviorSpec,
        rows: int,
        generator: np.random.Generator,
        noise_size: int | None = None,
        share: SlotShare | None = None,
        hold: int = 1,
    ) -> None:
        """Draw for ``rows`` steps at once: ``noise_size`` Gaussian numbers for each agent, or one for each part.

        Each agent keeps its Gaussian numbers for ``hold`` steps.

        With the ``share`` of a rank, numbers are drawn for the agents of all ranks, and those of its own are used: an
        agent gets the same numbers whichever rank it is in.
        """
        self._generator = generator
        self._hold = hold
        self._total = behavior.slots  # agents of all ranks
        self._slots: Any = slice(None)  # those of this rank among them
        if share is not None and share.total != behavior.slots:
            self._total = share.total
            self._slots = share.numbers
        if noise_size is None:
            noise_size = behavior.continuous
        draws = -(-rows // hold)
        self._gaussian = np.empty((draws, behavior.slots, noise_size), np.float32)
        self._gumbel = np.empty((draws * hold, behavior.slots, behavior.mask_size), np.float32)
        self._gaussian_shape = self._gaussian.shape
        self._gumbel_shape = self._gumbel.shape
        self._row = draws * hold  # the step that is next; at the end, the first call draws

    def next(self) -> tuple[FloatArray, FloatArray]:
        """Return Gaussian noise [S, noise_size] and Gumbel noise [S, logits] of one step."""
        if self._row == len(self._gumbel):
            self._draw()
            self._row = 0
        row = self._row
        self._row = row + 1
        return self._gaussian[row // self._hold], self._gumbel[row]

    def _draw(self) -> None:
        draws, _, noise_size = self._gaussian_shape
        rows, _, logits = self._gumbel_shape
        shape = (draws, self._total, noise_size)
        gaussian = self._generator.standard_normal(shape, dtype=np.float32)
        gumbel = gumbel_noise(self._generator, (rows, self._total, logits))
        self._gaussian = gaussian[:, self._slots]
        self._gumbel = gumbel[:, self._slots]

    def state_dict(self) -> dict[str, Any]:
        """Return the noise that was drawn and not used yet."""
        draw, used = divmod(self._row, self._hold)
        first = draw * self._hold  # a draw that is still held is saved with all of its steps
        state: dict[str, Any] = {}
        state["gaussian"] = self._gaussian[draw:].copy()
        state["gumbel"] = self._gumbel[first:].copy()
        if used:
            state["used"] = used
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises SavedValueError if the shapes do not fit."""
        # The saved noise may be longer than one draw of this run: its buffer_size may have changed.
        _, *of_draw = self._gaussian_shape
        _, *of_step = self._gumbel_shape
        gaussian = saved_array(state, "gaussian", np.float32, (None, *of_draw))
        steps = len(gaussian) * self._hold
        gumbel = saved_array(state, "gumbel", np.float32, (steps, *of_step))
        self._gaussian = gaussian.copy()
        self._gumbel = gumbel.copy()
        self._row = 0
        if "used" in state:
            self._row = saved_count(state, "used")


def mask_logits(logits: Tensor, mask: Tensor) -> Tensor:
    """Return ``logits`` [B, logits] with those of forbidden options (``mask`` [B, logits] False) below all others.

    Forbidden options get :data:`MASKED_LOGIT`, and allowed ones at least :data:`LEAST_LOGIT`: whatever the logits are,
    the largest one, with or without noise, is that of an allowed option, and forbidden ones have the probability 0.
    """
    allowed = logits.clamp(min=LEAST_LOGIT)
    return torch.where(mask, allowed, MASKED_LOGIT)


def numpy_mask_logits(logits: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return what :func:`mask_logits` returns, in NumPy."""
    allowed = np.maximum(logits, np.float32(LEAST_LOGIT))
    return np.where(mask, allowed, np.float32(MASKED_LOGIT))


def log_probabilities(logits: Tensor) -> Tensor:
    """Return the log-probabilities [B, options] of ``logits`` [B, options], none of them below -1e30.

    So they are finite, with finite gradients, for all finite logits.
    """
    return logits.log_softmax(-1).clamp(min=LEAST_LOG_PROB)


def categorical_log_prob_entropy(
    logits: Tensor, choice: Tensor, differentiable_entropy: bool = True
) -> tuple[Tensor, Tensor]:
    """log-probability of ``choice`` [B] and entropy [B] under ``logits`` [B, options]."""
    log_p = log_probabilities(logits)
    of_choice = log_p.gather(-1, choice.unsqueeze(-1))  # [B, 1]
    if not differentiable_entropy:
        log_p = log_p.detach()
    entropy = -(log_p.exp() * log_p).sum(-1)
    return of_choice.squeeze(-1), entropy


def joint_log_prob_entropy(
    layout: ActionLayout,
    distribution: ActionDistribution | None,  # of the continuous parts
    columns: Tensor | None,  # [B, ...] of the continuous parts
    logits: Tensor | None,  # [B, logits], already masked
    raw: Tensor | None,  # [B, continuous]
    choices: Tensor | None,  # [B, branches]
    differentiable_entropy: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return the joint log-probability [B] and entropy of actions, in nats.

    The entropy is [B], or [] if it does not depend on the observation. One that is only reported need not be
    differentiable, which saves time. ``columns`` [B, ...], the distribution's input, and ``raw`` [B, continuous] are
    those of the continuous parts; ``logits`` [B, logits], masked already, and ``choices`` [B, branches] those of the
    branches. Raises ValueError without either.
    """
    log_prob: Tensor | None = None
    entropy: Tensor | None = None
    if distribution is not None and columns is not None and raw is not None:
        log_prob = distribution.log_prob(columns, raw)
        learns = torch.is_grad_enabled() and differentiable_entropy
        with torch.set_grad_enabled(learns):
            entropy = distribution.entropy(columns)
    if logits is not None and choices is not None:
        branches = logits.split(layout.branches, dim=1)  # type: ignore[no-untyped-call]
        # Branches are independent given the observation, so that their logarithms and entropies add up.
        for branch, choice in zip(branches, choices.unbind(1), strict=True):
            branch_log_prob, branch_entropy = categorical_log_prob_entropy(branch, choice, differentiable_entropy)
            log_prob = branch_log_prob if log_prob is None else log_prob + branch_log_prob
            entropy = branch_entropy if entropy is None else entropy + branch_entropy
    if log_prob is None or entropy is None:
        raise ValueError("a behavior needs at least one continuous part or one discrete branch")
    return log_prob, entropy


def squashed_gaussian(columns: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions tanh(mean + std * noise) [B, C] and their joint log-probability [B]; differentiable in ``columns``.

    ``columns`` [B, 2C] holds the means, then the log standard deviations; ``noise`` [B, C] is standard normal. The
    log-probability is that of :class:`SquashedGaussian`, computed before tanh rounds.
    """
    mean, log_std = columns.chunk(2, dim=1)
    return squashed_draw(mean, log_std.clamp(*LOG_STD_RANGE), noise)


class DiscreteOptions:
    """Maps the critics' ``columns`` outputs to the choices of all branches.

    With few combinations there is a column for each of them, so that any interplay of branches can be learned. With
    many, there is one for each option of each branch, and the value of a combination is the mean over its branches,
    as in ML-Agents. A behavior without branches has one column. Expectations are exact in each case.

    Attributes:
        layout: The parts of an action.
        joint: Whether there is a column for each combination of options.
        columns: Number of the critics' outputs per reward.
    """

    def __init__(self, layout: ActionLayout) -> None:
        self.layout = layout
        combinations = math.prod(layout.branches)
        self.joint = combinations <= MAX_JOINT_OPTIONS
        self.columns = combinations if self.joint else layout.logits

    def expected(self, values: Tensor, probabilities: Tensor | None) -> Tensor:
        """Return the expectation [B, ...] of ``values`` [B, ..., columns] under the policy.

        ``probabilities`` [B, logits] are those of each branch's options, side by side; None without branches.
        """
        if probabilities is None:
            return values.squeeze(-1)
        weights = self._weights(probabilities)  # [B, columns]
        if values.dim() == 3:
            weights = weights.unsqueeze(1)
        return (values * weights).sum(-1)

    def _weights(self, probabilities: Tensor) -> Tensor:
        if not self.joint:
            return probabilities / len(self.layout.branches)
        # Branches are independent given the observation: a combination has the product of their probabilities.
        weights, *others = self.branches(probabilities)
        for branch in others:
            product = weights.unsqueeze(2) * branch.unsqueeze(1)  # [B, combinations so far, options]
            weights = product.flatten(1)
        return weights

    def chosen(self, values: Tensor, choices: Tensor | None) -> Tensor:
        """Select the value [B, R] of ``choices`` [B, branches] from ``values`` [B, R, columns]."""
        if choices is None:
            return values.squeeze(2)
        columns = self._columns(choices, rewards=values.shape[1])
        return values.gather(2, columns).mean(2)

    def _columns(self, choices: Tensor, rewards: int) -> Tensor:
        """[B, R, n]: the columns whose mean is the value of ``choices`` [B, branches]."""
        if self.joint:
            # Digits with the last branch changing fastest, in the order in which `_weights` multiplies.
            columns = choices[:, :1]
            for k, size in enumerate(self.layout.branches[1:], start=1):
                columns = columns * size + choices[:, k : k + 1]
        else:
            offsets = torch.tensor(self.layout.offsets, device=choices.device)
            columns = choices + offsets
        return columns.unsqueeze(1).expand(-1, rewards, -1)

    def branches(self, columns: Tensor) -> tuple[Tensor, ...]:
        """Split ``columns`` [B, logits] by branch."""
        return columns.split(self.layout.branches, dim=1)  # type: ignore[no-any-return, no-untyped-call]
