"""Atomic writes, and deletions that leave nothing that looks complete when they are interrupted.

Names of files that are being written or deleted begin with ``.rlcore-tmp-``.
"""

from __future__ import annotations

import os
import shutil
from itertools import count
from pathlib import Path

from rlcore.errors import RunStateError

__all__ = ["fsync_directory", "write_atomically"]

TEMPORARY = ".rlcore-tmp-"  # the names of files that are being written or deleted begin with it


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file so that readers see either the old content or the new, even after a crash."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}-{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def fsync_file(path: Path) -> None:
    """Flushes a file that was written and closed to disk."""
    with path.open("r+b") as stream:  # Windows flushes only what is open for writing
        os.fsync(stream.fileno())


def fsync_directory(path: Path) -> None:
    """Flushes the names in ``path`` to disk, so that a rename survives a crash.

    Does nothing where the operating system cannot open a directory, as on Windows.
    """
    flag = getattr(os, "O_DIRECTORY", None)
    if flag is None:
        return
    descriptor = os.open(path, os.O_RDONLY | flag)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free_name(path: Path) -> Path:
    """``NAME.replaced`` beside ``NAME``, or the first of ``NAME.replaced-2`` and so on that does not exist."""
    names = (f"{path.name}.replaced{'' if number == 1 else f'-{number}'}" for number in count(1))
    return next(place for place in map(path.with_name, names) if not os.path.lexists(place))


def remove(path: Path) -> None:
    """Deletes a file, a link or a whole directory."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def is_leftover(name: str) -> bool:
    """Whether ``name`` is that of a file being written or deleted, perhaps by a process that was killed."""
    return name.startswith(TEMPORARY)


def sweep(directory: Path) -> None:
    """Removes files that killed processes left half-written or half-deleted. Call it only while holding the lock."""
    try:
        for leftover in [path for path in directory.iterdir() if is_leftover(path.name)]:
            remove(leftover)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise RunStateError(f"{directory}: cannot be cleared of leftovers: {error.strerror or error}") from error
