"""Signals that ask a run to save a checkpoint and end, and the line that is printed if that takes long."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rlcore.run.run import Run

# A signal repeated within these seconds counts as one: `timeout` and wrappers of commands send it to the process and
# to its group, and a user who presses Ctrl-C twice has not yet read what the second one costs.
TWICE_SECONDS = 0.5
LOOK_SECONDS = 0.1
STOPS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP
    if hasattr(signal, name)
)


@contextmanager
def interrupts(run: Run, own_process: bool = False) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP ask the run to save and stop; a second SIGINT or SIGTERM ends the process at once.

    A signal that was ignored before, as ``nohup`` does with SIGHUP and a shell with SIGINT of a background command,
    stays ignored. A second SIGHUP changes nothing: a terminal that closes sends it more than once. ``own_process``:
    once the run is saved, no late signal changes the exit code of the process.
    """
    received: list[float] = []  # when the first signal came

    def handle(number: int, frame: FrameType | None) -> None:
        if not received:
            received.append(monotonic())
            run.stop_by_signal(number)
        elif number in (signal.SIGINT, signal.SIGTERM) and monotonic() - received[0] >= TWICE_SECONDS:
            os._exit(128 + number)

    before = {number: signal.getsignal(number) for number in STOPS}
    ours = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in ours:
        signal.signal(number, handle)
    over = threading.Event()
    thread = threading.Thread(target=_print_what_it_waits_for, args=(run, received, over), name="stopping", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for number, handler in ours.items():
            signal.signal(number, signal.SIG_IGN if own_process and received else handler)


def _print_what_it_waits_for(run: Run, received: Sequence[float], over: threading.Event) -> None:
    """Prints once what a stopping run still does, so that the user knows what a second signal loses.

    Runs in a thread of its own, because a signal handler must not write to a stream that the interrupted loop may be
    writing to.
    """
    while not received:
        if over.wait(LOOK_SECONDS):
            return
    if not over.wait(TWICE_SECONDS):
        click.echo(waiting_line(run), file=sys.stderr)


def waiting_line(run: Run) -> str:
    """The line that says what a stopping run waits for, and what a second signal loses."""
    doing = "finishing the update, then saving a checkpoint" if run.updating else "saving a checkpoint"
    if run.outcome is not None and run.saved_step == run.steps:
        return "stopping: closing the environment; all that was learned is saved"
    lost = "everything" if run.saved_step is None else f"what was learned after step {run.saved_step}"
    if run.config.checkpoint_settings.inference:
        doing, lost = "ending", "nothing"
    return f"stopping: {doing}; a second Ctrl-C or SIGTERM ends the run at once and loses {lost}"
