"""The hooks of rlcore-mlflow. rlcore imports this module at every start, so it must not import mlflow."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rlcore import RunContext, StatsWriterSpec, hookimpl
from rlcore_trackers import hooks


@hookimpl
def rlcore_stats_writers() -> list[StatsWriterSpec]:
    return [
        StatsWriterSpec(
            name="mlflow",
            target="rlcore_mlflow.writer:create",
            settings="rlcore_mlflow.settings:MlflowSettings",
            summary="runs of MLflow in an SQLite database",
        )
    ]


@hookimpl
def rlcore_checkpoint_saved(run: RunContext, step: int, path: Path) -> None:
    hooks.checkpoint_saved("mlflow", run, step, path)


@hookimpl
def rlcore_run_finished(run: RunContext, outcome: Literal["done", "interrupted", "failed"]) -> None:
    hooks.run_finished("mlflow", run, outcome)
