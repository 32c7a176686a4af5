"""Standard output and standard error whose loss does not end a run."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from rlcore.errors import one_line


class LastingStream:
    """A text stream that drops what it can no longer write, and calls ``lost`` once with the reason.

    After the first failure (a reader that is gone, a full disk, a closed terminal) nothing more is written.
    """

    def __init__(self, stream: TextIO, lost: Callable[[str], None]) -> None:
        self._stream = stream
        self._lost = lost
        self._dropped = False
        self._lock = threading.Lock()  # a progress bar writes from a thread of its own

    def write(self, text: str) -> int:
        if not self._dropped:
            try:
                return self._stream.write(text)
            except (OSError, ValueError) as error:
                self._drop(error)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if not self._dropped:
            try:
                self._stream.flush()
            except (OSError, ValueError) as error:
                self._drop(error)

    def _drop(self, error: OSError | ValueError) -> None:
        """Drops the stream; raises a ValueError of a stream that is not closed, because the caller caused it."""
        if isinstance(error, ValueError) and not self._stream.closed:
            raise error
        with self._lock:
            if self._dropped:
                return
            self._dropped = True
        give_up(self._stream)
        self._lost((isinstance(error, OSError) and error.strerror) or one_line(error))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def give_up(stream: TextIO) -> None:
    """Sends what ``stream`` still buffers, and all later writes to its descriptor, to the null device.

    Otherwise Python fails to flush the stream when it exits, and ends with exit code 120.
    """
    with suppress(OSError, ValueError):  # closed, or not a file: nothing will be flushed
        descriptor = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
        stream.flush()


@contextmanager
def lasting_console() -> Iterator[list[Callable[[], None]]]:
    """For a block that continues if standard output or standard error is lost.

    A warning is then printed on the other stream, if that one is left. The block may add functions to the list that it
    gets; they are called when standard output is lost.
    """
    output, errors = sys.stdout, sys.stderr
    listeners: list[Callable[[], None]] = []

    def output_lost(why: str) -> None:
        # Not through the progress bar, which used the stream that is lost.
        print(_lost("standard output", why), file=kept_errors, flush=True)
        for notify in listeners:
            notify()

    def errors_lost(why: str) -> None:
        print(_lost("standard error", why), file=sys.stdout, flush=True)

    kept_output, kept_errors = _lasting(output, output_lost), _lasting(errors, errors_lost)
    sys.stdout, sys.stderr = kept_output, kept_errors
    try:
        with _every_character(output):
            yield listeners
    finally:
        for kept in (kept_output, kept_errors):
            if kept is not None:
                kept.flush()
        sys.stdout, sys.stderr = output, errors


def _lasting(stream: TextIO | None, lost: Callable[[str], None]) -> TextIO:
    """``stream`` as a LastingStream. It is None in a Python that was started without it, and stays None."""
    return cast(TextIO, stream and LastingStream(stream, lost))


def _lost(name: str, why: str) -> str:
    return f"warning: {name} is lost ({why}); the run continues without it"


@contextmanager
def _every_character(output: TextIO | None) -> Iterator[None]:
    """Characters that the terminal's encoding lacks are written as escapes, as on standard error."""
    reconfigure, handling = getattr(output, "reconfigure", None), getattr(output, "errors", None)
    if reconfigure is None or handling != "strict":
        yield
        return
    reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            reconfigure(errors=handling)
