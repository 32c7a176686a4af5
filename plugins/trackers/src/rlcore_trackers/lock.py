"""The lock of a sender, which the processes that it starts hold too."""

from __future__ import annotations

import os
import time
from pathlib import Path

LOOK = 0.1  # seconds between two tries


def take(path: Path, seconds: float) -> bool:
    """Lock ``path`` for this process and those that inherit its standard input. False if another one keeps it.

    The lock file becomes the standard input. A program that a library starts with the same standard input, such as
    ``wandb-core``, thus holds the lock until it ends, also after this process was killed.
    """
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:  # Windows: only this process holds it
        from filelock import FileLock, Timeout

        try:
            FileLock(path).acquire(timeout=seconds)
        except Timeout:
            return False
        return True
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    until = time.monotonic() + seconds
    while True:
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(descriptor)
                return False
            time.sleep(LOOK)
    os.dup2(descriptor, 0)
    os.close(descriptor)
    return True
