"""The output of commands: safe texts, tables, short paths and the log, on streams whose loss does not end a run.

Names and messages come from configurations, run directories and packages of others. A terminal executes escape
sequences in them (which can set its title, its lines and its clipboard), and rich reads ``[red]`` as a color.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

import click

from rlcore.errors import one_line
from rlcore.files.paths import working_directory

# Control characters except tab and newline; marks that change the direction of text; line separators; lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_COMMAND = re.compile(r"(?:rlcore run|pip install) [^;,()]*")  # to be copied in one piece


def echo(text: object = "", *, err: bool = False, file: TextIO | None = None) -> None:
    """Prints a line that may contain text from files; use it instead of :func:`click.echo`.

    On a terminal, a long line is broken at words.
    """
    stream = file or (sys.stderr if err else sys.stdout)
    line = printable(str(text))
    click.echo(fitted(line, stream), err=err, file=file)


def warn(messages: Iterable[str]) -> None:
    """Prints a warning for each message."""
    for message in messages:
        echo(f"warning: {message}", err=True)


def fitted(text: str, stream: TextIO | None) -> str:
    """Return one line broken at words for the terminal ``stream``; whatever else ``stream`` is, return ``text``."""
    columns = 0
    with suppress(OSError, ValueError, AttributeError):  # no stream, or one without a descriptor
        if stream is not None and stream.isatty():
            columns = os.get_terminal_size(stream.fileno()).columns
    if columns < 2 or len(text) < columns or "\n" in text:
        return text
    unbroken = _COMMAND.sub(lambda command: command[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(unbroken, columns - 1, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def printable(text: str) -> str:
    r"""Return the text with control characters written as escapes, as in ``\x1b[31m``."""
    return _UNSAFE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def cells(*values: Any) -> tuple[str, ...]:
    """The cells of a row of a table, as printable text on one line."""
    texts = [printable(str(value)) for value in values]
    return tuple(text.replace("\n", " ") for text in texts)


def counted(number: int, word: str, plural: str = "") -> str:
    """``1 worker``, ``2 workers``."""
    if number != 1:
        word = plural or f"{word}s"
    return f"{number} {word}"


def echo_columns(rows: Iterable[Sequence[Any]]) -> None:
    """Prints rows of values in columns, each as wide as its longest value. There is at least one row."""
    texts = [cells(*row) for row in rows]
    columns = zip(*texts, strict=True)
    widths = [max(map(len, column)) for column in columns]
    for row in texts:
        line = "  ".join(map(str.ljust, row, widths))
        echo(line.rstrip(), file=sys.stdout)  # without `file`, click writes past a progress bar


class ShortPaths:
    """Shortens messages: paths below the directory where the command was started become relative to it.

    A run knows its files by absolute paths, because an environment may change the working directory.
    """

    def __init__(self) -> None:
        start = str(working_directory())
        known = os.path.isabs(start) and start != os.path.dirname(start)
        prefix = re.escape(start + os.sep) if known else "(?!)"  # which matches nothing
        # Only where a path starts: `/w/` stays in `/other/w/results`.
        self._start = re.compile(rf"(?<![^\s'\"(\[=:,;]){prefix}(?=[^\s'\"])")

    def __call__(self, text: str) -> str:
        return self._start.sub("", text)


class EchoHandler(logging.Handler):
    """Writes to the current ``sys.stderr``, which a progress bar may have replaced.

    The stream is passed to click, which would otherwise look for the binary stream and write past the bar.
    """

    def __init__(self) -> None:
        super().__init__()
        from rlcore.plugins.context import PLUGIN_LOGGERS

        self._shorten = ShortPaths()
        self._plugins = f"{PLUGIN_LOGGERS}."

    def emit(self, record: logging.LogRecord) -> None:
        prefix = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        if record.name.startswith(self._plugins):
            plugin = record.name.removeprefix(self._plugins)
            prefix += f"{plugin}: "
        message = " ".join(record.getMessage().splitlines())
        echo(prefix + self._shorten(message), file=sys.stderr)
        if record.exc_info:
            lines = traceback.format_exception(*record.exc_info)
            echo("".join(lines).removesuffix("\n"), file=sys.stderr)


def show_log(debug: bool = False, leads: bool = True) -> None:
    """Prints messages and warnings of rlcore from now on; with ``debug``, everything.

    A process that does not lead, because it is a rank above 0 of a run, prints errors alone.
    """
    logger = logging.getLogger("rlcore")
    # An earlier command of this process may have started in another directory.
    others = [handler for handler in logger.handlers if not isinstance(handler, EchoHandler)]
    logger.handlers = [*others, EchoHandler()]
    logger.propagate = False
    level = logging.INFO if leads else logging.ERROR
    logger.setLevel(logging.DEBUG if debug else level)


# ---------------------------------------------------------------- streams whose loss does not end a run


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
        self._unless_lost(lambda: self._stream.write(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self._unless_lost(self._stream.flush)

    def _unless_lost(self, use: Callable[[], object]) -> None:
        if self._dropped:
            return
        try:
            use()
        except OSError as error:
            self._drop(error.strerror or one_line(error))
        except ValueError as error:
            if not self._stream.closed:  # the caller caused it
                raise
            self._drop(one_line(error))

    def _drop(self, reason: str) -> None:
        with self._lock:
            if self._dropped:
                return
            self._dropped = True
        give_up(self._stream)
        self._lost(reason)

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
    output = sys.stdout
    errors = sys.stderr
    listeners: list[Callable[[], None]] = []

    def warn(name: str, why: str, left: TextIO | None) -> None:
        print(f"warning: {name} is lost ({why}); the run continues without it", file=left, flush=True)

    def output_lost(why: str) -> None:
        warn("standard output", why, kept_errors)  # not through the progress bar, which used the stream that is lost
        for notify in listeners:
            notify()

    def errors_lost(why: str) -> None:
        warn("standard error", why, sys.stdout)

    # A stream is None in a Python that was started without it, and stays None.
    kept_output = cast(TextIO, output and LastingStream(output, output_lost))
    kept_errors = cast(TextIO, errors and LastingStream(errors, errors_lost))
    sys.stdout = kept_output
    sys.stderr = kept_errors
    try:
        yield listeners
    finally:
        for kept in (kept_output, kept_errors):
            if kept is not None:
                kept.flush()
        sys.stdout = output
        sys.stderr = errors
