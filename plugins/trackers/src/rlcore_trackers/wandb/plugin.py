"""The hooks of the plugin wandb. rlcore imports this module at every start, so it must not import wandb."""

from __future__ import annotations

from functools import partial

from rlcore_trackers.hooks import TrackerSpec, hooks_of, make_writer

SPEC = TrackerSpec(
    name="wandb",
    target="rlcore_trackers.wandb.plugin:create",
    settings="rlcore_trackers.wandb.settings:WandbSettings",
    summary="runs of Weights & Biases, written offline by default",
    tracker="rlcore_trackers.wandb.tracker:WandbTracker",
)
rlcore_stats_writers, rlcore_checkpoint_saved, rlcore_run_finished = hooks_of(SPEC)
create = partial(make_writer, SPEC)  # the target of the record
