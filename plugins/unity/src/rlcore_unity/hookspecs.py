"""The hook that rlcore-unity adds, and its record: side channels that plugins provide."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import attrs

from rlcore import Record, registry_of


@attrs.frozen(kw_only=True)
class SideChannelSpec(Record):
    """A side channel between players and a plugin, which ``environment.side_channels`` may name.

    ``target(run: RunContext)``, called by keyword once for each environment that is created, returns a
    :class:`rlcore_unity.SideChannel`. It serves all players of that environment.
    """

    kind: ClassVar[str] = "unity_side_channel"
    called: ClassVar[str] = "side channel"
    key: ClassVar[str] = "environment.side_channels"
    protocol: ClassVar[str] = "rlcore_unity.channels:SideChannel"


@registry_of(SideChannelSpec)
def rlcore_unity_side_channels() -> Iterable[SideChannelSpec]:
    """The side channels that this plugin provides, for ``environment.side_channels``.

    Called once per loading of plugins, at the latest when an environment names a side channel. Must not import torch or
    numpy.
    """
