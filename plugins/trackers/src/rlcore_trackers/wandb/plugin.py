"""The hooks of the plugin wandb. rlcore imports this module at every start, so it must not import wandb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore_trackers.hooks import TrackerSpec, hooks_of, make_writer

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore_trackers.wandb.settings import WandbSettings
    from rlcore_trackers.writer import TrackerWriter

SPEC = TrackerSpec(
    name="wandb",
    target="rlcore_trackers.wandb.plugin:create",
    settings="rlcore_trackers.wandb.settings:WandbSettings",
    summary="runs of Weights & Biases, written offline by default",
    tracker="rlcore_trackers.wandb.tracker:WandbTracker",
)
rlcore_stats_writers, rlcore_checkpoint_saved, rlcore_run_finished = hooks_of(SPEC)


def create(settings: WandbSettings | None, run: RunContext) -> TrackerWriter:
    """Create the writer: the target of its record."""
    return make_writer(SPEC, settings, run)
