"""The hooks of the plugin mlflow. rlcore imports this module at every start, so it must not import mlflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore_trackers.hooks import TrackerSpec, hooks_of, make_writer

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore_trackers.mlflow.settings import MlflowSettings
    from rlcore_trackers.writer import TrackerWriter

SPEC = TrackerSpec(
    name="mlflow",
    target="rlcore_trackers.mlflow.plugin:create",
    settings="rlcore_trackers.mlflow.settings:MlflowSettings",
    summary="runs of MLflow in an SQLite database",
    tracker="rlcore_trackers.mlflow.tracker:MlflowTracker",
)
rlcore_stats_writers, rlcore_checkpoint_saved, rlcore_run_finished = hooks_of(SPEC)


def create(settings: MlflowSettings | None, run: RunContext) -> TrackerWriter:
    """Create the writer: the target of its record."""
    return make_writer(SPEC, settings, run)
