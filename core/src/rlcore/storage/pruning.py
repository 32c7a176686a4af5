"""Delete checkpoints of a run that no process trains: ``rlcore checkpoints prune``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from rlcore.errors import RunStateError
from rlcore.storage.checkpoint import load_without_arrays
from rlcore.storage.checkpoints import Checkpoint, is_intact, remove_checkpoints, require_no_newer
from rlcore.storage.files.lock import LOCK, RunLock
from rlcore.storage.run_files import CHECKPOINTS, outcome_in, read_mark, require_no_links, write_mark
from rlcore.storage.status import status_in_checkpoints
from rlcore.storage.stored_checkpoints import PrunePlan, StoredCheckpoint, disk_usage, prune_plan, stored_checkpoints


def prune(
    directory: Path,
    keep: int | None,
    older_than: float | None,
    dry_run: bool,
    write_status: Callable[[Mapping[str, Any]], None],
) -> PrunePlan:
    """Delete checkpoints as :func:`~rlcore.storage.stored_checkpoints.prune_plan` chooses, unless ``dry_run``.

    Exported policies beside them are deleted too. ``write_status`` gets the training status without them. Raises
    RunStateError if a process trains the run, or if nothing in the directory was written by rlcore.
    """
    mark = read_mark(directory)
    if mark is None:
        raise RunStateError(f"{directory}: has no mark of rlcore (rlcore_run.json), so nothing in it is deleted")
    with _locked(directory):
        checkpoints = directory / CHECKPOINTS
        require_no_links(directory, mark)
        require_no_newer(checkpoints)
        found = stored_checkpoints(directory)
        plan = prune_plan(found, _is_usable, keep, older_than, time.time())
        plan = attrs.evolve(plan, freed=disk_usage(plan.delete)[1])
        if dry_run or not plan.delete:
            return plan
        remove_checkpoints(checkpoints, [Checkpoint(each.step, each.path) for each in plan.delete])
        _remove_exports(directory, plan)
        if plan.newest is not None:
            checkpoint = Checkpoint(plan.newest.step, plan.newest.path)
            state = load_without_arrays(checkpoint.path)
            write_status(status_in_checkpoints(checkpoint, state, final=outcome_in(directory) == "done"))
    return plan


def _is_usable(checkpoint: StoredCheckpoint) -> bool:
    return not checkpoint.problem and is_intact(Checkpoint(checkpoint.step, checkpoint.path))


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the lock of the run. Raises RunStateError if a process trains it."""
    there, lock = (directory / LOCK).exists(), RunLock(directory)
    try:
        lock.acquire()
    except OSError as error:
        raise RunStateError(f"{directory}: cannot be written to: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()
        if not there:
            (directory / LOCK).unlink(missing_ok=True)


def _remove_exports(directory: Path, plan: PrunePlan) -> None:
    mark = read_mark(directory)
    assert mark is not None
    steps = [each.step for each in plan.delete]
    gone = [name for name, step in mark.exports.items() if "/" in name and step in steps]
    try:
        for relative in gone:
            path = directory / relative
            if not path.is_dir():
                path.unlink(missing_ok=True)
        if gone:
            write_mark(directory, attrs.evolve(mark, exports={n: s for n, s in mark.exports.items() if n not in gone}))
    except OSError as error:
        raise RunStateError(f"{directory}: an export cannot be deleted: {error.strerror or error}") from error
