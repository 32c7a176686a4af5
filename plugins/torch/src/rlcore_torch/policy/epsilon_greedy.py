"""Exploration by epsilon: with a small probability, an agent does anything that is allowed.

Shapes: S agents, L options of all branches.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from rlcore_torch.networks.actions import MASKED_LOGIT, mask_logits, numpy_mask_logits

__all__ = ["epsilon_greedy"]


def epsilon_greedy(logits: Any, gumbel: Any, epsilon: float) -> Any:
    """Return logits [S, L] whose largest ones are the actions of an epsilon-greedy policy.

    An agent keeps its ``logits`` [S, L] with the probability 1 - ``epsilon``, a number from 0 to 1. Otherwise the
    largest of each branch is any allowed option, all alike; options are allowed unless their logits are those of
    :func:`rlcore_torch.mask_logits`. ``gumbel`` [S, L] are standard Gumbel numbers, such as those that
    :meth:`rlcore_torch.RolloutTrainer.explore` gets. They decide both, for every agent by itself. All are arrays, or
    all tensors on one device.
    """
    if epsilon <= 0.0:
        return logits
    where: Any = np.where
    masked: Any = numpy_mask_logits
    if isinstance(logits, torch.Tensor):
        where = torch.where
        masked = mask_logits
    any_option = masked(gumbel, logits > MASKED_LOGIT)
    if epsilon >= 1.0:
        return any_option
    # The largest of L Gumbel numbers is below x with the probability exp(-L exp(-x)), and which of them it is does not
    # depend on that (Gumbel 1954): one draw has the coin and the option.
    threshold = math.log(logits.shape[1]) - math.log(-math.log(epsilon))
    explores = (gumbel < threshold).all(1)
    return where(explores[:, None], any_option, logits)
