"""A rollout prepared for learning: advantages, and minibatches of transitions as tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore_torch.networks.networks import Inputs
from rlcore_torch.on_policy.sequences import Sequences

__all__ = ["Loss", "Minibatch", "mean_over_rows"]

LossFunction = TypeVar("LossFunction", bound=Callable[..., "Loss"])


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
        share: The share of these rows in the minibatch of all ranks, of which a rank may have none; 1 in one process.
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
    share: float = 1.0

    def map(self, function: Callable[[Tensor], Tensor]) -> Minibatch:
        """Return a minibatch with ``function`` of every tensor [B, ...].

        ``sequences`` describe other rows then, and are left out.
        """

        def optional(x: Tensor | None) -> Tensor | None:
            return None if x is None else function(x)

        return Minibatch(
            inputs=tuple(map(function, self.inputs)),
            raw=optional(self.raw),
            choices=optional(self.choices),
            mask=optional(self.mask),
            old_log_prob=function(self.old_log_prob),
            old_value=function(self.old_value),
            advantage=function(self.advantage),
            returns=function(self.returns),
        )

    def split(self, size: int) -> Iterator[Minibatch]:
        """Yield views of ``size`` rows each, the last one of what is left."""
        for start in range(0, len(self.advantage), size):
            yield self.map(lambda x, start=start: x[start : start + size])  # type: ignore[misc]


@attrs.define(eq=False)
class Loss:
    """The result of :meth:`rlcore_torch.OnPolicyTrainer.loss`:

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

    @classmethod
    def of_pieces(cls, losses: Sequence[Loss], shares: Sequence[float]) -> Loss:
        """Return the loss of a minibatch from those of its pieces, each with its share of the rows."""

        def mean(parts: Iterable[Tensor]) -> Tensor:
            return torch.stack([part * share for part, share in zip(parts, shares, strict=True)]).sum(0)

        return cls(
            total=mean(loss.total for loss in losses),
            policy=mean(loss.policy for loss in losses),
            value=mean(loss.value for loss in losses),
            entropy=mean(loss.entropy for loss in losses),
            log_ratio=torch.cat([loss.log_ratio for loss in losses]),
        )


def mean_over_rows(loss: LossFunction) -> LossFunction:
    """Decorate a method ``loss`` whose results are means over the rows of the minibatch.

    A large minibatch may then be taken in pieces. A method that overrides a decorated one is not decorated by that.
    """
    loss.is_mean_over_rows = True  # type: ignore[attr-defined]
    return loss


def minibatch_rows(order: NDArray[np.int64], batch_size: int) -> NDArray[np.int64]:
    """The rows of each minibatch of one pass: [parts, size] from ``order`` [N], with a size of about ``batch_size``.

    All sizes are equal, as compiled code and CUDA graphs need them. Where N is not a multiple of the size, the first
    rows of the pass, fewer than there are minibatches, come again at its end.
    """
    parts = max(1, round(len(order) / batch_size))
    return np.resize(order, (parts, -(-len(order) // parts)))


def minibatches(rollout: Minibatch, rows: NDArray[np.int64], standardized: bool) -> Iterator[Minibatch]:
    """The minibatches with ``rows`` [parts, size]; with ``standardized``, the advantages of each are standardized.

    One gather serves the whole pass: the minibatches are views of it.
    """
    order = torch.from_numpy(rows.reshape(-1)).to(rollout.advantage.device)
    gathered = rollout.map(lambda x: x.index_select(0, order))
    if standardized:
        gathered.advantage = standardize(gathered.advantage.view(rows.shape)).view(-1)
    return gathered.split(rows.shape[1])


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
