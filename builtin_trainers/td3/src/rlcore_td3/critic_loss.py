"""The values that the loss of the critics hands to the update."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from torch import Tensor


@attrs.define(eq=False)
class CriticLoss:
    """The loss of all critics, with the tensors that statistics and replay priorities need."""

    total: Tensor
    q_losses: Sequence[Tensor]  # of each critic, without importance weights
    q_values: Tensor  # [B, R] of the first critic
    # [B], under prioritized replay: the mean over critics of the absolute error of the sum of values
    td_error: Tensor | None = None
