"""Write, delete and read files so that nothing half-done looks complete and nothing damaged is taken for whole.

Names of files that are being written or deleted begin with ``.rlcore-tmp-`` and contain 16 random hexadecimal digits,
so that no link can be put there before. Every other name in a directory belongs to someone else.

Files that may be damaged or written by other programs are read within bounds. Only regular files are opened, and
opening never waits: a named pipe, a device or a directory in the place of a file is refused. JSON is bounded in bytes,
in values and in depth. Every problem becomes a :class:`DamagedFile` that names the file.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from itertools import count
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from rlcore.errors import ConfigError, RlcoreError, RunStateError

__all__ = [
    "DamagedFile",
    "WatchedDirectory",
    "fsync_directory",
    "is_whole",
    "open_regular",
    "open_to_append",
    "parse_json",
    "read_object",
    "temporary_path",
    "write_atomically",
]

_TEMPORARY = ".rlcore-tmp-"
_LEFTOVER = re.compile(rf"{re.escape(_TEMPORARY)}(.+-)?[0-9a-f]{{16}}", re.DOTALL)


@contextmanager
def failing_as(what: str, kind: type[RlcoreError] = RunStateError) -> Iterator[None]:
    """For a block that uses files: an error of the operating system becomes a ``kind``, ``what: cause``."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}") from error


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


# ---------------------------------------------------------------- open files


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


# ---------------------------------------------------------------- files that may be damaged


# The bounds of one JSON file. Arrays belong in safetensors files; a run of 1,000 behaviors stays far below all three.
MAX_BYTES = 32_000_000
MAX_VALUES = 1_000_000
MAX_DEPTH = 100


class DamagedFile(RunStateError):
    """A file that cannot be used; the message names it and the problem."""


def open_regular(path: Path, limit: int | None = None) -> BufferedReader:
    """Open a regular file for reading, of at most ``limit`` bytes.

    Raises FileNotFoundError if there is none, DamagedFile for anything else.
    """
    try:
        stream = open(path, "rb", opener=_not_waiting)  # noqa: SIM115
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise DamagedFile(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    found = os.fstat(stream.fileno())
    if not stat.S_ISREG(found.st_mode):
        stream.close()
        raise DamagedFile(f"{path}: is not a regular file")
    if limit is not None and found.st_size > limit:
        stream.close()
        raise DamagedFile(f"{path}: is larger than {limit:,} bytes")
    return stream


def _not_waiting(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a named pipe waits for a writer.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_regular(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The content of a regular file of at most ``limit`` bytes.

    Raises DamagedFile if it cannot be read or is larger, and otherwise like :func:`open_regular`.
    """
    with open_regular(path, limit) as file, failing_as(f"{path}: cannot be read", DamagedFile):
        content = file.read(limit + 1)
    if len(content) > limit:
        raise DamagedFile(f"{path}: is larger than {limit:,} bytes")
    return content


def read_object(path: Path, limit: int = MAX_BYTES) -> dict[str, Any]:
    """Return the object of a JSON file. Raises FileNotFoundError if there is no file, DamagedFile if it is not one."""
    content = read_regular(path, limit)
    try:
        value = parse_json(content)
    except ValueError as error:
        raise DamagedFile(f"{path}: {error}") from error
    if not isinstance(value, dict):
        raise DamagedFile(f"{path}: is not a JSON object")
    return value


def parse_json(content: bytes | str) -> Any:
    """Return the value of a JSON text. Raises ValueError, on one line, for what is not JSON, too deep or too much."""
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")
    if sum(content.count(sign) for sign in (b"[", b"{", b",")) > MAX_VALUES:
        raise ValueError(f"holds more than {MAX_VALUES:,} values")
    try:
        value = json.loads(content.decode("utf-8"))
        shallow = is_shallow(value)
    except RecursionError:
        shallow = False
    except ValueError as error:  # also for other text than UTF-8, and numbers of more digits than int() takes
        raise ValueError(f"is not JSON: {error}") from error
    if not shallow:
        raise ValueError(f"is nested deeper than {MAX_DEPTH} levels")
    return value


def is_shallow(value: Any) -> bool:
    """Whether lists and objects are nested at most ``MAX_DEPTH`` deep."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        nested = [each for each in level if isinstance(each, list | dict)]
        if not nested:
            return True
        level = [inner for each in nested for inner in (each.values() if isinstance(each, dict) else each)]
    return False


def is_file_name(name: object) -> bool:
    """Whether ``name`` is a plain file name, without a path that leads to another directory."""
    return (
        isinstance(name, str)
        and 0 < len(name.encode("utf-8", "replace")) <= 255
        and name not in (".", "..")
        and not any(sign in name for sign in "/\\\0")
        and not os.path.splitdrive(name)[0]
    )


def is_whole(value: object) -> bool:
    """Whether a JSON value is a whole number from 0 up, below 2**63."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_number(value: object) -> bool:
    """Whether a JSON value is a number that a float can hold."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return whole or isinstance(value, float)


# ---------------------------------------------------------------- paths that users write


def user_path(written: str | Path) -> Path:
    """``written`` with a leading ``~`` or ``~name`` replaced by that user's home directory.

    Raises ConfigError if there is no such home, and for a name that no file can have here.
    """
    try:
        if b"\0" in os.fsencode(written):
            raise ConfigError(f"{str(written)!r}: no path has a NUL character; leave it out")
        return Path(written).expanduser()
    except UnicodeEncodeError:
        encoding = sys.getfilesystemencoding()
        raise ConfigError(
            f"{str(written)!r}: file names are in {encoding} here; set PYTHONUTF8=1, or use another locale"
        ) from None
    except RuntimeError:
        home = Path(written).parts[0]
        raise ConfigError(
            f"{str(written)!r}: {home} has no home directory; write ./{written} for a directory of that name"
        ) from None


def working_directory() -> Path:
    """The absolute path of the working directory, or ``.`` if the directory was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path()


# ---------------------------------------------------------------- files of plugins


def pattern_problem(pattern: str) -> str | None:
    """The problem of a pattern of files that a plugin writes; None if it is valid."""
    parts = PurePosixPath(pattern).parts
    if not parts or pattern.startswith("/") or ".." in parts or "\\" in pattern:
        return f"{pattern!r} is not a path within the run directory"
    if any(not part.strip("*?") for part in parts):
        return f"{pattern!r} matches files of any name; a pattern names what the plugin writes"
    return None


# ---------------------------------------------------------------- files of ML-Agents


_NETWORKS = (".pt", ".onnx", ".nn")


def network_problem(path: str) -> str | None:
    """Return the problem of a path of weights, or None: rlcore cannot load networks of ML-Agents."""
    if Path(path).suffix not in _NETWORKS:
        return None
    return (
        "must be a run directory of rlcore, or one of its checkpoints, such as results/RUN_ID/checkpoints/5000 (rlcore "
        f"cannot load networks of ML-Agents: {', '.join(_NETWORKS)})"
    )
