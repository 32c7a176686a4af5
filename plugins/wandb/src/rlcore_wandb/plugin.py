"""The hooks of rlcore-wandb. rlcore imports this module at every start, so it must not import wandb."""

from __future__ import annotations

from rlcore_trackers.hooks import TrackerSpec, hooks_of

SPEC = TrackerSpec(
    name="wandb",
    target="rlcore_wandb.writer:create",
    settings="rlcore_wandb.settings:WandbSettings",
    summary="runs of Weights & Biases, written offline by default",
    tracker="rlcore_wandb.tracker:WandbTracker",
)
rlcore_stats_writers, rlcore_checkpoint_saved, rlcore_run_finished = hooks_of(SPEC)
