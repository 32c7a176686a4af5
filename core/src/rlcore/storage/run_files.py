"""Separate the files in a run directory that rlcore and plugins wrote from those of others.

What the mark of the run does not name is never deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import attrs

from rlcore.errors import RunStateError
from rlcore.files.lock import LOCK
from rlcore.files.reading import DamagedFile, failing_as, read_object
from rlcore.files.writing import is_leftover, remove
from rlcore.storage.checkpoints import foreign_entries, is_step, remove_checkpoint
from rlcore.storage.mark import MARK, OF_CHECKPOINTS, OWN_FILES, RESULT, Mark, read_mark


def without_exports(directory: Path, mark: Mark, gone: Callable[[int | None], bool]) -> Mark:
    """Deletes the exported policies beside checkpoints of whose steps ``gone`` is true.

    Returns the mark without them. Raises RunStateError if a file cannot be deleted; a later call tries again.
    """
    left = {}
    for name, step in mark.exports.items():
        path = directory / name
        if "/" not in name or not gone(step):
            left[name] = step
        elif not path.is_dir():
            with failing_as(f"{path}: cannot be deleted"):
                path.unlink(missing_ok=True)
    return attrs.evolve(mark, exports=left)


def exports_in(directory: Path) -> dict[str, int | None]:
    """The exported policies that are there, relative to the run directory, with the step of the policy in each.

    The step of a file whose export was not finished is None.
    """
    mark = read_mark(directory) or Mark()
    return {name: step for name, step in mark.exports.items() if (directory / name).is_file()}


def outcome_in(directory: Path) -> str | None:
    """The outcome in the run's result; None if there is no result, ``unknown`` if it cannot be read."""
    try:
        outcome = read_object(directory / RESULT).get("outcome")
    except FileNotFoundError:
        return None
    except (OSError, DamagedFile):
        return "unknown"
    return outcome if isinstance(outcome, str) else "unknown"


def entries(directory: Path, mark: Mark) -> Iterator[tuple[Path, bool]]:
    """Every file, link, checkpoint and unknown folder in the directory, and whether rlcore or a plugin wrote it."""
    open_folders = [directory]
    while open_folders:
        for path in sorted(open_folders.pop().iterdir()):
            relative = _relative(directory, path)
            if path.is_symlink():  # rlcore makes no links
                yield path, False
            elif is_step(path) and _relative(directory, path.parent) in OF_CHECKPOINTS:
                yield path, True
                yield from ((entry, False) for entry in foreign_entries(path))
            elif path.is_dir() and mark.is_folder(relative):
                open_folders.append(path)
            elif path.is_dir() and relative in OWN_FILES | mark.exports.keys():
                yield path, False
            else:
                yield path, mark.declares(relative) or relative in mark.exports or is_leftover(path.name)


def foreign_files(directory: Path, mark: Mark) -> list[Path]:
    """The files and links in the run directory that neither rlcore nor a plugin that declared them wrote."""
    return [path for path, own in entries(directory, mark) if not own]


def is_link_of_run(directory: Path, path: Path, mark: Mark) -> bool:
    """Whether ``path`` is a symbolic link with the name of a file or a folder that the run writes."""
    return path.is_symlink() and mark.has_name(_relative(directory, path))


def require_no_links(directory: Path, mark: Mark) -> None:
    """Raises RunStateError if a symbolic link stands where the run writes: it may lead to the files of another run."""
    for path in foreign_files(directory, mark):
        if is_link_of_run(directory, path, mark):
            raise RunStateError(
                f"{path}: is a symbolic link, and a run writes and deletes only in its own directory; move what it "
                "leads to here, or link the whole results directory"
            )


def remove_own(directory: Path, mark: Mark, keep: tuple[str, ...] = ()) -> None:
    """Deletes what rlcore and plugins wrote, then the folders that are empty, and the mark last.

    Files of others stay, and so do the lock and the mark if ``keep`` names them. Raises OSError. An interrupted
    deletion can be repeated.
    """
    last = [directory / LOCK, directory / MARK]
    own_files = [path for path, own in entries(directory, mark) if own and path not in last]
    for path in own_files:
        if is_step(path):
            remove_checkpoint(path)
        else:
            remove(path)
    for path in sorted(directory.rglob("*"), reverse=True):
        if path.is_dir() and mark.is_folder(_relative(directory, path)):
            remove_if_empty(path)
    for path in last:
        if path.name not in keep:
            path.unlink(missing_ok=True)
    remove_if_empty(directory)


def remove_if_empty(folder: Path) -> None:
    """Deletes a folder if it is empty."""
    with suppress(OSError):
        folder.rmdir()


def _relative(directory: Path, path: Path) -> str:
    return path.relative_to(directory).as_posix()
