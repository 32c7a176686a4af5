"""Watches a rank that may be blocked: it ends at a deadline, and stops if ``torchrun`` is gone."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from socket import gethostname
from threading import Event, Thread
from time import monotonic
from typing import NoReturn

from rlcore import Stop, StopRequests

LOOK_SECONDS = 0.5
GRACE_SECONDS = 10.0  # after the time that PyTorch was given, which it does not keep while it waits in the kernel


def end_process(code: int) -> NoReturn:
    """End the process at once with ``code``, after flushing its output, whatever its threads wait for."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # lost; None, where it was closed before the start
            stream.flush()
    os._exit(code)


class Watchdog:
    """A thread that ends the process if it waits for the other ranks longer than it may, in whatever call.

    It also requests a stop when the process that started this one, ``torchrun``, has ended. Ranks are sessions of their
    own: no one else tells them, and they would hold the lock of the run until they have learned all of it.
    """

    def __init__(self, stops: StopRequests, end: Callable[[str], None]) -> None:
        """``end`` says why, and ends the process; it is called in another thread."""
        self._stops = stops
        self._end = end
        self._deadline = inf
        self._limit = ""
        self._done = Event()
        self._starter = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else 0
        Thread(target=self._watch, name="rank watchdog", daemon=True).start()

    def expect(self, seconds: float) -> None:
        """Expect :meth:`arrived` within ``seconds`` and the grace."""
        limit = seconds + GRACE_SECONDS
        self._limit = f"{limit:g} seconds"
        self._deadline = monotonic() + limit

    def arrived(self) -> None:
        """Nothing is waited for any more."""
        self._deadline = inf

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """End the process if the block takes longer than ``seconds`` and the grace."""
        self.expect(seconds)
        try:
            yield
        finally:
            self.arrived()

    def close(self) -> None:
        """End the thread."""
        self._done.set()

    def _watch(self) -> None:
        while not self._done.wait(LOOK_SECONDS):
            if monotonic() > self._deadline:
                self._end(self._limit)
            if self._starter and os.getppid() != self._starter:
                reason = f"torchrun, process {self._starter} on {gethostname()}, ended without its ranks"
                # As if torchrun had passed a signal on: what is saved can be continued.
                self._stops.add(Stop(reason, 128 + signal.SIGTERM))
                self._starter = 0
