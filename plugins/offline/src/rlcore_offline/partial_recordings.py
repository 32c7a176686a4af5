"""Where a recording is written before it takes its name, and what killed processes left of theirs."""

from __future__ import annotations

import errno
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

from filelock import FileLock, Timeout

from rlcore import ConfigError, fsync_directory, require_lock_file, temporary_path

LOCK = ".rlcore-tmp-lock-"


class PartialRecording:
    """A hidden directory beside ``path``, which takes that name when everything in it is on disk.

    The process holds a lock of ``path``, which the operating system frees if the process is killed. The holder of the
    lock removes what killed processes left.
    """

    def __init__(self, path: Path) -> None:
        """Raises ConfigError if something is at ``path``, or another process writes what is to be there."""
        self.path = path.absolute()
        self._refuse_existing()
        parent = self.path.parent
        parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(parent / f"{LOCK}{path.name}", thread_local=False)
        require_lock_file(Path(self._lock.lock_file))
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            raise ConfigError(f"{path}: another process is recording there; wait, or use another directory") from None
        try:
            self._sweep()
            self.directory = temporary_path(parent, "recording-", f"-{path.name}")
            self.directory.mkdir()
        except BaseException:
            self._release()
            raise

    def require_room(self, nbytes: int) -> None:
        """Raise OSError if no ``nbytes`` more can be written. HDF5 crashes the process where a write of its fails."""
        written = [file.stat().st_size for file in self.directory.rglob("*")]
        limit = -1 if resource is None else resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if 0 <= limit < max(written, default=0) + nbytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        probe = self.directory / "room"
        try:
            with probe.open("xb") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, nbytes)
        finally:
            probe.unlink(missing_ok=True)

    def close(self) -> None:
        """Gives the directory its name, if nothing has the name by now; else raises ConfigError."""
        self._refuse_existing()
        for file in self.directory.rglob("*"):
            if file.is_dir():
                fsync_directory(file)
            else:
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
        fsync_directory(self.directory)
        self.directory.rename(self.path)
        fsync_directory(self.path.parent)
        self._release()

    def discard(self) -> None:
        """Delete the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self._release()

    def _refuse_existing(self) -> None:
        if os.path.lexists(self.path):
            raise ConfigError(f"{self.path} exists already; remove it, or record to another directory")

    def _sweep(self) -> None:
        # Only rlcore gives such names, so what has one and is locked by no process may be deleted.
        leftover = re.compile(rf"\.rlcore-tmp-recording-[0-9a-f]{{16}}-{re.escape(self.path.name)}")
        for entry in self.path.parent.iterdir():
            if leftover.fullmatch(entry.name):
                shutil.rmtree(entry, ignore_errors=True)  # a leftover that stays does no harm

    def _release(self) -> None:
        if self._lock.is_locked:
            with suppress(OSError):  # removed while it is held: a process that waits for it makes another
                Path(self._lock.lock_file).unlink()
        self._lock.release()
