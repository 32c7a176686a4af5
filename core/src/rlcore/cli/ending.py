"""How a command ends: at a deadline where something hangs, by a signal, and with an exit code that nothing changes.

``rlcore run`` and ``rlcore evaluate`` enter :func:`ends_within` around each ``close()``; :mod:`rlcore.run.components`
sets the seconds. :func:`end_in_order` gives threads and exit handlers that are left after the command ``EXIT_SECONDS``.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from rlcore.run.run import Run

log = logging.getLogger(__name__)

EXIT_SECONDS = 3.0  # for threads and exit handlers after the command


@contextmanager
def ends_within(last_words: Callable[[BaseException | None], int], what: str, seconds: float) -> Iterator[None]:
    """Ends the process if the block, which closes ``what``, takes longer than ``seconds``.

    In that case ``last_words`` is called in another thread with the error that was being handled when the block began.
    It prints what the command would have printed, and returns the exit code.
    """
    error = sys.exception()
    done = threading.Event()
    claim = threading.Lock()  # of who comes first: the block, or the deadline

    def end() -> None:
        in_time = done.wait(min(seconds, threading.TIMEOUT_MAX))
        if not in_time and claim.acquire(blocking=False):
            _warn(f"closing {what} takes more than {seconds:g} s")
            end_process(last_words(error))

    thread = threading.Thread(target=end, name="deadline", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        if not claim.acquire(blocking=False):
            threading.Event().wait()  # the process is ending
        thread.join()


def end_soon(code: int) -> None:
    """Ends the process with ``code`` after ``EXIT_SECONDS``, unless it ends by itself before."""

    def end() -> None:
        time.sleep(EXIT_SECONDS)
        left = []
        for thread in threading.enumerate():
            if thread is not threading.main_thread() and not thread.daemon:
                left.append(repr(thread.name))
        reason = f"thread {', '.join(left)} is left over" if left else "an exit handler is not done"
        _warn(f"{reason} {EXIT_SECONDS:g} s after the end")
        end_process(code)

    thread = threading.Thread(target=end, name="deadline", daemon=True)
    thread.start()


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


# ---------------------------------------------------------------- signals


# A signal repeated within these seconds counts as one: `timeout` and wrappers of commands send it to the process and
# to its group, and a user who presses Ctrl-C twice has not yet read what the second one costs.
TWICE_SECONDS = 0.5
LOOK_SECONDS = 0.1


@contextmanager
def beside(follow: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """Runs ``follow(*arguments, done)`` in a thread until the block ends and sets ``done``."""
    done = threading.Event()
    thread = threading.Thread(target=follow, args=(*arguments, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def interrupts(run: Run, own_process: bool = False) -> Iterator[None]:
    """SIGINT, SIGTERM and others ask the run to save and stop; a second SIGINT or SIGTERM ends the process at once.

    ``checkpoint_settings`` says which others, and after which the run continues.

    A signal that was ignored before, as ``nohup`` does with SIGHUP and a shell with SIGINT of a background command,
    stays ignored. A second SIGHUP changes nothing: a terminal that closes sends it more than once. ``own_process``:
    once the run is saved, no late signal changes the exit code of the process.
    """
    received: list[float] = []  # when the first signal came
    settings = run.config.checkpoint_settings
    signals = settings.signals()

    def handle(number: int, frame: FrameType | None) -> None:
        if not signals[number]:
            run.request_save()
            return
        if not received:
            received.append(time.monotonic())
            run.stop_by_signal(number)
            return
        is_second = time.monotonic() - received[0] >= TWICE_SECONDS
        if is_second and number in (signal.SIGINT, signal.SIGTERM):
            os._exit(128 + number)

    handlers: dict[int, Any] = {}
    for number in signals:
        handler = signal.getsignal(number)
        if number == signal.SIGTERM and handler == signal.SIG_IGN:
            log.warning(
                "SIGTERM has no effect, because the process that started this one ignores it, as submitit does; "
                "signals of checkpoint_settings.stop_signals save and end the run: %s",
                ", ".join(settings.stop_signals),
            )
        if handler not in (signal.SIG_IGN, None):  # None: a handler that Python did not install
            handlers[number] = handler
    for number in handlers:
        signal.signal(number, handle)
    try:
        with beside(_print_what_it_waits_for, run, received):
            yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_IGN if own_process and received else handler)


def _print_what_it_waits_for(run: Run, received: Sequence[float], done: threading.Event) -> None:
    """Prints once what a stopping run still does, so that the user knows what a second signal loses.

    Runs in a thread of its own, because a signal handler must not write to a stream that the interrupted loop may be
    writing to.
    """
    while not received:
        if done.wait(LOOK_SECONDS):
            return
    if not done.wait(TWICE_SECONDS):
        click.echo(waiting_line(run), file=sys.stderr)


def waiting_line(run: Run) -> str:
    """The line that says what a stopping run waits for, and what a second signal loses."""
    if run.outcome is not None and run.saved_step == run.steps:
        return "stopping: closing the environment; all that was learned is saved"
    doing = "saving a checkpoint"
    lost = "everything" if run.saved_step is None else f"what was learned after step {run.saved_step}"
    if run.config.checkpoint_settings.inference:
        doing = "ending"
        lost = "nothing"
    elif run.updating:
        doing = "finishing the update, then saving a checkpoint"
    return f"stopping: {doing}; a second Ctrl-C or SIGTERM ends the run at once and loses {lost}"
