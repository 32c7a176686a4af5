"""The hooks of rlcore-mlflow. rlcore imports this module at every start, so it must not import mlflow."""

from __future__ import annotations

from rlcore_trackers.hooks import TrackerSpec, hooks_of

SPEC = TrackerSpec(
    name="mlflow",
    target="rlcore_mlflow.writer:create",
    settings="rlcore_mlflow.settings:MlflowSettings",
    summary="runs of MLflow in an SQLite database",
    tracker="rlcore_mlflow.tracker:MlflowTracker",
)
rlcore_stats_writers, rlcore_checkpoint_saved, rlcore_run_finished = hooks_of(SPEC)
