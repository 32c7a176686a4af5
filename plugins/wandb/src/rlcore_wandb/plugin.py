"""The hooks of rlcore-wandb. rlcore imports this module at every start, so it must not import wandb."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rlcore import RunContext, StatsWriterSpec, hookimpl
from rlcore_trackers import hooks


@hookimpl
def rlcore_stats_writers() -> list[StatsWriterSpec]:
    return [
        StatsWriterSpec(
            name="wandb",
            target="rlcore_wandb.writer:create",
            settings="rlcore_wandb.settings:WandbSettings",
            summary="runs of Weights & Biases, written offline by default",
        )
    ]


@hookimpl
def rlcore_checkpoint_saved(run: RunContext, step: int, path: Path) -> None:
    hooks.checkpoint_saved("wandb", run, step, path)


@hookimpl
def rlcore_run_finished(run: RunContext, outcome: Literal["done", "interrupted", "failed"]) -> None:
    hooks.run_finished("wandb", run, outcome)
