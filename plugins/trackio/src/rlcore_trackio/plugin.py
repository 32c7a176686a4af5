"""The hooks of rlcore-trackio. rlcore imports this module at every start, so it must not import trackio."""

from __future__ import annotations

from rlcore import StatsWriterSpec
from rlcore_trackers.hooks import hooks_of

rlcore_stats_writers, rlcore_checkpoint_saved, rlcore_run_finished = hooks_of(
    StatsWriterSpec(
        name="trackio",
        target="rlcore_trackio.writer:create",
        settings="rlcore_trackio.settings:TrackioSettings",
        summary="runs of Trackio in its local database",
    )
)
