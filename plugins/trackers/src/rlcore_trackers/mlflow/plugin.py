"""The hooks of the plugin mlflow. rlcore imports this module at every start, so it must not import mlflow."""

from __future__ import annotations

from functools import partial

from rlcore_trackers.hooks import TrackerSpec, hooks_of, make_writer

SPEC = TrackerSpec(
    name="mlflow",
    target="rlcore_trackers.mlflow.plugin:create",
    settings="rlcore_trackers.mlflow.settings:MlflowSettings",
    summary="runs of MLflow in an SQLite database",
    tracker="rlcore_trackers.mlflow.tracker:MlflowTracker",
)
rlcore_stats_writers, rlcore_checkpoint_saved, rlcore_run_finished = hooks_of(SPEC)
create = partial(make_writer, SPEC)  # the target of the record
