"""The hooks of the plugin trackio. rlcore imports this module at every start, so it must not import trackio."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from rlcore_trackers.hooks import TrackerSpec, hooks_of, make_writer

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore_trackers.trackio.settings import TrackioSettings
    from rlcore_trackers.writer import TrackerWriter

SPEC = TrackerSpec(
    name="trackio",
    target="rlcore_trackers.trackio.plugin:create",
    settings="rlcore_trackers.trackio.settings:TrackioSettings",
    summary="runs of Trackio in its local database",
    tracker="rlcore_trackers.trackio.tracker:TrackioTracker",
)
rlcore_stats_writers, rlcore_checkpoint_saved, rlcore_run_finished = hooks_of(SPEC)


def create(settings: TrackioSettings | None, run: RunContext) -> TrackerWriter:
    """Create the writer: the target of its record."""
    if settings is not None and settings.directory is not None:
        settings = attrs.evolve(settings, directory=str(run.absolute(settings.directory)))
    return make_writer(SPEC, settings, run)
