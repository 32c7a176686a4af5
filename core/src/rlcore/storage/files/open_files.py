"""Checks whether a run's open files are still where they were made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

from rlcore.errors import RunStateError

__all__ = ["WatchedDirectory"]


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
