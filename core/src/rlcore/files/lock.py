"""The lock of a run directory. The operating system releases it when the process ends."""

from __future__ import annotations

import logging
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from time import monotonic

from filelock import FileLock, Timeout

from rlcore.errors import RunStateError
from rlcore.files.reading import DamagedFile, open_regular, read_regular

__all__ = ["DirectoryLock", "is_locked", "require_lock_file"]

log = logging.getLogger(__name__)

LOCK = ".lock"
_SIGN = "process "  # with which the content of the file begins


class DirectoryLock:
    """The lock of the run in ``directory``.

    The lock belongs to a file, not to its name. If the directory is moved and another one takes its name, the process
    still holds the file in the moved one; :meth:`require` detects that.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file = directory / LOCK
        # A run may be started in one thread and closed in another.
        self._lock = FileLock(self._file, thread_local=False)
        self._identity: tuple[int, int] | None = None  # of the file
        self._place: tuple[int, int] | None = None  # of the directory

    @property
    def held(self) -> bool:
        """Whether this process holds the lock, wherever its file may be now."""
        return self._lock.is_locked

    def acquire(self, seconds: float = 0.0, stopping: Callable[[], bool] = lambda: False) -> None:
        """Takes the lock, and writes into its file who has it.

        Raises RunStateError if another process holds it after ``seconds``, or when ``stopping`` returns True meanwhile;
        OSError if the file cannot be made.
        """
        require_lock_file(self._file)
        deadline = monotonic() + seconds
        if seconds and is_locked(self.directory):
            log.info("%s; waits up to %g s", in_use(self.directory), seconds)
        while not self.held:
            try:
                self._lock.acquire(timeout=0.2, poll_interval=0.05)  # is_locked() holds it for a moment
            except Timeout as error:
                if stopping() or monotonic() >= deadline:
                    raise RunStateError(f"{in_use(self.directory)}; wait or stop it") from error
        with suppress(OSError):  # Windows forbids other handles to write
            if not self._file.stat().st_size:  # where there is no flock, the lock library uses the content
                self._file.write_text(_this_process())
        self._identity, self._place = _identity(self._file), _identity(self.directory)

    def require(self) -> None:
        """Raises RunStateError unless the directory still has the lock file that this process holds.

        Makes a lock file again that was deleted from the same directory.
        """
        if self.held and not self._file.exists() and _identity(self.directory) == self._place:
            self._lock.release()
            self.acquire()
        if not self.held or _identity(self._file) != self._identity:
            raise RunStateError(
                f"{self.directory}: was moved, deleted or replaced while this run was using it; nothing is written to "
                "what stands there now"
            )

    def release(self) -> None:
        """Releases the lock. The file stays on systems with ``flock``; elsewhere the lock library may delete it."""
        self._lock.release()


def require_lock_file(file: Path) -> None:
    """Raise RunStateError if a lock on ``file`` would empty another file, because ``file`` is a link to it."""
    try:
        status = file.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode) or (status.st_nlink > 1 and status.st_size and not holder(file.parent)):
        raise RunStateError(f"{file}: leads to another file, which locking would empty; remove {file.name}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def in_use(directory: Path) -> str:
    """The message for a run directory whose lock another process holds."""
    return f"{directory}: another process is writing to this run{holder(directory)}"


def _this_process() -> str:
    """What tells this process from all others, on hosts that share a disk too, as the content of the lock file."""
    boot = ""
    with suppress(OSError):  # of other systems than Linux
        boot = f", boot {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"
    job = os.environ.get("SLURM_JOB_ID")
    slurm = f", Slurm job {job}" if job else ""
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    return f"{_SIGN}{os.getpid()} on {socket.gethostname()}{boot}{slurm}, since {since}"


def holder(directory: Path) -> str:
    """The process that took the lock of the run in ``directory`` last, as `` (...)``; empty if that is not known."""
    with suppress(OSError, DamagedFile):
        text = read_regular(directory / LOCK, 1000).decode(errors="replace")
        if text.startswith(_SIGN):
            return f" ({text})"
    return ""


def is_locked(directory: Path) -> bool:
    """Return whether a process holds the lock of the run in ``directory``; no file is made to find out."""
    try:
        file = open_regular(directory / LOCK)
    except (OSError, DamagedFile):
        return False
    with file:  # closing it releases the lock
        try:
            # A shared lock: readers do not see each other, and need no permission to write.
            from fcntl import LOCK_NB, LOCK_SH, flock
        except ImportError:
            pass
        else:
            try:
                flock(file.fileno(), LOCK_SH | LOCK_NB)
            except BlockingIOError:
                return True
            except OSError:  # a file system without locks
                return False
            return False
    return _is_taken(directory / LOCK)


def _is_taken(file: Path) -> bool:
    """Whether a lock of the lock library on ``file``, which exists, is held; for systems without ``flock``."""
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False
