"""Processes that are forks of a server."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerProcess

FORKS = multiprocessing.get_context("forkserver")


def ended(process: ForkServerProcess, seconds: float = 60.0) -> int:
    """The exit code of a process that ends within that time."""
    process.join(seconds)
    assert process.exitcode is not None, f"still alive after {seconds} s"
    return process.exitcode
