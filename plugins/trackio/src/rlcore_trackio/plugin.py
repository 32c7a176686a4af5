"""The hooks of rlcore-trackio. rlcore imports this module at every start, so it must not import trackio."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rlcore import RunContext, StatsWriterSpec, hookimpl
from rlcore_trackers import hooks


@hookimpl
def rlcore_stats_writers() -> list[StatsWriterSpec]:
    return [
        StatsWriterSpec(
            name="trackio",
            target="rlcore_trackio.writer:create",
            settings="rlcore_trackio.settings:TrackioSettings",
            summary="runs of Trackio in its local database",
        )
    ]


@hookimpl
def rlcore_checkpoint_saved(run: RunContext, step: int, path: Path) -> None:
    hooks.checkpoint_saved("trackio", run, step, path)


@hookimpl
def rlcore_run_finished(run: RunContext, outcome: Literal["done", "interrupted", "failed"]) -> None:
    hooks.run_finished("trackio", run, outcome)
