"""Reads files that may be damaged or written by other programs, within bounds.

Only regular files are opened, and opening never waits: a named pipe, a device or a directory in the place of a file is
refused. JSON is bounded in bytes, in values and in depth. Every problem becomes a :class:`DamagedFile` that names the
file.
"""

from __future__ import annotations

import json
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

from rlcore.errors import RunStateError

__all__ = ["DamagedFile", "is_whole", "open_regular", "parse_json", "read_object"]

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
        # Without O_NONBLOCK, opening a named pipe waits for a writer.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise DamagedFile(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise DamagedFile(f"{path}: is {_kind(found.st_mode)}, not a regular file")
        if limit is not None and found.st_size > limit:
            raise DamagedFile(f"{path}: is larger than {limit:,} bytes")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The content of a regular file of at most ``limit`` bytes.

    Raises DamagedFile if it cannot be read or is larger, and otherwise like :func:`open_regular`.
    """
    with open_regular(path, limit) as file:
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise DamagedFile(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > limit:
        raise DamagedFile(f"{path}: is larger than {limit:,} bytes")
    return content


def read_tail(path: Path, count: int) -> bytes:
    """The last ``count`` bytes of a regular file, or all of a shorter one. Raises like :func:`open_regular`."""
    with open_regular(path) as file:
        try:
            file.seek(max(0, file.seek(0, os.SEEK_END) - count))
            return file.read(count)
        except OSError as error:
            raise DamagedFile(f"{path}: cannot be read: {error.strerror or error}") from error


def read_json(path: Path, limit: int = MAX_BYTES) -> Any:
    """The value of a JSON file. FileNotFoundError if there is none, DamagedFile for anything that is not JSON."""
    content = read_regular(path, limit)
    try:
        return parse_json(content)
    except ValueError as error:
        raise DamagedFile(f"{path}: {error}") from error


def read_object(path: Path, limit: int = MAX_BYTES) -> dict[str, Any]:
    """Return the object of a JSON file. Raises FileNotFoundError if there is no file, DamagedFile if it is not one."""
    value = read_json(path, limit)
    if not isinstance(value, dict):
        raise DamagedFile(f"{path}: holds {_json_kind(value)} instead of an object")
    return value


def parse_json(content: bytes | str) -> Any:
    """Return the value of a JSON text. Raises ValueError, on one line, for what is not JSON, too deep or too much."""
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")
    if sum(content.count(sign) for sign in (b"[", b"{", b",")) > MAX_VALUES:
        raise ValueError(f"holds more than {MAX_VALUES:,} values")
    try:
        value = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from error
    except RecursionError as error:
        raise ValueError(f"is nested deeper than {MAX_DEPTH} levels") from error
    except ValueError as error:  # a whole number of more digits than int() takes
        raise ValueError(f"is not JSON: {error}") from error
    if not is_shallow(value):
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
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")


def _json_kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
