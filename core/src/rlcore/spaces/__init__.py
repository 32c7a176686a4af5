"""Gymnasium spaces as rlcore's observations and actions, and values carried between the two.

For plugins of environments and recordings with such spaces: the same space means the same behavior in all of them, so
that what is learned in one can be played in another. Needs gymnasium, which rlcore itself does not: a plugin that
imports this package depends on ``rlcore[spaces]``.

An observation is a Box of any shape; a Discrete, a MultiDiscrete (indicators, side by side) or a MultiBinary; or a
Dict or Tuple of those, one level deep. An action is a Box of real numbers (flattened), a Discrete, a MultiDiscrete or
a MultiBinary (branches of two), or a Tuple or Dict of those, whose parts lie side by side in the space's own order.
Every other space is refused with :class:`~rlcore.errors.UnsupportedSpace`, and an observation that is not of its space
with :class:`MismatchedValue`.
"""

from __future__ import annotations

from rlcore.spaces.actions import ActionCodec, ActionPart
from rlcore.spaces.observations import OBSERVATION, Buffers, ObservationCodec, ObservationPart
from rlcore.spaces.values import MismatchedValue

__all__ = [
    "OBSERVATION",
    "ActionCodec",
    "ActionPart",
    "Buffers",
    "MismatchedValue",
    "ObservationCodec",
    "ObservationPart",
]
