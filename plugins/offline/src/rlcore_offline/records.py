"""The record of a recording format."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rlcore import Record

__all__ = ["RecordingFormatSpec"]


@attrs.frozen(kw_only=True)
class RecordingFormatSpec(Record):
    """A file format of recorded episodes. ``target()`` returns a :class:`rlcore_offline.RecordingFormat`.

    Attributes:
        on_request: ``--record`` writes the format only if ``--record-format`` names it, even where it is the only one.
    """

    on_request: bool = False

    kind: ClassVar[str] = "recording"
    called: ClassVar[str] = "recording format"
    key: ClassVar[str] = "--record-format"
    protocol: ClassVar[str] = "rlcore_offline:RecordingFormat"
