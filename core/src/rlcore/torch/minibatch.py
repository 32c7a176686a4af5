"""Transitions of a rollout as tensors, and what a loss makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.torch.networks import Inputs


@attrs.frozen(eq=False)
class Minibatch:
    """B transitions of a rollout."""

    inputs: Inputs  # normalised observations, each [B, ...]
    raw: Tensor | None  # [B, continuous] actions as drawn
    choices: Tensor | None  # [B, branches]
    mask: Tensor | None  # [B, logits] True = allowed
    old_log_prob: Tensor  # [B] under the weights that acted
    old_value: Tensor  # [B, R], R reward providers
    advantage: Tensor  # [B] over all providers
    returns: Tensor  # [B, R] targets of the value heads


@attrs.frozen(eq=False)
class Loss:
    """What :meth:`OnPolicyTrainer.loss` returns: ``total`` is minimised, the rest is reported."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratio: Tensor  # [B] log of new over old probability


def minibatch_stops(count: int, batch_size: int) -> list[int]:
    """Where minibatches end: all of ``count`` rows, in equal parts of about ``batch_size`` (never a tiny last one)."""
    parts = max(1, round(count / batch_size))
    return [count * (k + 1) // parts for k in range(parts)]


def select_rows(batch: Minibatch, order: Tensor) -> Minibatch:
    """The transitions numbered ``order``, in that order, gathered."""
    return _map(batch, lambda x: x.index_select(0, order))


def slice_rows(batch: Minibatch, start: int, stop: int) -> Minibatch:
    """Transitions ``start`` to ``stop`` as views: no copy."""
    return _map(batch, lambda x: x[start:stop])


def _map(batch: Minibatch, function: Callable[[Tensor], Tensor]) -> Minibatch:
    return Minibatch(
        inputs=tuple(function(x) for x in batch.inputs),
        raw=None if batch.raw is None else function(batch.raw),
        choices=None if batch.choices is None else function(batch.choices),
        mask=None if batch.mask is None else function(batch.mask),
        old_log_prob=function(batch.old_log_prob),
        old_value=function(batch.old_value),
        advantage=function(batch.advantage),
        returns=function(batch.returns),
    )


def rollout_rows(array: NDArray[Any], rows: Tensor | None, device: torch.device) -> Tensor:
    """[T, S, ...] as [T * S, ...] on the device, or just the rows given."""
    tensor = torch.from_numpy(array.reshape(array.shape[0] * array.shape[1], *array.shape[2:]))
    tensor = tensor.to(device)
    return tensor if rows is None else tensor.index_select(0, rows)


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """KL(old || new) from samples of old: mean of (r - 1) - log r (Schulman 2020, "Approximating KL divergence")."""
    return (log_ratio.expm1() - log_ratio).mean()


def standardise(advantage: Tensor) -> Tensor:
    """Mean 0 and standard deviation 1; a single value becomes 0."""
    return (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
