"""The statistics writer ``trackio``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from rlcore_trackers.hooks import make_writer
from rlcore_trackio.plugin import SPEC
from rlcore_trackio.settings import TrackioSettings

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore_trackers.writer import TrackerWriter


def create(settings: TrackioSettings | None, run: RunContext) -> TrackerWriter:
    """Create the writer: the target of its record."""
    settings = settings or TrackioSettings()
    if settings.directory is not None:
        settings = attrs.evolve(settings, directory=str(run.absolute(settings.directory)))
    return make_writer(SPEC, settings, run)
