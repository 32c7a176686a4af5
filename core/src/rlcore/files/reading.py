"""Read files that may be damaged, or written by other programs, within bounds.

Only regular files are opened, and opening never waits: a named pipe, a device or a directory in the place of a file is
refused. JSON is bounded in bytes, in values and in depth. Every problem becomes a :class:`DamagedFile` that names the
file.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from rlcore.errors import RlcoreError, RunStateError

__all__ = ["DamagedFile", "is_whole", "open_regular", "parse_json", "read_object"]

# The bounds of one JSON file. Arrays belong in safetensors files; a run of 1,000 behaviors stays far below all three.
MAX_BYTES = 32_000_000
MAX_VALUES = 1_000_000
MAX_DEPTH = 100


class DamagedFile(RunStateError):
    """A file that cannot be used; the message names it and the problem."""


@contextmanager
def failing_as(what: str, kind: type[RlcoreError] = RunStateError) -> Iterator[None]:
    """For a block that uses files: an error of the operating system becomes a ``kind``, ``what: cause``."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}") from error


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
    status = os.fstat(stream.fileno())
    if not stat.S_ISREG(status.st_mode):
        stream.close()
        raise DamagedFile(f"{path}: is not a regular file")
    if limit is not None and status.st_size > limit:
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


def is_whole(value: object) -> bool:
    """Whether a JSON value is a whole number from 0 up, below 2**63."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_number(value: object) -> bool:
    """Whether a JSON value is a number that a float can hold."""
    is_int = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return is_int or isinstance(value, float)
