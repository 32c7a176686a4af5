"""The values that the parts of one gradient step hand to each other.

B transitions, R reward providers; the docstring of ``trainer.py`` has the other shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import attrs
from torch import Tensor

Encoded = Sequence[Tensor | None] | None  # encoded observations for each critic, as of `Body.encode_once`


@attrs.define(eq=False)
class PolicyDraw:
    """The policy at B observations: a draw of the continuous parts, and the whole distribution of each branch."""

    action: Tensor | None  # [B, continuous] in [-1, 1]
    log_prob: Tensor | None  # [B] of the continuous parts together
    probabilities: Tensor | None  # [B, logits] of each branch's options
    entropies: Tensor | None  # [B, branches] nats


@attrs.define(eq=False)
class CriticLoss:
    """The loss of both critics, with the tensors that statistics and replay priorities need."""

    total: Tensor
    q_losses: tuple[Tensor, Tensor]  # of each critic, without importance weights
    q_values: Tensor  # [B, R] of the first critic
    # [B], under prioritized replay: the mean over both critics of the absolute error of the sum of values
    td_error: Tensor | None = None


@attrs.frozen(eq=False)
class StepNoise:
    """Standard normal noise of one gradient step, each [rows, continuous]; None without continuous parts."""

    here: Tensor | None  # at the observations acted on
    next: Tensor | None  # at the ends of the stretches
    between: Tensor | None  # at those between, with n_steps > 1


class Gradients(NamedTuple):
    """The losses of a gradient step, and the draw of the policy; their gradients are in the parameters."""

    drawn: PolicyDraw
    policy_loss: Tensor  # []
    critic_loss: CriticLoss
