"""Directories that several tests read, each made once in a session, also with several processes of pytest-xdist."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made_once(factory: pytest.TempPathFactory, key: str, make: Callable[[Path], None]) -> Path:
    """Return the directory named by ``key``. The first call of a session, in any process, fills it with ``make``."""
    base = factory.getbasetemp()  # of this process; its parent belongs to all of them
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made-once"
    directory = shared / hashlib.sha256(key.encode()).hexdigest()[:16]
    done = directory.with_suffix(".done")
    shared.mkdir(exist_ok=True)
    with FileLock(directory.with_suffix(".lock")):
        if not done.exists():
            shutil.rmtree(directory, ignore_errors=True)  # of a call that failed
            directory.mkdir()
            make(directory)
            done.touch()
    return directory
