"""A run whose name another run takes: how it is kept, given its name back, or deleted."""

from __future__ import annotations

import logging
from pathlib import Path

import attrs

from rlcore.errors import RunStateError
from rlcore.files.atomic import free_name
from rlcore.storage.lock import RunLock
from rlcore.storage.run_files import CHECKPOINTS, Mark, foreign_files, read_mark, remove_if_empty, remove_own

log = logging.getLogger(__name__)


@attrs.frozen
class Replaced:
    """An earlier run, complete in a directory of its own, and its lock if this process holds it."""

    path: Path
    lock: RunLock | None

    def release(self) -> None:
        if self.lock is not None:
            self.lock.release()

    def bring_back(self, directory: Path, mark: Mark) -> None:
        """Gives the name ``directory`` back to this run, because the run of ``mark``, which has it, failed to start.

        Files that others put there meanwhile stay in place. Raises OSError.
        """
        failed = free_name(directory)
        if directory.exists():
            directory.rename(failed)
        self.path.rename(directory)
        if failed.exists():
            _give_back(failed, mark, directory)
            remove_own(failed, mark)
        if failed.exists():
            log.warning("%s: holds files that rlcore did not write; they stay there", failed)


def discard(replaced: Replaced, run: str, successor: Path) -> bool:
    """Deletes an earlier run if its id is still ``run``. Returns whether nothing is left to do.

    Files of others move to the same place in ``successor``, or stay if that is taken.
    """
    path = replaced.path
    lock = replaced.lock or RunLock(path)
    mark = read_mark(path)
    try:
        if mark is None:
            remove_if_empty(path)  # a process that was killed did everything else
        if mark is None or mark.run != run:
            return True  # or another run has this name now
        if not lock.held:
            lock.acquire()
        _give_back(path, mark, successor)
        remove_own(path, mark)
    except (OSError, RunStateError) as error:
        log.warning("%s: the run that was replaced cannot be deleted: %s", path, error)
        return False
    finally:
        lock.release()
    if path.exists():
        left = sorted(str(each.relative_to(path)) for each in path.iterdir())
        log.warning("%s: %s stays there; rlcore did not write it", path, ", ".join(left))
    return True


def _give_back(path: Path, mark: Mark, successor: Path) -> None:
    """Moves files that rlcore did not write to the same place in ``successor`` if that is free.

    Nothing moves into its ``checkpoints``, where a name may be that of a step.
    """
    for foreign in foreign_files(path, mark):
        relative = foreign.relative_to(path)
        place = successor / relative
        if relative.parts[0] != CHECKPOINTS and not (place.exists() or place.is_symlink()):
            place.parent.mkdir(parents=True, exist_ok=True)
            foreign.rename(place)
