"""Batch normalization folded into the linear layers beside it: for acting, and for exported policies.

By its running statistics, batch normalization multiplies each feature by a factor and adds a shift to it. A linear
layer before it, or after it, can do so with other weights, for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlcore_torch.networks.batch_norm import BatchNorm, BatchRenorm
from rlcore_torch.networks.bodies import Body
from rlcore_torch.networks.heads import PolicyHead
from rlcore_torch.networks.layers import NormalizedLayer, is_unchanged
from rlcore_torch.networks.models import Actor

__all__ = ["FoldedLayer", "folded_actor", "folded_layers"]


class FoldedLayer(NamedTuple):
    """A linear layer, without a gradient.

    Attributes:
        weight: [outputs, inputs]
        bias: [outputs]
    """

    weight: Tensor
    bias: Tensor


@torch.no_grad()
def folded_layers(layers: Sequence[nn.Module]) -> list[FoldedLayer] | None:
    """Return linear layers that compute what :func:`rlcore_torch.dense` makes of ``layers`` by running statistics.

    Between each two of them is the activation. A layer without normalization beside it shares the memory of its
    weights, and changes with them. All others are copies: call this again after weights or statistics changed.

    None if a layer is anything but an ``nn.Linear``, :class:`rlcore_torch.BatchNorm` or
    :class:`rlcore_torch.BatchRenorm`, or a hidden layer with one of these, and if the last is no ``nn.Linear``.
    """
    folded = []
    before: BatchNorm | None = None  # what normalizes the inputs of the next layer
    for layer in layers:
        if isinstance(layer, BatchNorm):
            if before is not None or not _is_plain_norm(layer):
                return None
            before = layer
            continue
        linear = layer
        norm: BatchNorm | None = None  # what normalizes the outputs of this one
        if type(layer) is NormalizedLayer and is_unchanged(layer) and _is_plain_norm(layer.norm):
            linear = layer.linear
            norm = layer.norm
        if type(linear) is not nn.Linear or not is_unchanged(linear):
            return None
        weight = linear.weight.detach()
        bias = weight.new_zeros(len(weight)) if linear.bias is None else linear.bias.detach()
        if before is not None:
            factor, shift = _factor_and_shift(before)
            bias = torch.addmv(bias, weight, shift)
            weight = weight * factor
            before = None
        if norm is not None and layer.before:
            factor, shift = _factor_and_shift(norm)
            bias = torch.addcmul(shift, bias, factor)
            weight = weight * factor.unsqueeze(1)
        else:
            before = norm
        folded.append(FoldedLayer(weight, bias))
    ends_in_linear = bool(layers) and type(layers[-1]) is nn.Linear
    return folded if ends_in_linear else None


def _factor_and_shift(norm: BatchNorm) -> tuple[Tensor, Tensor]:
    """Return a factor and a shift, each [features]: what ``norm`` makes of x is x * factor + shift."""
    factor, bias = norm.factor_and_shift()
    return factor, torch.addcmul(bias, norm.running_mean, factor, value=-1.0)


def _is_plain_norm(layer: nn.Module) -> bool:
    return type(layer) in (BatchNorm, BatchRenorm) and is_unchanged(layer)


def folded_actor(model: Actor) -> list[FoldedLayer] | None:
    """Return the hidden layers of a policy and the layer of its head, folded by :func:`folded_layers`.

    :meth:`Actor.policy` passes encoded observations through them, with the activation of ``model.actor`` between. None
    where it does anything else: memory, goals that make weights, residual blocks, LayerNorm, dropout, a distribution
    that reads features, and parts that a class of its own overrides.
    """
    head = model.policy_head
    body = model.actor
    is_ordinary = (
        type(model).policy is Actor.policy
        and "policy" not in model.__dict__
        and type(head) is PolicyHead
        and not head.reads_features
        and type(body) is Body
        and body.recurrent is None
        and body.hyper is None
    )
    return folded_layers([*body.layers, head.linear]) if is_ordinary else None
