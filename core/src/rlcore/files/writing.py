"""Write and delete files so that nothing half-done looks complete.

Names of files that are being written or deleted begin with ``.rlcore-tmp-`` and contain 16 random hexadecimal digits,
so that no link can be put there before. Every other name in a directory belongs to someone else.
"""

from __future__ import annotations

import errno
import os
import re
from itertools import count
from pathlib import Path
from typing import IO, Any, BinaryIO

from rlcore.errors import RunStateError

__all__ = ["WatchedDirectory", "fsync_directory", "open_to_append", "temporary_path", "write_atomically"]

_NO_ROOM = {str(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}
_TEMPORARY = ".rlcore-tmp-"
_LEFTOVER = re.compile(rf"{re.escape(_TEMPORARY)}(.+-)?[0-9a-f]{{16}}", re.DOTALL)


def temporary_path(directory: Path, before: str = "", after: str = "") -> Path:
    """Return a new name in ``directory`` for what is being written or deleted; it cannot be predicted.

    ``before`` and ``after`` stand around its random part. Create the file with mode ``x`` and a directory with
    ``mkdir``: both fail, instead of following a link, if something has the name.
    """
    import secrets  # with hashlib, which rlcore --help does without

    return directory / f"{_TEMPORARY}{before}{secrets.token_hex(8)}{after}"


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file so that readers see either the old content or the new, even after a crash.

    A link at ``path`` is replaced, not followed.
    """
    temporary = temporary_path(path.parent)
    stream = temporary.open("xb")
    try:
        with stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def open_to_append(path: Path) -> BinaryIO:
    """Open a file for appending, which is created if it is missing. Other names of the file keep its old content.

    A file with several hard links, as in a backup made by ``cp -al``, is first replaced by a copy. Raises OSError for a
    symbolic link.
    """
    stream = open(path, "ab", opener=_not_following)  # noqa: SIM115
    if os.fstat(stream.fileno()).st_nlink > 1:
        stream.close()
        write_atomically(path, path.read_bytes())
        stream = open(path, "ab", opener=_not_following)  # noqa: SIM115
    return stream


def _not_following(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


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


def is_full(error: BaseException | None) -> bool:
    """Whether a file could not be written because the disk, a quota or a limit of its size leaves no room for it."""
    code = getattr(error, "errno", None)
    if code is None:  # safetensors passes an error of the system on as a text
        _, _, rest = str(error).partition("(os error ")
        code = rest.partition(")")[0]
    return str(code) in _NO_ROOM


def free_name(path: Path, ending: str = ".replaced") -> Path:
    """``NAME.replaced`` beside ``NAME``, or the first of ``NAME.replaced-2`` and so on that does not exist."""
    names = (f"{path.name}{ending}{'' if number == 1 else f'-{number}'}" for number in count(1))
    return next(place for place in map(path.with_name, names) if not os.path.lexists(place))


def remove(path: Path) -> None:
    """Deletes a file, a link or a whole directory."""
    if path.is_dir() and not path.is_symlink():
        import shutil

        shutil.rmtree(path)
    else:
        path.unlink()


def is_leftover(name: str) -> bool:
    """Whether ``name`` is that of a file being written or deleted, perhaps by a process that was killed."""
    return _LEFTOVER.fullmatch(name) is not None


def sweep(directory: Path) -> None:
    """Removes files that killed processes left half-written or half-deleted. Call it only while holding the lock."""
    try:
        for leftover in [path for path in directory.iterdir() if is_leftover(path.name)]:
            remove(leftover)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise RunStateError(f"{directory}: cannot be cleared of leftovers: {error.strerror or error}") from error


class WatchedDirectory:
    """A directory that must stay where it is while files are open in it.

    Data written to a removed file is lost. Data written to a file whose directory was moved is in the moved directory;
    making the directory again would mix two runs.

    Attributes:
        path: The directory.
    """

    def __init__(self, path: Path) -> None:
        """``path`` is an existing directory."""
        self.path = path
        self._stat = path.stat()

    def require(self) -> None:
        """Raises RunStateError if the directory was moved, removed or replaced, so that no other gets its files."""
        if not self._is_there():
            raise RunStateError(f"{self.path}: was moved or removed while the run was writing to it")

    def linked(self, stream: IO[Any]) -> bool:
        """Whether a backup has a hard link to the file of ``stream``, and must not get what is written from now on."""
        return os.fstat(stream.fileno()).st_nlink > 1 and self._is_there()

    def lost(self, path: Path, stream: IO[Any]) -> bool:
        """Whether ``stream``, opened at ``path``, was removed or replaced there while the directory stayed."""
        try:
            if os.path.samestat(path.stat(), os.fstat(stream.fileno())):
                return False
        except (FileNotFoundError, NotADirectoryError):
            pass
        return self._is_there()

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(self.path.stat(), self._stat)
        except (FileNotFoundError, NotADirectoryError):
            return False
