"""The records of opponents and of their samplers. rlcore imports this module at every start, so it imports no numpy."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rlcore import Record, check_target

__all__ = ["OpponentSamplerSpec", "OpponentSpec"]

NAME = "ghost"  # of this plugin


@attrs.frozen(kw_only=True)
class OpponentSpec(Record):
    """An opponent that does not learn, which ``evaluation.opponents`` and blocks of plugins may name.

    ``target(settings, behavior: BehaviorSpec, run: RunContext)``, called by keyword once for each behavior that the
    opponent plays for, returns a :class:`rlcore.Policy`. Its actions may depend on nothing but the arguments of
    ``act`` and the latest ``seed``, so that every evaluation plays the same games. An opponent may ignore
    ``deterministic``. Raise :class:`rlcore.UnsupportedSpace` for a behavior that the opponent cannot play.

    Attributes:
        settings: The attrs class of its block, as ``"package.module:Name"``; derives from
            :class:`rlcore_ghost.OpponentSettings`.
    """

    kind: ClassVar[str] = "opponent"
    key: ClassVar[str] = "opponents.NAME.type"
    protocol: ClassVar[str] = "rlcore:Policy"

    settings: str = attrs.field(default="rlcore_ghost.settings:OpponentSettings", validator=check_target)


@attrs.frozen(kw_only=True)
class OpponentSamplerSpec(Record):
    """A way of choosing opponents, for ``self_play.opponents``.

    ``settings`` names the attrs class of ``self_play.opponents_parameters``. ``target(settings)``, called by keyword,
    returns a :class:`rlcore_ghost.selfplay.samplers.OpponentSampler`.

    Attributes:
        settings: The settings class, as ``"package.module:Name"``.
    """

    kind: ClassVar[str] = "opponent_sampler"
    called: ClassVar[str] = "opponent sampler"
    key: ClassVar[str] = "self_play.opponents"

    settings: str
