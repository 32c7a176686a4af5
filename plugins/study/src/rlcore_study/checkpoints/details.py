"""Details of a checkpoint for ``rlcore checkpoints list``, and the space that checkpoints take on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, Self

import attrs

from rlcore import Checkpoint, RunStateError, find_checkpoints, is_locked, is_whole, read_object
from rlcore_study.documents import list_at


@attrs.frozen
class CheckpointDetails(Checkpoint):
    """A checkpoint of a run, read without verifying its files."""

    format_version: int | None  # None if the manifest cannot be read
    created: float  # seconds since 1970
    size: int  # bytes of its files
    own: int  # bytes of files that no other checkpoint shares: what deleting this one alone frees
    rewards: Mapping[str, float | None]  # by behavior, the mean return of the latest episodes
    score: float | None  # of the evaluation whose policies it has; of the last evaluation for a regular checkpoint
    resume: Mapping[str, Any] | None  # the promise of a resume; None if its state cannot be read
    best_step: int | None  # the step of the best evaluation that it knows
    held: bool  # by a plugin of the process that trains
    problem: str  # why its state cannot be read; empty if it can

    @classmethod
    def of(cls, checkpoint: Checkpoint, held: bool) -> Self:
        """The details of ``checkpoint``. Raises FileNotFoundError if a run that is training has just deleted it."""
        run: Mapping[str, Any] = {}
        problem = ""
        try:
            run = checkpoint.values()["run"]
        except RunStateError as error:
            problem = str(error)
        version = _read(checkpoint.path / "manifest.json").get("checkpoint_format")
        stats = [file.stat() for file in checkpoint.files()]
        best = checkpoint.best
        behaviors = {} if best else run.get("behaviors", {})
        rewards: dict[str, float | None] = {}
        for name, behavior in behaviors.items():
            rewards[name] = fmean(behavior["recent"]) if behavior["recent"] else None
        scores = run if best else run.get("evaluation") or {}
        score = scores.get("score")
        resume = run.get("resume")
        if best and run:
            resume = {"promise": "weights only", "reasons": [], "notes": []}
        return cls(
            step=checkpoint.step,
            path=checkpoint.path,
            format_version=version if is_whole(version) else None,
            created=checkpoint.created,
            size=sum(stat.st_size for stat in stats),
            own=sum(stat.st_size for stat in stats if stat.st_nlink == 1),
            rewards=rewards,
            score=float(score) if isinstance(score, int | float) else None,
            resume=resume,
            best_step=None if best else scores.get("best_step"),
            held=held,
            problem=problem,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return attrs.asdict(self) | {"path": str(self.path), "best": self.best}


def _read(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if the file is missing or damaged."""
    try:
        return read_object(path)
    except (FileNotFoundError, RunStateError):
        return {}


def all_checkpoints(run: Path) -> list[Checkpoint]:
    """The checkpoints of the run in the directory ``run``, oldest first, then those of the best evaluations."""
    return [*find_checkpoints(run / "checkpoints"), *find_checkpoints(run / "checkpoints" / "best")]


def checkpoint_details(run: Path) -> list[CheckpointDetails]:
    """The details of :func:`all_checkpoints`."""
    # While a process of the run holds some, it lists them here.
    steps: list[int] = []
    if is_locked(run):
        held = list_at(_read(run / "run_logs" / "held_checkpoints.json"), "held")
        steps = [step for step in held if is_whole(step)]
    details = []
    for checkpoint in all_checkpoints(run):
        held_now = not checkpoint.best and checkpoint.step in steps
        try:
            details.append(CheckpointDetails.of(checkpoint, held_now))
        except FileNotFoundError:
            continue  # the run is training, and has just deleted it
    return details


def disk_usage(checkpoints: Iterable[CheckpointDetails]) -> tuple[int, int]:
    """Bytes on disk of the files of checkpoints, each shared file once, and bytes that deleting all of these frees.

    A file that another checkpoint, or a link elsewhere, shares is not freed.
    """
    sizes: dict[tuple[int, int], int] = {}
    left: dict[tuple[int, int], int] = {}  # links to the file that are not among these
    for checkpoint in checkpoints:
        for stat in _stats(checkpoint):
            key = stat.st_dev, stat.st_ino
            sizes[key] = stat.st_size
            left[key] = left.get(key, stat.st_nlink) - 1
    freed = sum(size for key, size in sizes.items() if left[key] <= 0)
    return sum(sizes.values()), freed


def _stats(checkpoint: Checkpoint) -> list[os.stat_result]:
    """What the system knows of each file of a checkpoint; empty if the run has just deleted it."""
    try:
        return [file.stat() for file in checkpoint.files()]
    except FileNotFoundError:
        return []
