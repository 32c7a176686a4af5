"""The hooks that rlcore-ghost adds for plugins with opponents, and with ways of choosing them."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Iterable

from rlcore import registry_of
from rlcore_ghost.records import OpponentSamplerSpec, OpponentSpec


@registry_of(OpponentSpec)
def rlcore_opponents() -> Iterable[OpponentSpec]:
    """The opponents that this plugin provides, for ``evaluation.opponents`` and similar blocks of plugins.

    Called once per loading of plugins, at the latest when a configuration names an opponent. Must not import torch or
    numpy.
    """


@registry_of(OpponentSamplerSpec)
def rlcore_opponent_samplers() -> Iterable[OpponentSamplerSpec]:
    """The ways of choosing opponents that this plugin provides, for ``self_play.opponents``.

    Called once per loading of plugins, when a trainer with self-play is created. Must not import torch or numpy.
    """
