"""Processes that are forks of a server."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterable
from multiprocessing.context import ForkServerProcess

FORKS = multiprocessing.get_context("forkserver")


def ended(process: ForkServerProcess, seconds: float = 60.0) -> int:
    """The exit code of a process that ends within that time."""
    process.join(seconds)
    assert process.exitcode is not None, f"still alive after {seconds} s"
    return process.exitcode


def exit_unless_imported(names: Iterable[str]) -> None:
    """The target of a process that asks whether its server has imported modules: exit code 1 if one is missing."""
    sys.exit(0 if sys.modules.keys() >= set(names) else 1)
