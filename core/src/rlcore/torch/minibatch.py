"""A rollout prepared for learning: advantages, and minibatches of transitions as tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import attrs
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.torch.networks import Inputs
from rlcore.torch.sequences import Sequences


@attrs.define(eq=False)
class Minibatch:
    """B transitions of a rollout."""

    inputs: Inputs  # normalized observations, each [B, ...]
    raw: Tensor | None  # [B, continuous] actions as drawn
    choices: Tensor | None  # [B, branches]
    mask: Tensor | None  # [B, logits] True = allowed
    old_log_prob: Tensor  # [B] under the weights that acted
    old_value: Tensor  # [B, R], R reward providers
    advantage: Tensor  # [B] over all providers, standardized as advantage_normalization says
    returns: Tensor  # [B, R] targets of the value heads
    sequences: Sequences | None = None  # with memory: how the B rows form sequences of steps


@attrs.define(eq=False)
class Loss:
    """The result of :meth:`OnPolicyTrainer.loss`: ``total`` is minimized, the rest is reported."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratio: Tensor  # [B] log of new over old probability

    def detached(self) -> Loss:
        """Return the numbers without their graph, which would keep a minibatch in memory."""
        return Loss(*(part.detach() for part in (self.total, self.policy, self.value, self.entropy, self.log_ratio)))


def minibatch_sizes(count: int, batch_size: int) -> list[int]:
    """Sizes of minibatches that cover ``count`` rows, each about ``batch_size``; the last one is never tiny."""
    parts = max(1, round(count / batch_size))
    return [count * (k + 1) // parts - count * k // parts for k in range(parts)]


def minibatches(rollout: Minibatch, order: Tensor, sizes: Sequence[int], standardized: bool) -> Iterator[Minibatch]:
    """Cut the rollout, in ``order``, into minibatches; with ``standardized``, standardize the advantages of each.

    One gather serves the whole pass: the minibatches are views of it.
    """

    def parts(x: Tensor) -> tuple[Tensor, ...]:
        return x.index_select(0, order).split(sizes)  # type: ignore[no-any-return, no-untyped-call]

    def optional(x: Tensor | None) -> Iterable[Tensor | None]:
        return repeat(None) if x is None else parts(x)

    advantage = rollout.advantage.index_select(0, order)
    if standardized:
        if len(set(sizes)) == 1:
            advantage = standardize(advantage.view(len(sizes), -1)).view(-1)
        else:
            advantage = torch.cat([standardize(part) for part in advantage.split(sizes)])  # type: ignore[no-untyped-call]
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


def standardize(advantage: Tensor) -> Tensor:
    """Shift and scale to mean 0 and standard deviation 1 along the last axis; a single value becomes 0."""
    deviation = advantage - advantage.mean(-1, keepdim=True)
    return deviation / (advantage.std(-1, correction=0, keepdim=True) + 1e-8)
