"""Resume a run from an earlier checkpoint: the later ones are abandoned, but nothing is lost at once.

The run moves aside, complete, to ``NAME.replaced``, as :mod:`rlcore.storage.replaced_runs` moves a run that ``--force``
replaces, and by the same rule it is deleted after the first regular checkpoint of the run that continues. That run
begins as a copy: the checkpoints up to the chosen one, which share their files with the moved run by hard links, all
best checkpoints, and the files that rlcore and plugins wrote outside checkpoints. Writers drop the summaries of steps
that they see again.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rlcore.storage.checkpoint import own_files
from rlcore.storage.checkpoints import BEST, find_checkpoints
from rlcore.storage.files.atomic import fsync_directory, fsync_file, is_leftover, temporary_path
from rlcore.storage.files.lock import LOCK
from rlcore.storage.run_files import CHECKPOINTS, LOGS, MARK, RESULT, STATUS, Mark, own_files_in

_NOT_COPIED = (LOCK, MARK, RESULT, f"{LOGS}/{STATUS}")  # of the run as it was at its end


def copy_until(source: Path, target: Path, mark: Mark, step: int) -> dict[str, int | None]:
    """Copy the run in ``source``, whose mark is ``mark``, as it was at the checkpoint of ``step``, into ``target``.

    The checkpoints get their place in one step, so that a process that is killed leaves all or none. Returns the
    exported files of the copy. Raises OSError.
    """
    exports: dict[str, int | None] = {}
    for path in own_files_in(source, mark):
        relative = path.relative_to(source).as_posix()
        if relative in _NOT_COPIED or is_leftover(path.name) or not path.is_file():
            continue
        if relative in mark.exports:
            of = mark.exports[relative]
            if of is None or of > step:
                continue
            exports[relative] = of
        place = target / relative
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    made = temporary_path(target, f"{CHECKPOINTS}-")
    made.mkdir()
    (made / BEST).mkdir()
    kept = [each for each in find_checkpoints(source / CHECKPOINTS) if each.step <= step]
    for checkpoint in kept + find_checkpoints(source / CHECKPOINTS / BEST):
        _share(checkpoint.path, made / checkpoint.path.relative_to(source / CHECKPOINTS))
    made.rename(target / CHECKPOINTS)
    fsync_directory(target)
    return exports


def _share(checkpoint: Path, place: Path) -> None:
    """Make the checkpoint at ``place`` of the files of another one; the bytes are copied where links are impossible."""
    place.mkdir()
    for file in own_files(checkpoint):
        try:
            os.link(file, place / file.name)
        except OSError:
            shutil.copy2(file, place / file.name)
            fsync_file(place / file.name)
    fsync_directory(place)
