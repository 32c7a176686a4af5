"""Replace an earlier run: when it is moved aside, where to, when it is deleted, and when it gets its name back.

- An earlier run that saved anything, or holds files of others (:func:`why_force`), needs ``--force``. It moves,
  complete, to ``NAME.replaced`` beside it, or to the first of ``NAME.replaced-2`` and so on that is free. Any other run
  is deleted where it is.
- The mark of the new run names the runs that it replaces. They are deleted after the first regular checkpoint of the
  new run. A regular checkpoint is one of the interval or of the end of training; one after Ctrl-C is not.
- If the new run cannot start, the earlier run gets its name back.
- If the new run ends without a regular checkpoint, the earlier run stays where it is, and a further run of this name
  replaces both. A replaced run that is resumed has another id in its mark, and is never deleted.
- Files that rlcore did not write move to the same place in the new run's directory, or stay.
- A run with a checkpoint of a newer rlcore is neither replaced nor deleted.
- A run that is resumed from an earlier checkpoint replaces itself: it moves aside by the same rule, and continues as a
  copy (:func:`copy_until`). The copy has the checkpoints up to the chosen one, which share their files with the moved
  run by hard links, all best checkpoints, and the files that rlcore and plugins wrote outside checkpoints. Writers drop
  the summaries of steps that they see again.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import attrs

from rlcore.errors import RunStateError
from rlcore.files.lock import LOCK, DirectoryLock
from rlcore.files.reading import failing_as
from rlcore.files.writing import free_name, fsync_directory, fsync_file, is_leftover, temporary_path
from rlcore.storage.checkpoint import own_files
from rlcore.storage.checkpoints import BEST, CHECKPOINTS, checkpoints_of_run, find_checkpoints, require_format
from rlcore.storage.mark import (
    LOGS,
    MARK,
    RESULT,
    STATUS,
    Mark,
    entries,
    foreign_files,
    is_link_of_run,
    outcome_in,
    read_mark,
    remove_if_empty,
    remove_own,
)

log = logging.getLogger(__name__)


def why_force(path: Path, mark: Mark) -> str | None:
    """Why the run in ``path`` may not be replaced without ``--force``; None if nothing would be lost.

    Such a run moves aside when another run takes its name.
    """
    checkpoints = path / CHECKPOINTS
    choices = "replace it (--force) or choose another --run-id"
    if find_checkpoints(checkpoints):
        return f"this run exists; resume it (--resume), {choices}"
    if find_checkpoints(checkpoints / BEST):
        return f"this run has no checkpoint to resume, but the policies of its best evaluation; {choices}"
    if outcome_in(path) not in (None, "failed"):
        return f"this run is over, and its checkpoints are gone; {choices}"
    foreign = foreign_files(path, mark)
    if foreign:  # the new run may need the name
        return f"holds {foreign[0].relative_to(path)}, which rlcore did not write; move it, {choices}"
    return None


@attrs.define(eq=False)
class ReplacedRuns:
    """The earlier runs that the run in ``path`` replaces. The docstring of the module gives the rule."""

    path: Path
    moved_to: Path | None = attrs.field(default=None, init=False)  # where this process moved the earlier run
    _lock: DirectoryLock | None = attrs.field(default=None, init=False)  # of the moved run

    def kept(self, mark: Mark) -> list[Path]:
        """The directories of the runs that the run of ``mark`` is to replace, and that are still there."""
        return [path for path in map(self.path.with_name, mark.replaces) if path.is_dir()]

    def make_room(self, earlier: Mark, lock: DirectoryLock) -> Mark:
        """Frees the name of an earlier run, whose ``lock`` this process holds. Returns the mark of the new run.

        If the earlier run saved something, its directory is moved with its lock, and :attr:`moved_to` is set. Otherwise
        it is emptied except for the lock and the mark. Raises OSError, and RunStateError if it cannot be moved.
        """
        # The runs that the earlier run was to replace are replaced with it.
        replaces = {path.name: earlier.replaces[path.name] for path in self.kept(earlier)}
        if not why_force(self.path, earlier):
            remove_own(self.path, earlier, keep=(LOCK, MARK))
            return Mark(replaces=replaces)
        aside = free_name(self.path)
        with failing_as(f"{self.path}: cannot be moved to {aside}; choose another --run-id"):
            self.path.rename(aside)
        self.moved_to = aside
        self._lock = lock
        return Mark(replaces={**replaces, aside.name: earlier.run})

    def move_back(self, mark: Mark) -> None:
        """Gives the name back to the run that this process moved, because the run of ``mark`` failed to start.

        Files that others put there meanwhile stay in place. Raises OSError.
        """
        assert self.moved_to is not None
        failed = free_name(self.path)
        if self.path.exists():
            self.path.rename(failed)
        self.moved_to.rename(self.path)
        if not failed.exists():
            return
        _move_foreign_files(failed, mark, self.path)
        remove_own(failed, mark)
        if failed.exists():
            log.warning("%s: holds files that rlcore did not write; they stay there", failed)

    def delete(self, mark: Mark) -> Mark:
        """Deletes the runs that the run of ``mark`` replaces: it has a regular checkpoint now.

        Returns the mark without the runs that need no further attempt.
        """
        left = {}
        for name, run in mark.replaces.items():
            if not name.startswith(f"{self.path.name}.replaced"):
                continue  # this directory was renamed since
            path = self.path.with_name(name)
            lock = self._lock
            if lock is None or path != self.moved_to:
                lock = DirectoryLock(path)
            if not _delete(path, lock, run, self.path):
                left[name] = run
        self.release()
        return attrs.evolve(mark, replaces=left)

    def release(self) -> None:
        """Releases the lock of the run that this process moved."""
        if self._lock is not None:
            self._lock.release()
        self.moved_to = None
        self._lock = None


def _delete(path: Path, lock: DirectoryLock, run: str, successor: Path) -> bool:
    """Deletes the run in ``path`` if its id is still ``run``. Returns whether nothing is left to do.

    Files of others move to the same place in ``successor``, or stay if that is taken.
    """
    mark = read_mark(path)
    try:
        if mark is None:  # a process that was killed did everything else
            remove_if_empty(path)
            return True
        if mark.run != run or path.is_symlink():  # another run has this name now, or the run was moved and left a link
            return True
        if not lock.held:
            lock.acquire()
        require_format(path / CHECKPOINTS)
        _move_foreign_files(path, mark, successor)
        remove_own(path, mark)
    except (OSError, RunStateError) as error:
        log.warning("%s: the run that was replaced cannot be deleted: %s", path, error)
        return False
    finally:
        lock.release()
    if path.exists():
        left = sorted(entry.name for entry in path.iterdir())
        log.warning("%s: %s stays there; rlcore did not write it", path, ", ".join(left))
    return True


def _move_foreign_files(path: Path, mark: Mark, successor: Path) -> None:
    """Moves files that rlcore did not write to the same place in ``successor`` if that is free.

    Nothing moves into its ``checkpoints``, where a name may be that of a step, and no link that the new run would
    follow.
    """
    for file in foreign_files(path, mark):
        relative = file.relative_to(path)
        if relative.parts[0] == CHECKPOINTS or is_link_of_run(path, file, mark):
            continue  # it stays where it is
        place = successor / relative
        if not os.path.lexists(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            file.rename(place)


# ---------------------------------------------------------------- resuming from an earlier checkpoint


_NOT_COPIED = (LOCK, MARK, RESULT, f"{LOGS}/{STATUS}")  # of the run as it was at its end


def copy_until(source: Path, target: Path, mark: Mark, step: int) -> dict[str, int | None]:
    """Copy the run in ``source``, whose mark is ``mark``, as it was at the checkpoint of ``step``, into ``target``.

    The checkpoints get their place in one step, so that a process that is killed leaves all or none. Returns the
    exported files of the copy. Raises OSError.
    """
    exports: dict[str, int | None] = {}
    for path, of_run in entries(source, mark):
        relative = path.relative_to(source).as_posix()
        if not of_run or relative in _NOT_COPIED:
            continue
        if is_leftover(path.name) or not path.is_file():
            continue
        if relative in mark.exports:
            exported_step = mark.exports[relative]
            if exported_step is None or exported_step > step:
                continue
            exports[relative] = exported_step
        place = target / relative
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    checkpoints = source / CHECKPOINTS
    copy = temporary_path(target, f"{CHECKPOINTS}-")
    copy.mkdir()
    (copy / BEST).mkdir()
    for checkpoint in checkpoints_of_run(checkpoints):
        if checkpoint.best or checkpoint.step <= step:
            _share(checkpoint.path, copy / checkpoint.path.relative_to(checkpoints))
    copy.rename(target / CHECKPOINTS)
    fsync_directory(target)
    return exports


def _share(checkpoint: Path, place: Path) -> None:
    """Make the checkpoint at ``place`` of the files of another one; the bytes are copied where links are impossible."""
    place.mkdir()
    for file in own_files(checkpoint):
        copy = place / file.name
        try:
            os.link(file, copy)
        except OSError:
            shutil.copy2(file, copy)
            fsync_file(copy)
    fsync_directory(place)
