"""The clipped surrogate of PPO (Schulman et al. 2017, arXiv:1707.06347) for algorithms that add something else to it.

PPO writes the surrogate out: it is the algorithm that its own file shows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlcore_torch.on_policy.minibatch import probability_ratio

__all__ = ["clip_fraction", "clipped_surrogate_loss"]


def clipped_surrogate_loss(log_ratio: Tensor, advantage: Tensor, clip_range: Tensor) -> Tensor:
    """Return the loss [] of the clipped surrogate, eq. 7 of Schulman et al. 2017 with its sign turned.

    ``log_ratio`` [B] are the logarithms of the ratios r: the probabilities of the actions under the policy that learns,
    divided by those under the policy that acted. ``advantage`` [B] are the advantages A, ``clip_range`` [] is epsilon::

        -mean(min(r A, clip(r, 1 - epsilon, 1 + epsilon) A))

    A ratio has no gradient beyond the clip range on the side to which its advantage pulls it. The loss is infinite if a
    ratio with a negative advantage is (:func:`rlcore_torch.probability_ratio`).
    """
    ratio = probability_ratio(log_ratio, advantage)
    clipped_ratio = ratio.clamp(1.0 - clip_range, 1.0 + clip_range)
    surrogate = torch.min(ratio * advantage, clipped_ratio * advantage)
    return -surrogate.mean()


def clip_fraction(log_ratio: Tensor, clip_range: Tensor) -> float:
    """Return the share of probability ratios beyond the clip range, from their logarithms ``log_ratio`` [B].

    ``clip_range`` [] is epsilon: a ratio below 1 - epsilon or above 1 + epsilon counts.
    """
    is_clipped = log_ratio.expm1().abs() > clip_range
    return float(is_clipped.to(torch.float32).mean())
