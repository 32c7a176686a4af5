"""Convert Gymnasium spaces into rlcore's observations and actions, and values between the two.

This package is for plugins with environments or recordings. All of them get the same behavior from a space, so a policy
that was trained in one can be used in another. It needs gymnasium, which rlcore itself does not need: a plugin that
imports this package depends on ``rlcore-gymnasium``.

Supported observations are a Box of any shape; a Discrete, a MultiDiscrete (one-hot vectors, side by side) or a
MultiBinary; a Sequence of these, with ``max_entities``; or a Dict or Tuple of all of these, at any depth. Supported
actions are a Box of real numbers (flattened), a Discrete, a MultiDiscrete or a MultiBinary (branches with two options),
or a Tuple or Dict of these, whose parts are side by side in the order of the space. ``environment.observations`` leaves
observations out, or says how one is read (:class:`ObservedEnvironmentSettings`). An observation with another space is
left out if there are others; else, and for actions, :class:`~rlcore.UnsupportedSpace` is raised. A value outside its
space raises :class:`MismatchedValue`.
"""

from __future__ import annotations

from rlcore_gymnasium.settings import ObservationSettings, ObservedEnvironmentSettings
from rlcore_gymnasium.spaces.acting import PolicyInSpaces
from rlcore_gymnasium.spaces.actions import ActionCodec, ActionPart
from rlcore_gymnasium.spaces.codecs import (
    OBSERVATION,
    Buffers,
    ObservationCodec,
    ObservationPart,
    Observations,
)
from rlcore_gymnasium.spaces.values import MismatchedValue

__all__ = [
    "OBSERVATION",
    "ActionCodec",
    "ActionPart",
    "Buffers",
    "MismatchedValue",
    "ObservationCodec",
    "ObservationPart",
    "ObservationSettings",
    "Observations",
    "ObservedEnvironmentSettings",
    "PolicyInSpaces",
]
