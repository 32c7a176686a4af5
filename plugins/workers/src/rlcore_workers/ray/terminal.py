"""Prints lines of processes elsewhere for the commands on Ray, and notes the signals that are for these processes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from rlcore import echo
from rlcore_workers.ray.process_actor import STDERR

PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """Note signals in the list, to pass them on to processes that have rlcore's rules for them."""
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)

    before = {}
    numbers = [getattr(signal, name) for name in PASSED_ON if hasattr(signal, name)]  # Windows has few of them
    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            before[number] = signal.signal(number, note)
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def print_line(stream: int, line: bytes) -> None:
    """Print a line of a process to the stream of this process that it was written to."""
    target = sys.stderr if stream == STDERR else sys.stdout
    with suppress(OSError, ValueError):  # a closed terminal or pipe ends no run
        target.write(line.decode("utf-8", "replace"))
        target.flush()


def say(text: str) -> None:
    sys.stdout.flush()
    echo(text, err=True)
