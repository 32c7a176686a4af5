"""The record of an opponent sampler. This module imports no numpy, because it is imported at every start of rlcore."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rlcore import Record

__all__ = ["OpponentSamplerSpec"]

NAME = "ghost"  # of this plugin


@attrs.frozen(kw_only=True)
class OpponentSamplerSpec(Record):
    """A way of choosing opponents, for ``self_play.opponents``.

    ``settings`` names the attrs class of ``self_play.opponents_parameters``. ``target(settings)``, called by keyword,
    returns a :class:`rlcore_ghost.samplers.OpponentSampler`.

    Attributes:
        settings: The settings class, as ``"package.module:Name"``.
    """

    kind: ClassVar[str] = "opponent_sampler"
    called: ClassVar[str] = "opponent sampler"
    key: ClassVar[str] = "self_play.opponents"

    settings: str
