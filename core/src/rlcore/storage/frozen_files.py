"""Files of a checkpoint that other checkpoints of the run share: the arrays of each ``FrozenState``.

A file is named after the SHA-256 of its content, so files with one name are equal. A new checkpoint links to the file
of an earlier one (a hard link). Every checkpoint is still complete: it can be copied, verified and deleted by itself,
and the file system frees the bytes with the last checkpoint that has them.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from rlcore.files.atomic import fsync_file
from rlcore.files.json_files import DamagedFile, open_regular
from rlcore.saved_values import FrozenState

# The name of a behavior, and so of its file, never begins with an underscore.
_NAME = re.compile(r"_frozen-([0-9a-f]{64})\.safetensors")
_NEW = "_frozen-new.safetensors"  # while it is written


class FrozenFiles:
    """The files of frozen parts in a checkpoint that is being written.

    Attributes:
        written: SHA-256 by name of the files that are new.
        linked: SHA-256 by name of the files that an earlier checkpoint has too. They are flushed to disk.
    """

    def __init__(self, directory: Path, earlier: Sequence[Path]) -> None:
        """``directory`` is the new checkpoint; ``earlier`` are checkpoints to link to, in the order to try them."""
        self._directory = directory
        self._earlier = earlier
        self.written: dict[str, str] = {}
        self.linked: dict[str, str] = {}

    def store(self, state: FrozenState, arrays: Mapping[str, np.ndarray[Any, Any]]) -> str | None:
        """Puts ``arrays``, all those of ``state``, into the checkpoint; returns the file's name, None without arrays.

        Raises OSError or SafetensorError.
        """
        if not arrays:
            return None
        known = state.checksum
        if known and self._has(known):
            return _name(known)
        new = self._directory / _NEW
        save_file(dict(arrays), new)
        state.checksum = sha256(new)
        name = _name(state.checksum)
        if state.checksum != known and self._has(state.checksum):
            new.unlink()
        else:
            new.replace(self._directory / name)
            self.written[name] = state.checksum
        return name

    def _has(self, checksum: str) -> bool:
        """Whether the checkpoint has the file with this checksum, perhaps linked only now."""
        name = _name(checksum)
        if name in self.written or name in self.linked:
            return True
        if any(_link(path / name, self._directory / name, checksum) for path in self._earlier):
            self.linked[name] = checksum
            return True
        return False


def _link(source: Path, target: Path, checksum: str) -> bool:
    """Whether ``target`` is now the same file as ``source``, undamaged and on disk; else it does not exist."""
    try:
        os.link(source, target)
    except OSError:  # missing, or the file system has no links, or the file has too many
        return False
    try:
        # Only after it is linked: nothing can replace the file between the check and its use.
        if not target.is_symlink() and sha256(target) == checksum:
            fsync_file(target)  # someone may have copied the earlier checkpoint here without flushing it
            return True
    except (OSError, DamagedFile):
        pass
    target.unlink()
    return False


def checksum_in(name: str) -> str:
    """The checksum in the name of a file of a frozen part; empty for another name."""
    match = _NAME.fullmatch(name)
    return match.group(1) if match else ""


def _name(checksum: str) -> str:
    return f"_frozen-{checksum}.safetensors"


def sha256(path: Path) -> str:
    """The SHA-256 of a regular file. Raises OSError or DamagedFile."""
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
