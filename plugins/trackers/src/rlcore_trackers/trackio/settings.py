"""The ``stats.trackio`` block. This module does not import Trackio: checking a configuration imports it."""

from __future__ import annotations

import attrs

from rlcore import setting
from rlcore_trackers.settings import TrackerSettings


@attrs.frozen(kw_only=True)
class TrackioSettings(TrackerSettings):
    """Settings of Trackio."""

    directory: str | None = setting(
        None, "Folder of Trackio's databases; by default that of the variable TRACKIO_DIR, or Trackio's own."
    )
