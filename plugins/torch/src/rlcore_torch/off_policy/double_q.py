"""Clipped double Q-learning (Fujimoto et al. 2018, arXiv:1802.09477): of two critics, the smaller value counts."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["min_q"]


def min_q(one: Tensor, two: Tensor) -> Tensor:
    """Return, in each row of two critics' values [B, R, ...], those of the critic with the smaller sum over R rewards.

    Each reward has its own value, and what an action is worth is their sum. The minimum of each value by itself would
    combine two critics, neither of which expects this sum.
    """
    return torch.where(one.sum(1, keepdim=True) <= two.sum(1, keepdim=True), one, two)
