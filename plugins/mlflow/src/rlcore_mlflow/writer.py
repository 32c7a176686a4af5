"""The statistics writer ``mlflow``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore_mlflow.plugin import SPEC
from rlcore_mlflow.settings import MlflowSettings
from rlcore_trackers.hooks import make_writer

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore_trackers.writer import TrackerWriter


def create(settings: MlflowSettings | None, run: RunContext) -> TrackerWriter:
    """Create the writer: the target of its record."""
    return make_writer(SPEC, settings or MlflowSettings(), run)
