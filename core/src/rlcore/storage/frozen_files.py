"""Files of a checkpoint that other checkpoints of the run share: arrays of each ``FrozenState`` and ``SharedPart``.

A file is named after the SHA-256 of its content, so files with one name are equal. A new checkpoint links to the file
of an earlier one (a hard link). Every checkpoint is still complete: it can be copied, verified and deleted by itself,
and the file system frees the bytes with the last checkpoint that has them.

Two checkpoints in a row of a run that keeps several share no file, so a damaged file leaves one of them usable. A file
that is linked again and again is compared with its checksum now and then: see :class:`FlushedFiles`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from safetensors.numpy import save_file

from rlcore.contracts.states import SharedPart, StatePart
from rlcore.files.reading import DamagedFile, open_regular
from rlcore.files.writing import fsync_file

log = logging.getLogger(__name__)

VERIFIED_WITHIN = 8  # saves

# The name of a behavior, and so of its file, never begins with an underscore.
_NAME = re.compile(r"_frozen-([0-9a-f]{64})\.safetensors")
_NEW = "_frozen-new.safetensors"  # while it is written


FILE_MARK = "$frozen"  # {"$frozen": "file", "content": ...} stands in state.json where a shared part was

Arrays = dict[str, np.ndarray[Any, Any]]


@attrs.define(eq=False)
class FlushedFiles:
    """Shared files that this process has compared with their checksum and flushed to disk.

    They are recognized by device, number, size and time of change, which damage on the disk leaves alone. So a file
    that was linked is compared with its checksum again at least once in ``VERIFIED_WITHIN`` saves: a save compares a
    quarter of what it links, chosen by the checksums.
    """

    _last: Mapping[tuple[int, ...], str] = attrs.field(factory=dict, init=False)  # checksums of the last save's files
    _before: Mapping[tuple[int, ...], str] = attrs.field(factory=dict, init=False)  # and of the save before
    _saves: int = attrs.field(default=0, init=False)

    def has(self, path: Path, checksum: str) -> bool:
        """Whether the file at ``path`` is one with this checksum that has not changed since, and need not be read."""
        turn = self._saves // 2  # of two saves in a row, because they may link two sets of files
        number = int(checksum[:8], 16)
        is_due = (number + turn) % (VERIFIED_WITHIN // 2) == 0
        if is_due:
            return False
        identity = _identity(path)
        return checksum in (self._last.get(identity), self._before.get(identity))

    def replace(self, files: Mapping[Path, str]) -> None:
        """A save is complete: remember its ``files``, with their checksums, and those of the save before."""
        self._before = self._last
        self._last = {_identity(path): checksum for path, checksum in files.items()}
        self._saves += 1


@attrs.define(eq=False)
class FrozenFiles:
    """The files of shared parts in a checkpoint that is being written.

    Attributes:
        directory: The new checkpoint.
        earlier: Checkpoints to link to, in the order to try them.
        flushed: The files that this process knows to be on disk.
        apart: A checkpoint with which no file is shared.
        written: SHA-256 by name of the files that are new.
        linked: SHA-256 by name of the files that an earlier checkpoint has too. They are flushed to disk.
    """

    directory: Path
    earlier: Sequence[Path]
    flushed: FlushedFiles
    apart: Path | None = None
    written: dict[str, str] = attrs.field(factory=dict, init=False)
    linked: dict[str, str] = attrs.field(factory=dict, init=False)
    _new: list[tuple[StatePart, Arrays, dict[str, Any]]] = attrs.field(factory=list, init=False)

    def add(self, part: StatePart, arrays: Arrays, mark: dict[str, Any]) -> None:
        """Put ``arrays``, all those of ``part``, into the checkpoint, and the file's name into ``mark``.

        A file that an earlier checkpoint has is linked at once; the others are written by :meth:`write`.
        """
        mark[FILE_MARK] = None
        if arrays and part.checksum and self._has(part.checksum):
            mark[FILE_MARK] = _name(part.checksum)
        elif arrays:
            self._new.append((part, arrays, mark))

    def to_write(self) -> list[Arrays]:
        """The arrays that :meth:`write` writes and that may change before: those of every new SharedPart."""
        return [arrays for part, arrays, _ in self._new if isinstance(part, SharedPart)]

    def write(self) -> None:
        """Write the files that no earlier checkpoint has. Raises OSError or SafetensorError."""
        for part, arrays, mark in self._new:
            mark[FILE_MARK] = self._written(part, arrays)
        self._new.clear()

    def _written(self, part: StatePart, arrays: Arrays) -> str:
        """Write a file of ``arrays``, unless there is an equal one. Returns its name."""
        known = part.checksum
        if known and _name(known) in self.written:  # the part is in the state more than once
            return _name(known)
        new = self.directory / _NEW
        save_file(arrays, new)
        checksum = sha256(new)
        part.checksum = checksum
        name = _name(checksum)
        if checksum != known and self._has(checksum):
            new.unlink()
        else:
            new.replace(self.directory / name)
            self.written[name] = checksum
        return name

    def moved_to(self, directory: Path) -> None:
        """All files are in ``directory`` now, verified: the next checkpoint links to them without reading them."""
        files = {}
        for name, checksum in (self.written | self.linked).items():
            files[directory / name] = checksum
        self.flushed.replace(files)

    def _has(self, checksum: str) -> bool:
        """Whether the checkpoint has the file with this checksum, perhaps linked only now."""
        name = _name(checksum)
        if name in self.written or name in self.linked:
            return True
        # Files that are not linked: that of the checkpoint to stay apart from, and those that were found damaged.
        refused = set() if self.apart is None else _inode(self.apart / name)
        for checkpoint in self.earlier:
            source = checkpoint / name
            inode = _inode(source)
            if refused.isdisjoint(inode) and self._link(source, checksum):
                self.linked[name] = checksum
                return True
            refused |= inode
        return False

    def _link(self, source: Path, checksum: str) -> bool:
        """Whether the checkpoint now has the same file as ``source``, undamaged and on disk; else it has none."""
        target = self.directory / source.name
        try:
            os.link(source, target)
        except OSError:  # missing, or the file system has no links, or the file has too many
            return False
        try:
            # Only after it is linked: nothing can replace the file between the check and its use.
            if self.flushed.has(target, checksum):
                return True
            if not target.is_symlink() and sha256(target) == checksum:
                fsync_file(target)  # someone may have copied the earlier checkpoint here without flushing it
                return True
            log.warning("%s was damaged or replaced (its SHA-256 is another one); no new checkpoint uses it", source)
        except (OSError, DamagedFile):
            pass
        target.unlink()
        return False


def _inode(path: Path) -> set[tuple[int, int]]:
    """Device and number of the file at ``path``; empty if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return set()
    return {(status.st_dev, status.st_ino)}


def _identity(path: Path) -> tuple[int, ...]:
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


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
