"""The checkpoints of a run: save one, find the newest intact one, delete old ones, keep those of the best evaluation.

A checkpoint is a directory whose name is its step. It is written beside its place, flushed to disk, renamed and
verified before an older one is deleted. rlcore deletes only what rlcore wrote: a directory counts as a checkpoint by
the files in it, not by its name, and temporary files have names of :func:`rlcore.temporary_path`.

The policies of the best evaluation are in ``checkpoints/best``, each with its score.
:mod:`rlcore.run.evaluation.evaluations` decides during a run which evaluation is the best. :func:`rank` is the
comparison.
"""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
from safetensors import SafetensorError

from rlcore.errors import PluginError, RunStateError
from rlcore.files.reading import failing_as
from rlcore.files.writing import free_name, fsync_directory, temporary_path
from rlcore.plugins.holds import CheckpointHolds
from rlcore.storage.checkpoint import (
    MANIFEST,
    STATE,
    OtherFormat,
    damages,
    is_checkpoint,
    load_checkpoint,
    load_without_arrays,
    own_files,
    read_manifest,
    split,
    verify_checkpoint,
    write_checkpoint,
)
from rlcore.storage.checkpoint_state import RUN, models_in, require_models, require_run
from rlcore.storage.frozen_files import Arrays, FlushedFiles, FrozenFiles

log = logging.getLogger(__name__)


CHECKPOINTS = "checkpoints"  # the directory of a run's checkpoints
MOST_LINKED = 4  # checkpoints of a kind that a new one shares files with: it has those of the one or two before it
BEST = "best"  # the directory of the best checkpoints, within that of the regular ones
_STEP_NAME = re.compile(r"[0-9]{1,18}")  # below 2**63


@attrs.frozen
class Checkpoint:
    """A checkpoint in the directory of a run; its files may be damaged.

    Attributes:
        step: Agent steps of all behaviors.
        path: The directory of the checkpoint.
    """

    step: int
    path: Path

    @property
    def best(self) -> bool:
        """Whether it has the policies of an evaluation, and no run resumes from it."""
        return self.path.parent.name == BEST

    @property
    def created(self) -> float:
        """When it was written, in seconds since 1970. Raises FileNotFoundError if it was deleted."""
        manifest = self.path / MANIFEST
        return (manifest if manifest.exists() else self.path).stat().st_mtime

    def values(self) -> dict[str, Any]:
        """Return its JSON values, with a mark in the place of each array. Checksums are not compared.

        Raises RunStateError if a run cannot use them: resume from a regular checkpoint, act with one of ``best``.
        """
        state = load_without_arrays(self.path)
        if self.best:
            require_models(self.path, state)
        else:
            require_run(self.path, state)
        return state

    def problems(self) -> list[str]:
        """Return a line for each damaged file, or one that says why a run cannot use it; empty if it is intact."""
        try:
            lines = list(damages(self.path))
            if not lines:
                self.values()
        except RunStateError as error:
            lines = [str(error)]
        return lines

    def files(self) -> list[Path]:
        """Return its files that rlcore wrote. Raises FileNotFoundError if it was deleted."""
        return sorted(own_files(self.path))


# ---------------------------------------------------------------- finding


def find_checkpoints(directory: Path, found: dict[str, Checkpoint] | None = None) -> list[Checkpoint]:
    """All checkpoints in ``directory``, oldest first, damaged ones included.

    A checkpoint is a directory with a number as its name that contains a manifest or a state. ``found`` remembers them
    by name for the next call, which asks only of new names whether they are checkpoints.
    """
    before = found or {}
    now = {}
    for name in _names(directory):
        if name in before:
            now[name] = before[name]
        elif is_step(directory / name):
            now[name] = Checkpoint(int(name), directory / name)
    if found is not None:
        found.clear()
        found.update(now)
    return sorted(now.values(), key=lambda checkpoint: checkpoint.step)


def _names(directory: Path) -> list[str]:
    """The names in ``directory``; none if it is not a directory."""
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _newest(directory: Path, until: int) -> list[Checkpoint]:
    """Return the ``MOST_LINKED`` newest checkpoints in ``directory`` of at most step ``until``, the newest first."""
    steps = [(int(name), name) for name in _names(directory) if _STEP_NAME.fullmatch(name) and int(name) <= until]
    newest = (Checkpoint(step, directory / name) for step, name in sorted(steps, reverse=True))
    return list(islice((each for each in newest if is_checkpoint(each.path)), MOST_LINKED))


def is_step(path: Path) -> bool:
    """Whether ``path`` is a checkpoint, which has its step as its name; its files may be damaged."""
    return _STEP_NAME.fullmatch(path.name) is not None and is_checkpoint(path)


def newest_intact(
    directory: Path,
    origin: str,
    advice: str = "",
    step: int | None = None,
    check: Callable[[Path, Mapping[str, Any]], None] | None = None,
) -> tuple[Checkpoint, dict[str, Any]]:
    """The newest undamaged checkpoint in ``directory``, or the one of ``step``, and its state.

    Skips a damaged checkpoint with a warning, and also one for which ``check(path, state)`` raises a RunStateError.
    Raises RunStateError if none is left; its message begins with ``origin``, the run or the option that needs a
    checkpoint, and ends with ``advice``. Raises OtherFormat for a checkpoint of a newer rlcore, which is not damaged.
    """
    problem = ""
    checkpoints = find_checkpoints(directory)
    for checkpoint in reversed(checkpoints):
        if step is not None and checkpoint.step != step:
            continue
        try:
            state = load_checkpoint(checkpoint.path)
            if check is not None:
                check(checkpoint.path, state)
            return checkpoint, state
        except OtherFormat:
            raise
        except RunStateError as error:
            if not checkpoint.path.exists():  # the run is training, and has replaced what was found
                return newest_intact(directory, origin, advice, step, check)
            older = step is None and checkpoint != checkpoints[0]
            log.warning("%s; an older checkpoint is used" if older else "%s", error)
            problem = problem or f" ({error})"
    raise RunStateError(f"{origin}: there is no usable checkpoint in {directory}{problem}{advice}")


def checkpoints_of_run(checkpoints: Path) -> list[Checkpoint]:
    """All checkpoints of the run with this directory of ``checkpoints``: the regular ones, then the best ones."""
    return [*find_checkpoints(checkpoints), *find_checkpoints(checkpoints / BEST)]


def is_intact(checkpoint: Checkpoint) -> bool:
    """Whether all files of a checkpoint are as they were written. Raises OtherFormat for one of a newer rlcore."""
    try:
        verify_checkpoint(checkpoint.path)
    except OtherFormat:
        raise
    except RunStateError:
        return False
    return True


def require_format(checkpoints: Path) -> None:
    """Raises OtherFormat if a newer rlcore wrote one of the ``checkpoints`` of a run.

    Call it before anything in a run directory is deleted, replaced or continued: this rlcore cannot say what such a
    checkpoint is worth, and must not delete it.
    """
    for checkpoint in checkpoints_of_run(checkpoints):
        try:
            read_manifest(checkpoint.path)
        except OtherFormat:
            raise
        except RunStateError:  # damaged
            continue


# ---------------------------------------------------------------- saving


def save_checkpoint(directory: Path, step: int, state: Mapping[str, Any], configuration: str | None = None) -> Path:
    """Writes ``state`` as the checkpoint of ``step`` and returns its path.

    The files are written to a temporary directory and flushed to disk, then the directory is renamed, so that there is
    never half a checkpoint under its name. ``configuration`` is stored as ``configuration.yaml``. Files of shared parts
    that another checkpoint of the run has are linked, not written. Files that rlcore did not write, in the place of the
    checkpoint, are moved to ``STEP.replaced``. Raises RunStateError if the checkpoint cannot be written, and TypeError
    for a state that is not arrays and JSON; what was written so far is removed.
    """
    return CheckpointSave(directory, step, state, configuration).finish()


class CheckpointSave:
    """A checkpoint that is being saved, as :func:`save_checkpoint` does, in two parts.

    The first part reads the state and links what other checkpoints of the run have. :meth:`finish` writes the rest, and
    may run in another thread, if :meth:`detach` was called before the state changes.
    """

    def __init__(
        self,
        directory: Path,
        step: int,
        state: Mapping[str, Any],
        configuration: str | None = None,
        flushed: FlushedFiles | None = None,
        apart: bool = False,
    ) -> None:
        """``apart``: share no file with the regular checkpoint before this one, so that damage to a file spares one."""
        self.path = directory / str(step)
        self._step = step
        self._configuration = configuration
        self._temporary = temporary_path(directory, f"{step}-")
        with self._failing():
            directory.mkdir(parents=True, exist_ok=True)
            self._temporary.mkdir()
            other_kind = directory.parent if directory.name == BEST else directory / BEST
            same_kind = _newest(directory, step)
            # The order in which links are tried: the newest of the same kind most likely has a file.
            earlier = [other.path for other in (*same_kind, *_newest(other_kind, step))]
            latest = next((other.path for other in same_kind if other.step < step), None)
            self._frozen = FrozenFiles(self._temporary, earlier, flushed or FlushedFiles(), latest if apart else None)
            self._tree, self._arrays = split(state, self._frozen)

    def _changing(self) -> list[Arrays]:
        """All arrays that are to be written and may change before."""
        return [*self._arrays.values(), *self._frozen.to_write()]

    @property
    def nbytes(self) -> int:
        """Bytes that :meth:`detach` copies: what is to be written and may change."""
        return sum(array.nbytes for arrays in self._changing() for array in arrays.values())

    def detach(self) -> None:
        """Copy what is to be written, so that the state may change before :meth:`finish`."""
        with self._failing():
            for arrays in self._changing():
                arrays.update({name: array.copy() for name, array in arrays.items()})

    def finish(self) -> Path:
        """Write the checkpoint. Returns its path."""
        final = self.path
        directory = self.path.parent
        with self._failing():
            verified = write_checkpoint(self._step, self._tree, self._arrays, self._configuration, self._frozen)
            replaced = None
            if os.path.lexists(final):  # a run that was resumed from an older checkpoint may reach this step again
                replaced = _make_room(final)
            self._temporary.rename(final)
            fsync_directory(directory)
            try:
                verify_checkpoint(final, verified)  # read back, before an older checkpoint is deleted
            except BaseException:
                if replaced is not None:
                    shutil.rmtree(final)
                    replaced.rename(final)
                raise
            self._frozen.moved_to(final)
            if replaced is not None:
                shutil.rmtree(replaced)
                fsync_directory(directory)
        return final

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Remove what was written so far after an error of the block."""
        try:
            yield
        except (OSError, SafetensorError) as error:
            shutil.rmtree(self._temporary, ignore_errors=True)
            raise RunStateError(_cannot_write(self.path, error)) from error
        except BaseException:
            shutil.rmtree(self._temporary, ignore_errors=True)
            raise


def _make_room(path: Path) -> Path | None:
    """Frees the path of a checkpoint. Returns the old checkpoint, to be deleted, if nothing else was there.

    Files that rlcore did not write, and a directory that is not a checkpoint, are moved to ``STEP.replaced``.
    """
    ours = not path.is_symlink() and is_checkpoint(path)
    if ours and not foreign_entries(path):
        return _set_aside(path)
    place = path.rename(free_name(path))
    if ours:
        remove_checkpoint(place)
    log.warning("%s: a checkpoint needs this name; what rlcore did not write there is in %s", path, place)
    return None


def _set_aside(path: Path) -> Path:
    """Renames a checkpoint before it is deleted: an interrupted deletion must not leave one with files missing."""
    return path.rename(temporary_path(path.parent, f"deleted-{path.name}-"))


def _cannot_write(path: Path, error: OSError | SafetensorError) -> str:
    """The message for a checkpoint that cannot be written: the cause, and from which one a run can be resumed."""
    directory = path.parent
    if directory.name == BEST:
        directory = directory.parent
    last = "there is no earlier one"
    advice = "start the run again"
    for checkpoint in reversed(find_checkpoints(directory)):
        if is_intact(checkpoint):
            last = f"the last intact one is of step {checkpoint.step}"
            advice = "resume with --resume"
            break
    cause = getattr(error, "strerror", None) or error  # safetensors passes an error of the system on as a text
    return f"checkpoint of step {path.name} in {path.parent} cannot be written: {cause}; {last}; fix that and {advice}"


# ---------------------------------------------------------------- deleting


def foreign_entries(path: Path) -> list[Path]:
    """The files and directories in a checkpoint that rlcore did not write."""
    return sorted(set(path.iterdir()) - own_files(path))


def remove_checkpoint(path: Path) -> None:
    """Deletes a checkpoint. Files in it that rlcore did not write stay, in a directory that is no longer a checkpoint.

    A link to a checkpoint stays too, because rlcore makes no links.
    """
    if path.is_symlink():
        return
    if foreign_entries(path):
        # The manifest and the state first: without them an interrupted deletion leaves no checkpoint.
        for file in sorted(own_files(path), key=lambda file: file.name not in (MANIFEST, STATE)):
            file.unlink()
        return
    shutil.rmtree(_set_aside(path))


def remove_checkpoints(directory: Path, checkpoints: Sequence[Checkpoint]) -> None:
    """Deletes ``checkpoints`` of ``directory``. Raises RunStateError if that fails."""
    with failing_as(f"{directory}: cannot delete an old checkpoint"):
        for checkpoint in checkpoints:
            remove_checkpoint(checkpoint.path)


def most_kept(numbers: Iterable[int]) -> int:
    """How many checkpoints of a run to keep, from ``keep_checkpoints`` of each behavior: the largest number.

    0 or less means all, so one behavior with 0 keeps all checkpoints of the run.
    """
    numbers = list(numbers)
    return 0 if min(numbers) <= 0 else max(numbers)


def rotate(
    directory: Path,
    keep: int,
    newest: int,
    check_intact: Callable[[Checkpoint], bool],
    holds: CheckpointHolds | None = None,
    found: dict[str, Checkpoint] | None = None,
) -> tuple[list[Checkpoint], list[Checkpoint]]:
    """Deletes the checkpoints older than the ``keep`` newest intact ones, unless they are held; 0 or less keeps all.

    Returns the intact ones that stay, and the deleted ones, both oldest first. ``newest`` is the step just saved. A
    checkpoint of a later step is damaged, since the run was resumed from an older one; it stays until the run saves
    that step again. Damaged checkpoints do not count towards ``keep``, and held ones only if they are among the newest.
    ``found`` is that of :func:`find_checkpoints`.
    """
    checkpoints = [checkpoint for checkpoint in find_checkpoints(directory, found) if checkpoint.step <= newest]
    intact = [checkpoint for checkpoint in checkpoints if check_intact(checkpoint)]
    if keep <= 0 or len(intact) < keep:
        return intact, []
    oldest_kept = intact[-keep].step
    old = [checkpoint for checkpoint in checkpoints if checkpoint.step < oldest_kept]
    steps = [checkpoint.step for checkpoint in old]
    holds = holds or CheckpointHolds()
    with holds.unheld(steps) as unheld:
        removed = [checkpoint for checkpoint in old if checkpoint.step in unheld]
        remove_checkpoints(directory, removed)
    stay = [checkpoint for checkpoint in intact if checkpoint not in removed]
    return stay, removed


# ---------------------------------------------------------------- best evaluation


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
    of_step = [checkpoint for checkpoint in find_checkpoints(directory) if checkpoint.step == step]
    saved = by_score(of_step)
    if saved and _score(saved[0]) > about["score"]:
        path = saved[0].path
        log.warning("%s: has policies of a higher score, of steps that this run abandoned; they stay", path)
        return
    state = {name: {"model": model} for name, model in models.items()}
    try:
        save_checkpoint(directory, step, state | {RUN: about}, configuration)
    except TypeError as error:
        raise PluginError(f"best checkpoint, of step {step}: {error}") from error


def remove_lower_best(directory: Path, best: int | None) -> None:
    """Deletes the best checkpoints in ``directory`` that score less than the one of step ``best``.

    Call it after every checkpoint of the run, one after Ctrl-C included. ``best`` is the best step that this checkpoint
    references, None if it references none. Older policies stay until then, because a run that is killed before its
    next checkpoint resumes from one that references them.
    Policies with a higher score stay too: they belong to steps that the run abandoned.
    """
    checkpoints = find_checkpoints(directory)
    if len(checkpoints) == 1 or best not in {checkpoint.step for checkpoint in checkpoints}:
        return
    lower: list[Checkpoint] = []
    for checkpoint in by_score(checkpoints):
        if checkpoint.step == best:
            remove_checkpoints(directory, lower)
            return
        lower.append(checkpoint)
    log.warning("%s: is damaged; the other best checkpoints stay", directory / str(best))


def by_score(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The intact ones of the best ``checkpoints``, in the order of :func:`rank`, the best last."""
    intact = [checkpoint for checkpoint in checkpoints if is_intact(checkpoint)]
    return sorted(intact, key=lambda checkpoint: rank(_score(checkpoint), checkpoint.step))


def _score(checkpoint: Checkpoint) -> float:
    """The score of the policies in a best checkpoint; minus infinity if it has none."""
    try:
        return float(load_without_arrays(checkpoint.path)[RUN]["score"])
    except (RunStateError, LookupError, TypeError, ValueError):
        return -math.inf


# ---------------------------------------------------------------- models


def models_at(path: Path, origin: str) -> dict[str, Any]:
    """The model of every behavior in the newest intact checkpoint of a run directory, or in a checkpoint directory.

    Raises RunStateError, which names ``origin`` (what the user wrote), if there is none.
    """
    step = None
    directory = path / CHECKPOINTS
    if not directory.is_dir():
        if not path.name.isdecimal():
            raise RunStateError(f"{origin}: is neither a run directory nor one of its checkpoints")
        step = int(path.name)
        directory = path.parent
    _, state = newest_intact(directory, origin, step=step, check=require_models)
    return models_in(state)
