"""Say where a run waits if it takes no step for long: an environment that hangs looks like one that is slow.

A call of Python that does not return cannot be interrupted from within its process. A second thread can show where it
is: the frames of the thread that trains.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from weakref import WeakMethod

log = logging.getLogger(__name__)

# Without a step for this long, a run says where it waits; again each time when that has doubled.
QUIET_SECONDS = 60.0
# The innermost frames that are shown.
FRAMES = 4


class StepWatch:
    """A thread that warns while :meth:`watching` lasts and ``progress`` has not changed for long.

    The loop does nothing for it: the thread reads ``progress`` four times within ``seconds``. It keeps nothing alive: a
    run that a program forgets without closing it is freed, with its lock.
    """

    def __init__(self, progress: Callable[[], tuple[object, str]], seconds: float = QUIET_SECONDS) -> None:
        """``progress``, a method, returns what changes with each step, and words for the message: ``"at step 60"``."""
        self._progress = WeakMethod(progress)
        self._seconds = seconds
        self._watched: int | None = None  # identifier of the thread that trains
        self._round = 0  # changes whenever watching begins
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the calling thread within the block."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="rlcore-step-watch", daemon=True)
            self._thread.start()
        yield from self._while(threading.get_ident())

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not watch within the block, in which no steps are taken: a checkpoint, an evaluation."""
        yield from self._while(None)

    def _while(self, watched: int | None) -> Iterator[None]:
        before, self._watched = self._watched, watched
        self._round += 1
        try:
            yield
        finally:
            self._watched = before
            self._round += 1

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        seen: object = None
        since, patience = monotonic(), self._seconds
        while not self._closed.wait(self._seconds / 4):
            watched, now, of_run = self._watched, monotonic(), self._progress()
            if of_run is None:
                return
            progress, where = of_run()
            del of_run
            latest = (self._round, progress)
            if watched is None or latest != seen:
                seen, since, patience = latest, now, self._seconds
            elif now - since >= patience:
                log.warning("no step has ended for %.0f s, %s: the run waits in %s", now - since, where, _at(watched))
                patience *= 2


def _at(thread: int) -> str:
    """The innermost frames of a thread, in one line: ``step (game.py:12), called from step_all (game.py:40)``."""
    frame = sys._current_frames().get(thread)
    frames: list[str] = []
    while frame is not None and len(frames) < FRAMES:
        code = frame.f_code
        frames.append(f"{code.co_name} ({Path(code.co_filename).name}:{frame.f_lineno})")
        frame = frame.f_back
    return ", called from ".join(frames) or "a thread that has ended"
