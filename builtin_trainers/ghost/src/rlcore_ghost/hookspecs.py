"""The hook that rlcore-ghost adds for plugins with ways of choosing opponents."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Iterable

from rlcore import registry_of
from rlcore_ghost.records import OpponentSamplerSpec


@registry_of(OpponentSamplerSpec)
def rlcore_opponent_samplers() -> Iterable[OpponentSamplerSpec]:
    """The ways of choosing opponents that this plugin provides, for ``self_play.opponents``.

    Called once per loading of plugins, when a trainer with self-play is created. Must not import torch or numpy.
    """
