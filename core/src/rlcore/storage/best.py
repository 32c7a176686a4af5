"""Keep the policies of a run's best evaluation in ``checkpoints/best``, each with its score.

:mod:`rlcore.run.evaluations` decides during a run which evaluation is the best. :func:`rank` is the comparison.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcore.errors import PluginError, RunStateError
from rlcore.storage.checkpoint import load_without_arrays
from rlcore.storage.checkpoints import (
    Checkpoint,
    find_checkpoints,
    is_intact,
    remove_checkpoints,
    save_checkpoint,
)
from rlcore.storage.checkpoint_state import RUN

log = logging.getLogger(__name__)


def rank(score: float, step: int) -> tuple[float, int]:
    """A key to compare evaluations by: the best one has the highest score, and of equal scores the earliest step."""
    return score, -step


def save_best(
    directory: Path, step: int, models: Mapping[str, Any], about: Mapping[str, Any], configuration: str
) -> None:
    """Writes the policies of the best evaluation so far into ``directory``; older ones stay.

    ``about`` has at least their ``score``. Policies of the same step with a higher score are not replaced: they belong
    to steps that the run abandoned when it was resumed from an older checkpoint.
    """
    there = by_score([each for each in find_checkpoints(directory) if each.step == step])
    if there and _score(there[0]) > about["score"]:
        log.warning("%s: has policies of a higher score, of steps that this run abandoned; they stay", there[0].path)
        return
    state = {name: {"model": model} for name, model in models.items()}
    try:
        save_checkpoint(directory, step, state | {RUN: about}, configuration)
    except TypeError as error:
        raise PluginError(f"best checkpoint, of step {step}: {error}") from error


def settle_best(directory: Path, best: int | None) -> None:
    """Deletes the best checkpoints in ``directory`` that score less than the one of step ``best``.

    Call it after every checkpoint of the run, one after Ctrl-C included. ``best`` is the best step that this checkpoint
    references, None if it references none. Older policies stay until then, because a run that is killed before its
    next checkpoint resumes from one that references them.
    Policies with a higher score stay too: they belong to steps that the run abandoned.
    """
    found = find_checkpoints(directory)
    if len(found) == 1 or best not in {checkpoint.step for checkpoint in found}:
        return
    ranked = by_score(found)
    steps = [checkpoint.step for checkpoint in ranked]
    if best not in steps:
        log.warning("%s: is damaged; the other best checkpoints stay", directory / str(best))
    else:
        remove_checkpoints(directory, ranked[: steps.index(best)])


def by_score(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The intact ones of the best ``checkpoints``, in the order of :func:`rank`, the best last."""
    whole = [checkpoint for checkpoint in checkpoints if is_intact(checkpoint)]
    return sorted(whole, key=lambda checkpoint: rank(_score(checkpoint), checkpoint.step))


def _score(checkpoint: Checkpoint) -> float:
    """The score of the policies in a best checkpoint; minus infinity if it has none."""
    try:
        return float(load_without_arrays(checkpoint.path)[RUN]["score"])
    except (RunStateError, LookupError, TypeError, ValueError):
        return -math.inf
