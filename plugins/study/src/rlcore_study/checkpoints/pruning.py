"""The choice of checkpoints for ``rlcore checkpoints prune``; :func:`rlcore.pruning` deletes them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from rlcore import RunStateError, pruning
from rlcore_study.checkpoints.details import CheckpointDetails, checkpoint_details, disk_usage


@attrs.frozen
class PrunePlan:
    """The checkpoints that a pruning deletes, and why the others stay."""

    delete: list[CheckpointDetails]
    stay: dict[int, str]  # by step of a regular checkpoint: the reason
    freed: int = 0  # bytes on disk that deleting them frees; files that other checkpoints share stay


def prune_plan(checkpoints: Sequence[CheckpointDetails], keep: int | None, older_than: float | None) -> PrunePlan:
    """Choose the regular checkpoints to delete: beyond the ``keep`` newest intact ones, and older than a time in s.

    A limit that is None is not applied. The newest intact checkpoint, that of the best evaluation's step, held ones and
    those newer than the newest intact one always stay, and so does everything in ``checkpoints/best``.

    Raises RunStateError if no regular checkpoint is intact: one that is damaged may still be repaired from a backup.
    """
    regular = [checkpoint for checkpoint in checkpoints if not checkpoint.best]
    intact = [checkpoint for checkpoint in regular if not checkpoint.problems()]
    if not regular:
        return PrunePlan([], {})
    if not intact:
        raise RunStateError(
            "no checkpoint is intact, so none is deleted; rlcore checkpoints verify says what is damaged"
        )
    newest = intact[-1]
    kept_steps = {checkpoint.step for checkpoint in intact[-keep:]} if keep is not None else set()
    now = time.time()
    delete = []
    stay = {}
    for checkpoint in regular:
        step = checkpoint.step
        reason = ""
        if checkpoint is newest:
            reason = "the newest intact one"
        elif step >= newest.step:
            # It may be repaired from a backup, and is then what a resume continues from.
            reason = "damaged, and newer than the newest intact one"
        elif step == newest.best_step:
            reason = "of the best evaluation"
        elif checkpoint.held:
            reason = "held by a plugin"
        elif step in kept_steps:
            reason = f"among the {keep} newest"
        elif kept_steps and step >= min(kept_steps):
            reason = "damaged, and newer than one that stays"
        elif older_than is not None and now - checkpoint.created < older_than:
            reason = "not old enough"
        if reason:
            stay[step] = reason
        else:
            delete.append(checkpoint)
    _, freed = disk_usage(delete)
    return PrunePlan(delete, stay, freed)


def prune(run: Path, keep: int | None, older_than: float | None, dry_run: bool, allow_local: bool) -> PrunePlan:
    """Delete the checkpoints of :func:`prune_plan` unless ``dry_run``. Raises as :func:`rlcore.pruning`."""
    with pruning(run, allow_local) as delete:
        plan = prune_plan(checkpoint_details(run), keep, older_than)
        if plan.delete and not dry_run:
            delete(plan.delete)
    return plan
