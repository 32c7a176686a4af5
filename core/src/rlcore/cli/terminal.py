"""The output of commands: safe texts, short paths, the log and summaries, on streams whose loss does not end a run.

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
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from rlcore.errors import one_line
from rlcore.files.paths import user_path, working_directory

if TYPE_CHECKING:
    from rlcore.contracts.stats import StatSummary
    from rlcore.plugins.context import RunContext

# Control characters except tab and newline; marks that change the direction of text; line separators; lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_COMMAND = re.compile(r"(?:rlcore run|pip install) [^;,()]*")  # to be copied in one piece


def echo(text: object = "", *, err: bool = False, file: TextIO | None = None) -> None:
    """Prints a line that may contain text from files; use it instead of :func:`click.echo`.

    On a terminal, a long line is broken at words.
    """
    stream = file or (sys.stderr if err else sys.stdout)
    click.echo(fitted(printable(str(text)), stream), err=err, file=file)


def fitted(text: str, stream: TextIO | None) -> str:
    """Return one line broken at words for the terminal ``stream``; whatever else ``stream`` is, return ``text``."""
    columns = 0
    with suppress(OSError, ValueError, AttributeError):  # no stream, or one without a descriptor
        if stream is not None and stream.isatty():
            columns = os.get_terminal_size(stream.fileno()).columns
    if columns < 2 or len(text) < columns or "\n" in text:
        return text
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(whole, columns - 1, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def printable(text: str) -> str:
    r"""Return the text with control characters written as escapes, as in ``\x1b[31m``."""
    return _UNSAFE.sub(lambda found: _written_out(ord(found[0])), text)


def _written_out(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def cells(*values: Any) -> tuple[str, ...]:
    """The cells of a row of a table, as printable text on one line."""
    return tuple(" ".join(printable(str(value)).split("\n")) for value in values)


def echo_columns(rows: Iterable[Sequence[Any]]) -> None:
    """Prints rows of values, of which each column but the last is as wide as its longest value."""
    rows = [cells(*row) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        line = "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        echo(line, file=sys.stdout)  # without `file`, click writes past a progress bar


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
    output = sys.stdout
    errors = sys.stderr
    listeners: list[Callable[[], None]] = []

    def warn(name: str, why: str, left: TextIO | None) -> None:
        print(f"warning: {name} is lost ({why}); the run continues without it", file=left, flush=True)

    def output_lost(why: str) -> None:
        warn("standard output", why, kept_errors)  # not through the progress bar, which used the stream that is lost
        for notify in listeners:
            notify()

    # A stream is None in a Python that was started without it, and stays None.
    kept_output = cast(TextIO, output and LastingStream(output, output_lost))
    kept_errors = cast(TextIO, errors and LastingStream(errors, lambda why: warn("standard error", why, sys.stdout)))
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


class UserPath(click.Path):
    """A path whose ``~`` is expanded if the shell did not do it, as in ``--record=~/films``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(user_path(value), param, ctx)


class ShownPaths:
    """Shortens messages: paths below the directory where the command was started become relative to it.

    A run knows its files by absolute paths, because an environment may change the working directory.
    """

    def __init__(self) -> None:
        start = str(working_directory())
        # Only where a path starts: `/w/` stays in `/other/w/results`.
        known = os.path.isabs(start) and start != os.path.dirname(start)
        self._start = re.compile(rf"(?<![^\s'\"(\[=:,;]){re.escape(start + os.sep)}(?=[^\s'\"])") if known else None

    def __call__(self, text: str) -> str:
        return text if self._start is None else self._start.sub("", text)


class EchoHandler(logging.Handler):
    """Writes to the current ``sys.stderr``, which a progress bar may have replaced.

    The stream is passed to click, which would otherwise look for the binary stream and write past the bar.
    """

    def __init__(self) -> None:
        super().__init__()
        from rlcore.plugins.context import PLUGIN_LOGGERS

        self._shown = ShownPaths()
        self._plugins = f"{PLUGIN_LOGGERS}."

    def emit(self, record: logging.LogRecord) -> None:
        kind = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        if record.name.startswith(self._plugins):
            kind += f"{record.name.removeprefix(self._plugins)}: "
        echo(f"{kind}{self._shown(' '.join(record.getMessage().splitlines()))}", file=sys.stderr)
        if record.exc_info:
            import traceback

            echo("".join(traceback.format_exception(*record.exc_info)).removesuffix("\n"), file=sys.stderr)


def show_log(debug: bool = False, leads: bool = True) -> None:
    """Prints messages and warnings of rlcore from now on; with ``debug``, everything.

    A process that does not lead, because it is a rank above 0 of a run, prints errors alone.
    """
    logger = logging.getLogger("rlcore")
    for handler in [handler for handler in logger.handlers if isinstance(handler, EchoHandler)]:
        logger.removeHandler(handler)  # an earlier command of this process may have started in another directory
    logger.addHandler(EchoHandler())
    logger.propagate = False
    logger.setLevel(logging.DEBUG if debug else logging.INFO if leads else logging.ERROR)


ELO = "Self-play/ELO"


class ConsoleWriter:
    """Prints one plain line per summary in ML-Agents' words, followed by lessons, evaluation and speed.

    With ``plays=False``, lines do not mention episodes: training on recorded data plays none. Lines never mention the
    lessons of the environment parameters in ``silent``.
    """

    def __init__(self, stream: TextIO | None = None, plays: bool = True, silent: Collection[str] = frozenset()) -> None:
        self._stream = stream
        self._plays = plays
        self._silent = silent
        self._started = time.monotonic()

    @classmethod
    def create(cls, settings: Any, run: RunContext) -> ConsoleWriter:
        return cls(plays=run.inference or not run.offline, silent=run.config.lone_lessons)

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        line = console_line(behavior, step, time.monotonic() - self._started, stats, self._plays, self._silent)
        # Looked up for each line, because a progress bar may have replaced the stream.
        stream = self._stream or sys.stdout
        print(fitted(line, stream), file=stream, flush=True)

    def close(self) -> None:
        """Do nothing: no file is open."""


def console_line(
    behavior: str,
    step: int,
    seconds: float,
    stats: Mapping[str, StatSummary],
    plays: bool = True,
    silent: Collection[str] = frozenset(),
) -> str:
    """Return ``Walker. Step: 1000. Time Elapsed: 1.500 s. Mean Reward: ... . Training. 2000 steps/s.``"""
    from rlcore.contracts.stats import Tag, lesson_numbers

    parts = [f"{behavior}. Step: {step}", f"Time Elapsed: {seconds:0.3f} s"]
    reward = stats.get(Tag.CUMULATIVE_REWARD)
    if reward is None:
        parts += ["No episode was completed since last summary"] if plays else []
    else:
        parts.append(f"Mean Reward: {reward.mean:0.3f}")
        if Tag.GROUP_REWARD in stats:
            parts.append(f"Mean Group Reward: {stats[Tag.GROUP_REWARD].mean:0.3f}")
        else:
            parts.append(f"Std of Reward: {reward.std:0.3f}")
    training = Tag.IS_TRAINING not in stats or stats[Tag.IS_TRAINING].mean > 0.0
    parts.append("Training" if training else "Not Training")
    if ELO in stats:
        parts.append(f"ELO: {stats[ELO].mean:0.3f}")
    means = {tag: summary.mean for tag, summary in stats.items()}
    lessons = [f"{name} {number:g}" for name, number in lesson_numbers(means).items() if name not in silent]
    if lessons:
        parts.append(f"Lesson: {', '.join(lessons)}")
    if Tag.EVALUATION_REWARD in stats:
        against = [
            f"{tag.removeprefix(Tag.REWARD_AGAINST)} {summary.mean:0.3f}"
            for tag, summary in stats.items()
            if tag.startswith(Tag.REWARD_AGAINST)
        ]
        named = f" ({', '.join(against)})" if against else ""
        parts.append(f"Evaluation: {stats[Tag.EVALUATION_REWARD].mean:0.3f}{named}")
    if Tag.STEPS_PER_SECOND in stats:
        parts.append(f"{stats[Tag.STEPS_PER_SECOND].mean:.0f} steps/s")
    return printable(". ".join(parts) + ".")
