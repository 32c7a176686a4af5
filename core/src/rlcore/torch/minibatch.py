"""A rollout prepared for learning: advantages, and minibatches of transitions as tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.torch.networks import Inputs


@attrs.define(eq=False)
class Minibatch:
    """B transitions of a rollout."""

    inputs: Inputs  # normalised observations, each [B, ...]
    raw: Tensor | None  # [B, continuous] actions as drawn
    choices: Tensor | None  # [B, branches]
    mask: Tensor | None  # [B, logits] True = allowed
    old_log_prob: Tensor  # [B] under the weights that acted
    old_value: Tensor  # [B, R], R reward providers
    advantage: Tensor  # [B] over all providers, standardised as advantage_normalization says
    returns: Tensor  # [B, R] targets of the value heads


@attrs.define(eq=False)
class Loss:
    """The result of :meth:`OnPolicyTrainer.loss`: ``total`` is minimised, the rest is reported."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratio: Tensor  # [B] log of new over old probability

    def detached(self) -> Loss:
        """Return the numbers without their graph, which would keep a minibatch in memory."""
        return Loss(*(part.detach() for part in (self.total, self.policy, self.value, self.entropy, self.log_ratio)))


def generalised_advantages(
    reward: NDArray[np.float32],  # [T, S]
    value: NDArray[np.float32],  # [T, S] of the observation acted on
    next_value: NDArray[np.float32],  # [T, S] what follows: 0 after a termination, the final observation's value after
    #                                    a truncation, else the next row's value
    carry: NDArray[np.bool_],  # [T, S] False where the trajectory ends or is cut after this row
    gamma: float,
    lambd: float,
) -> NDArray[np.float32]:
    """Advantages [T, S] by GAE(gamma, lambda): A_t = delta_t + gamma lambda carry_t A_{t+1},
    delta_t = r_t + gamma V(next_t) - V_t (Schulman et al. 2016, arXiv:1506.02438, eqs. 11, 12 and 16).
    """
    advantage = reward + gamma * next_value
    advantage -= value
    decay = carry * np.float32(gamma * lambd)  # [T, S]
    for t in range(len(advantage) - 2, -1, -1):
        advantage[t] += decay[t] * advantage[t + 1]
    return advantage


def trajectory_cuts(ended: NDArray[np.bool_], age: NDArray[np.int64], horizon: int) -> NDArray[np.bool_]:
    """Mark where a trajectory reaches ``horizon`` rows without having ended: [T, S].

    ``age`` [S] is the length of each slot's trajectory before the first row, and is left at its length after the
    last.
    """
    cuts = np.zeros_like(ended)
    for t in range(len(ended)):
        age += 1
        np.greater_equal(age, horizon, out=cuts[t])
        cuts[t] &= ~ended[t]
        age[cuts[t] | ended[t]] = 0
    return cuts


def explained_variance(values: NDArray[np.float32], returns: NDArray[np.float32]) -> float:
    """1 - Var(returns - values) / Var(returns) over all heads; 0 where the returns do not vary."""
    variance = float(np.var(returns))
    return 1.0 - float(np.var(returns - values)) / variance if variance > 0 else 0.0


def minibatch_sizes(count: int, batch_size: int) -> list[int]:
    """Sizes of minibatches that cover ``count`` rows, each about ``batch_size``; the last one is never tiny."""
    parts = max(1, round(count / batch_size))
    return [count * (k + 1) // parts - count * k // parts for k in range(parts)]


def minibatches(rollout: Minibatch, order: Tensor, sizes: Sequence[int], standardised: bool) -> Iterator[Minibatch]:
    """Cut the rollout, in ``order``, into minibatches; with ``standardised``, standardise the advantages of each.

    One gather serves the whole pass: the minibatches are views of it.
    """

    def parts(x: Tensor) -> tuple[Tensor, ...]:
        return x.index_select(0, order).split(sizes)  # type: ignore[no-any-return, no-untyped-call]

    def optional(x: Tensor | None) -> Iterable[Tensor | None]:
        return repeat(None) if x is None else parts(x)

    advantage = rollout.advantage.index_select(0, order)
    if standardised:
        if len(set(sizes)) == 1:
            advantage = standardise(advantage.view(len(sizes), -1)).view(-1)
        else:
            advantage = torch.cat([standardise(part) for part in advantage.split(sizes)])  # type: ignore[no-untyped-call]
    columns = zip(
        zip(*(parts(x) for x in rollout.inputs), strict=True),
        optional(rollout.raw),
        optional(rollout.choices),
        optional(rollout.mask),
        parts(rollout.old_log_prob),
        parts(rollout.old_value),
        advantage.split(sizes),  # type: ignore[no-untyped-call]
        parts(rollout.returns),
        strict=False,  # absent fields repeat None
    )
    for fields in columns:
        yield Minibatch(*fields)


def rollout_rows(array: NDArray[Any], rows: Tensor | None, device: torch.device) -> Tensor:
    """Flatten [T, S, ...] to [T * S, ...] on the device; with ``rows``, only those rows of it."""
    tensor = torch.from_numpy(array.reshape(array.shape[0] * array.shape[1], *array.shape[2:]))
    tensor = tensor.to(device)
    return tensor if rows is None else tensor.index_select(0, rows)


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """Estimate KL(old || new) from samples of old: the mean of (r - 1) - log r.

    See Schulman 2020, "Approximating KL divergence".
    """
    return (log_ratio.expm1() - log_ratio).mean()


def standardise(advantage: Tensor) -> Tensor:
    """Shift and scale to mean 0 and standard deviation 1 along the last axis; a single value becomes 0."""
    deviation = advantage - advantage.mean(-1, keepdim=True)
    return deviation / (advantage.std(-1, correction=0, keepdim=True) + 1e-8)
