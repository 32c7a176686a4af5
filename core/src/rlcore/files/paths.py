"""Paths and names of files that users, plugins and damaged files give."""

from __future__ import annotations

import os
import sys
from pathlib import Path, PurePosixPath

from rlcore.errors import ConfigError


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


def is_file_name(name: object) -> bool:
    """Whether ``name`` is a plain file name, without a path that leads to another directory."""
    return (
        isinstance(name, str)
        and 0 < len(name.encode("utf-8", "replace")) <= 255
        and name not in (".", "..")
        and not any(sign in name for sign in "/\\\0")
        and not os.path.splitdrive(name)[0]
    )


def pattern_problem(pattern: str) -> str | None:
    """The problem of a pattern of files that a plugin writes; None if it is valid."""
    parts = PurePosixPath(pattern).parts
    if not parts or pattern.startswith("/") or ".." in parts or "\\" in pattern:
        return f"{pattern!r} is not a path within the run directory"
    if any(not part.strip("*?") for part in parts):
        return f"{pattern!r} matches files of any name; a pattern names what the plugin writes"
    return None
