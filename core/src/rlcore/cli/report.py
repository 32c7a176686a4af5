"""Prints an error as one line on standard error, and chooses the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType

from rlcore.cli.console import give_up
from rlcore.cli.ranks import named
from rlcore.cli.terminal import echo
from rlcore.errors import EXIT_INTERNAL, EXIT_RUN_STATE, RlcoreError, traceback_hint


def report(error: BaseException, debug: bool, shown: Callable[[str], str] = str) -> int:
    """Prints the line, with ``debug`` after the traceback, and returns the exit code.

    ``shown`` shortens the paths in the line. If standard error is lost, only the exit code reports the error.
    """
    try:
        if debug:
            echo(traceback_text(error).removesuffix("\n"), err=True)
        echo(f"error: {named(shown(_message(error)))}", err=True)
    except OSError:
        give_up(sys.stderr)
    if isinstance(error, OSError):  # a file that cannot be read or written: one that other code needs was named by it
        return EXIT_RUN_STATE
    return error.exit_code if isinstance(error, RlcoreError) else EXIT_INTERNAL


def _message(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else f"output: {error.strerror}"
    if isinstance(error, RlcoreError | OSError):
        return f"{text}{traceback_hint(error)}"
    return f"unexpected {type(error).__name__}: {text}; --debug shows the traceback"


def traceback_text(error: BaseException) -> str:
    """The traceback as Python prints it, without the frames of click above the command."""
    import traceback

    frames = error.__traceback__
    while frames and frames.tb_next and _is_machinery(frames):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


def _is_machinery(frame: TracebackType) -> bool:
    module = str(frame.tb_frame.f_globals.get("__name__"))
    return module.split(".")[0] == "click" or module in ("rlcore.cli.main", "__main__")
