"""The noise with which the losses of a gradient step draw actions."""

from __future__ import annotations

import attrs
from torch import Tensor

__all__ = ["StepNoise"]


@attrs.frozen(eq=False)
class StepNoise:
    """Standard normal noise for the C continuous parts of the actions that one gradient step draws.

    Attributes:
        here: [B, C] at the observations acted on.
        next: [B, C] at the ends of the stretches.
        between: [(n - 1) * B, C] at the steps between, with ``n_steps`` n above 1, for trainers that read them.
    """

    here: Tensor
    next: Tensor
    between: Tensor | None
