"""The hooks of rlcore-trackio. rlcore imports this module at every start, so it must not import trackio."""

from __future__ import annotations

from rlcore_trackers.hooks import TrackerSpec, hooks_of

SPEC = TrackerSpec(
    name="trackio",
    target="rlcore_trackio.writer:create",
    settings="rlcore_trackio.settings:TrackioSettings",
    summary="runs of Trackio in its local database",
    tracker="rlcore_trackio.tracker:TrackioTracker",
)
rlcore_stats_writers, rlcore_checkpoint_saved, rlcore_run_finished = hooks_of(SPEC)
