"""The checkpoints of a run as ``rlcore checkpoints`` lists them, and ``rlcore checkpoints prune``.

Pruning deletes checkpoints of a run that no process trains. :func:`prune_plan` chooses them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from rlcore.errors import RunStateError
from rlcore.storage.checkpoint import created_at, format_version, load_without_arrays, own_files
from rlcore.storage.checkpoint_state import RUN, require_models, require_run
from rlcore.storage.checkpoints import (
    BEST,
    CHECKPOINTS,
    Checkpoint,
    find_checkpoints,
    is_intact,
    remove_checkpoints,
    require_no_newer,
)
from rlcore.storage.files.access import DamagedFile, failing_as, is_whole, read_object
from rlcore.storage.files.lock import LOCK, RunLock, is_locked
from rlcore.storage.run_files import HOLDS, LOGS, outcome_in, read_mark, require_no_links, without_exports, write_mark
from rlcore.storage.status import mean, status_in_checkpoints


@attrs.frozen
class CheckpointDetails(Checkpoint):
    """A checkpoint of a run, read without verifying its files."""

    best: bool  # in checkpoints/best: the policies of an evaluation
    format_version: int | None  # None if the manifest cannot be read
    created: float  # seconds since 1970
    size: int  # bytes of its files
    own: int  # bytes of files that no other checkpoint shares: what deleting this one alone frees
    rewards: Mapping[str, float | None]  # by behavior, the mean return of the latest episodes
    score: float | None  # of the evaluation whose policies it has; of the last evaluation for a regular checkpoint
    resume: Mapping[str, Any] | None  # the promise of a resume; None in an older checkpoint
    best_step: int | None  # the step of the best evaluation that it knows
    held: bool  # by a plugin of the process that trains
    problem: str  # why its state cannot be read; empty if it can

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return attrs.asdict(self) | {"path": str(self.path)}


def checkpoint_details(directory: Path) -> list[CheckpointDetails]:
    """The checkpoints of the run in ``directory``, oldest first, then those of the best evaluations."""
    places = [(directory / CHECKPOINTS, False), (directory / CHECKPOINTS / BEST, True)]
    held = _held(directory)
    found = []
    for place, best in places:
        for checkpoint in find_checkpoints(place):
            try:
                found.append(_details(checkpoint.step, checkpoint.path, best, not best and checkpoint.step in held))
            except FileNotFoundError:
                continue  # the run is training, and has just deleted it
    return found


def disk_usage(found: Iterable[CheckpointDetails]) -> tuple[int, int]:
    """Bytes on disk of the files of checkpoints, each shared file once, and bytes that deleting all of these frees.

    A file that another checkpoint, or a link elsewhere, shares is not freed.
    """
    sizes: dict[tuple[int, int], int] = {}
    left: dict[tuple[int, int], int] = {}  # links to the file that are not among these
    for each in found:
        for stat in _stats(each.path):
            key = stat.st_dev, stat.st_ino
            sizes[key] = stat.st_size
            left[key] = left.get(key, stat.st_nlink) - 1
    return sum(sizes.values()), sum(size for key, size in sizes.items() if left[key] <= 0)


def _stats(path: Path) -> list[os.stat_result]:
    """What the system knows of each file of a checkpoint; empty if the run has just deleted it."""
    try:
        return [file.stat() for file in own_files(path)]
    except FileNotFoundError:
        return []


def _held(directory: Path) -> frozenset[int]:
    """The steps of the checkpoints that a process which trains the run holds."""
    if not is_locked(directory):
        return frozenset()
    try:
        steps = read_object(directory / LOGS / HOLDS).get("held")
    except (OSError, DamagedFile):
        return frozenset()
    return frozenset(filter(is_whole, steps)) if isinstance(steps, list) else frozenset()


def _details(step: int, path: Path, best: bool, held: bool) -> CheckpointDetails:
    run: Mapping[str, Any] = {}
    problem = ""
    try:
        state = load_without_arrays(path)
        if best:
            run = _best_run(path, state)
        else:
            require_run(path, state)
            run = state[RUN]
    except RunStateError as error:
        problem = str(error)
    stats = [file.stat() for file in own_files(path)]
    scores = run.get("evaluation") or {}
    try:
        created = created_at(path)
    except OSError:
        created = path.stat().st_mtime
    return CheckpointDetails(
        step,
        path,
        best,
        format_version(path),
        created,
        sum(each.st_size for each in stats),
        sum(each.st_size for each in stats if each.st_nlink == 1),
        {name: mean(behavior["recent"]) for name, behavior in run.get("behaviors", {}).items()},
        run.get("score") if best else scores.get("score"),
        {"promise": "weights only", "reasons": [], "notes": []} if best and run else run.get("resume"),
        None if best else scores.get("best_step"),
        held,
        problem,
    )


def _best_run(path: Path, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry of the run in a best checkpoint. Raises RunStateError if it lacks what policies need."""
    require_models(path, state)
    run: Mapping[str, Any] = state[RUN]
    score = run.get("score")
    return {"score": float(score) if isinstance(score, int | float) else None}


# ---------------------------------------------------------------- pruning


@attrs.frozen
class PrunePlan:
    """The checkpoints that a pruning deletes, and why the others stay."""

    delete: list[CheckpointDetails]
    stay: dict[int, str]  # by step of a regular checkpoint: the reason
    newest: CheckpointDetails | None  # that is intact; None without checkpoints
    freed: int = 0  # bytes on disk that deleting them frees; files that other checkpoints share stay


def prune_plan(
    found: Sequence[CheckpointDetails],
    is_intact: Callable[[CheckpointDetails], bool],
    keep: int | None,
    older_than: float | None,
    now: float,
) -> PrunePlan:
    """Choose the regular checkpoints to delete: beyond the ``keep`` newest intact ones, and older than a time in s.

    A limit that is None is not applied. The newest intact checkpoint, that of the best evaluation's step, held ones and
    those newer than the newest intact one always stay, and so does everything in ``checkpoints/best``.

    Raises RunStateError if no regular checkpoint is intact: one that is damaged may still be repaired from a backup.
    """
    regular = [each for each in found if not each.best]
    intact = [each for each in regular if is_intact(each)]
    if regular and not intact:
        raise RunStateError(
            "no checkpoint is intact, so none is deleted; rlcore checkpoints verify says what is damaged"
        )
    newest = intact[-1] if intact else None
    among = {each.step for each in intact[-keep:]} if keep is not None else set()
    first_kept = min(among, default=None)
    plan = PrunePlan([], {}, newest)
    for each in regular:
        reason = ""
        if newest is not None and each.step >= newest.step:
            reason = "the newest intact one" if each is newest else "damaged, and newer than the newest intact one"
        elif newest is not None and each.step == newest.best_step:
            reason = "of the best evaluation"
        elif each.held:
            reason = "held by a plugin"
        elif first_kept is not None and each.step >= first_kept:
            reason = f"among the {keep} newest" if each.step in among else "damaged, and newer than one that stays"
        elif older_than is not None and now - each.created < older_than:
            reason = "not old enough"
        if reason:
            plan.stay[each.step] = reason
        else:
            plan.delete.append(each)
    return plan


def prune(
    directory: Path,
    keep: int | None,
    older_than: float | None,
    dry_run: bool,
    write_status: Callable[[Mapping[str, Any]], None],
) -> PrunePlan:
    """Delete checkpoints as :func:`~rlcore.storage.pruning.prune_plan` chooses, unless ``dry_run``.

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
        found = checkpoint_details(directory)
        plan = prune_plan(found, _is_usable, keep, older_than, time.time())
        plan = attrs.evolve(plan, freed=disk_usage(plan.delete)[1])
        if dry_run or not plan.delete:
            return plan
        remove_checkpoints(checkpoints, plan.delete)
        deleted = {each.step for each in plan.delete}
        with failing_as(f"{directory}: an export cannot be deleted"):
            write_mark(
                directory, without_exports(directory, read_mark(directory) or mark, lambda step: step in deleted)
            )
        if plan.newest is not None:
            state = load_without_arrays(plan.newest.path)
            write_status(status_in_checkpoints(plan.newest, state, final=outcome_in(directory) == "done"))
    return plan


def _is_usable(checkpoint: CheckpointDetails) -> bool:
    return not checkpoint.problem and is_intact(checkpoint)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the lock of the run. Raises RunStateError if a process trains it."""
    there, lock = (directory / LOCK).exists(), RunLock(directory)
    with failing_as(f"{directory}: cannot be written to"):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
        if not there:
            (directory / LOCK).unlink(missing_ok=True)
