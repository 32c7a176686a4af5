"""Standard output and standard error that may be lost while a run goes on: training does not end with them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from rlcore.errors import one_line


class LastingStream:
    """A text stream that nothing raises from. What it cannot write any more is dropped, and ``lost`` is told why, once.

    A reader that went away, a full disk under a file and a closed terminal are alike: no later line is tried.
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
        """Raises what is an error of the writer's: a ValueError of a stream that is not closed."""
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
    """Leads what ``stream`` still holds, and all that is written to its descriptor later, to the null device.

    Without this, Python fails to flush the stream when it exits, and answers with exit code 120.
    """
    with suppress(OSError, ValueError):  # closed, or no file: nothing of it will be flushed
        descriptor = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
        stream.flush()


@contextmanager
def lasting_console() -> Iterator[list[Callable[[], None]]]:
    """While the block lasts, neither standard output nor standard error can end it by being lost.

    A warning on the other stream says so, if that stream is left. The block may add functions to the list that it gets:
    they are called when standard output is lost.
    """
    output, errors = sys.stdout, sys.stderr
    told: list[Callable[[], None]] = []

    def output_lost(why: str) -> None:
        # Past a progress bar, which stood on the stream that is lost.
        print(_lost("standard output", why), file=kept_errors, flush=True)
        for tell in told:
            tell()

    def errors_lost(why: str) -> None:
        print(_lost("standard error", why), file=sys.stdout, flush=True)

    kept_output, kept_errors = _lasting(output, output_lost), _lasting(errors, errors_lost)
    sys.stdout, sys.stderr = kept_output, kept_errors
    try:
        with _every_character(output):
            yield told
    finally:
        for kept in (kept_output, kept_errors):
            if kept is not None:
                kept.flush()
        sys.stdout, sys.stderr = output, errors


def _lasting(stream: TextIO | None, lost: Callable[[str], None]) -> TextIO:
    """``stream`` that lasts; None, which Python has for one that was closed at its start, takes nothing anyway."""
    return cast(TextIO, stream and LastingStream(stream, lost))


def _lost(name: str, why: str) -> str:
    return f"warning: {name} is lost ({why}); the run goes on without it"


@contextmanager
def _every_character(output: TextIO | None) -> Iterator[None]:
    """A name that the encoding of the terminal lacks is written with escapes, as on standard error."""
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
