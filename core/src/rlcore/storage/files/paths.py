"""Paths that users write, in a configuration or on the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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
