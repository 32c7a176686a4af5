"""Ends the process when its command is done, even if a ``close()`` hangs or a thread is still running.

``rlcore run`` and ``rlcore evaluate`` enter :func:`ends_within` around each ``close()``; :mod:`rlcore.run.components`
sets the seconds. :func:`end_in_order` gives threads and exit handlers that are left after the command ``EXIT_SECONDS``.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import click

EXIT_SECONDS = 3.0  # for threads and exit handlers after the command


@contextmanager
def ends_within(seconds: float, what: str, last_words: Callable[[BaseException | None], int]) -> Iterator[None]:
    """Ends the process if the block, which does ``what``, takes longer than ``seconds``.

    In that case ``last_words`` is called in another thread with the error that was being handled when the block began.
    It prints what the command would have printed, and returns the exit code.
    """
    error = sys.exception()
    over, claim = threading.Event(), threading.Lock()

    def end() -> None:
        if not over.wait(seconds) and claim.acquire(blocking=False):
            _warn(f"{what} takes more than {seconds:g} s")
            end_process(last_words(error))

    thread = threading.Thread(target=end, name="deadline", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        if not claim.acquire(blocking=False):
            threading.Event().wait()  # the process is ending
        thread.join()


def end_soon(code: int) -> None:
    """Ends the process with ``code`` after ``EXIT_SECONDS``, unless it ends by itself before."""

    def end() -> None:
        time.sleep(EXIT_SECONDS)
        left = [each.name for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]
        what = f"thread {', '.join(map(repr, left))} is left over" if left else "an exit handler is not done"
        _warn(f"{what} {EXIT_SECONDS:g} s after the end")
        end_process(code)

    threading.Thread(target=end, name="deadline", daemon=True).start()


def end_in_order(code: int) -> NoReturn:
    """Ends the process with ``code`` when its threads and exit handlers are done, or at a deadline.

    The interpreter is not finalized: libraries with threads of their own sometimes abort the process then, which would
    change the exit code.
    """
    end_soon(code)
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()
    end_process(code)


def _warn(why: str) -> None:
    with suppress(OSError, ValueError):  # the process also ends if standard error is lost
        click.echo(f"warning: {why}; the process ends without it", file=sys.stderr)


def end_process(code: int) -> NoReturn:
    """Ends the process at once, after flushing its output."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # lost; None, where it was closed before the start
            stream.flush()
    os._exit(code)
