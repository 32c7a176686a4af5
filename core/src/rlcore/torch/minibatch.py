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

__all__ = ["Loss", "Minibatch"]


@attrs.define(eq=False)
class Minibatch:
    """B transitions of a rollout.

    Attributes:
        inputs: Normalized observations, each [B, ...], as a network takes them.
        raw: [B, continuous] continuous parts of the actions as drawn, before they are clipped and stretched to the
            bounds; None if the behavior has none.
        choices: [B, branches] index of the chosen option of each branch; None if the behavior has no branches.
        mask: [B, logits] whether each option was allowed; None: every option was.
        old_log_prob: [B] log-probability of the actions under the weights that acted, in nats.
        old_value: [B, R] values under the weights that acted, for R reward providers.
        advantage: [B] sum over all providers, standardized as ``advantage_normalization`` says.
        returns: [B, R] targets of the value heads.
        sequences: With memory: how the B rows form sequences of steps; None without memory.
    """

    inputs: Inputs
    raw: Tensor | None
    choices: Tensor | None
    mask: Tensor | None
    old_log_prob: Tensor
    old_value: Tensor
    advantage: Tensor
    returns: Tensor
    sequences: Sequences | None = None


@attrs.define(eq=False)
class Loss:
    """The result of :meth:`rlcore.torch.on_policy.OnPolicyTrainer.loss`:

    ``total`` is minimized, the rest is reported.

    Attributes:
        total: [] the loss that is minimized.
        policy: [] its policy part.
        value: [] its value part.
        entropy: [] mean entropy of the policy, in nats.
        log_ratio: [B] log of the new over the old probability of the actions.
    """

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratio: Tensor

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
