"""The lock of a sender, which the processes that it starts hold too."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

LOOK = 0.1  # seconds between two tries


def take(path: Path, waiting: Callable[[], bool]) -> bool:
    """Lock ``path`` for this process and those that inherit its standard input.

    Tries for as long as ``waiting`` is true. Returns False if another process still has the lock then.

    The lock file becomes the standard input. A program that a library starts with the same standard input, such as
    ``wandb-core``, thus holds the lock until it ends, also after this process was killed.
    """
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:  # Windows: only this process holds it
        return _take_alone(path, waiting)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    while True:
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
            break
        except BlockingIOError:
            if not waiting():
                os.close(descriptor)
                return False
            time.sleep(LOOK)
    os.dup2(descriptor, 0)
    os.close(descriptor)
    return True


def _take_alone(path: Path, waiting: Callable[[], bool]) -> bool:
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    while True:
        try:
            lock.acquire(timeout=LOOK)
            return True
        except Timeout:
            if not waiting():
                return False


def replaced(path: Path) -> bool:
    """Whether ``path`` is no longer the lock file of this process: the run was moved, or another one took its place."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return True
    return os.name == "posix" and not os.path.samestat(there, os.fstat(0))
