"""The hook that rlcore-offline adds: formats of recorded episodes."""

from __future__ import annotations

from collections.abc import Iterable

from rlcore import registry_of
from rlcore_offline.records import RecordingFormatSpec


@registry_of(RecordingFormatSpec)
def rlcore_recording_formats() -> Iterable[RecordingFormatSpec]:
    """The formats of recorded episodes that this plugin reads and writes.

    Called once per loading of plugins, when a trainer asks for recorded episodes or ``rlcore evaluate --record`` writes
    them. Must not import torch or numpy.
    """
