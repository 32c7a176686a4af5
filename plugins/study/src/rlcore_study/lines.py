"""Progress of runs side by side: a bar for each run on a terminal, otherwise a line for each summary."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rlcore import DamagedFile, Tag, cells, echo, open_regular, parse_json

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

METRICS = "metrics.jsonl"
MAX_BYTES = 2**34  # of a file of summaries


def identity(file: Path) -> tuple[int, ...] | None:
    """Return what changes if a file is replaced or written, and stays if its directory is renamed; None without one."""
    with suppress(OSError):
        stat = file.stat()
        return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
    return None


class Summaries:
    """The summaries that a run has written since it was last asked for them.

    Attributes:
        steps: Agent steps of all behaviors at their last summaries.
        text: ``reward 54.90 evaluation 475.00`` of these summaries, the mean over behaviors.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / METRICS
        self._read = 0  # bytes
        self._replaced: tuple[int, ...] | None = None
        self._steps: dict[str, int] = {}
        self._values: dict[str, dict[str, float]] = {
            Tag.CUMULATIVE_REWARD: {},
            Tag.EVALUATION_REWARD: {},
        }  # by behavior

    def ignore_present(self) -> None:
        """Ignore the file that is there, as long as nothing changes it: the run that this one replaces wrote it."""
        self._replaced = identity(self._file)

    def read(self) -> bool:
        """Read what is new. Returns whether there is anything."""
        if self._replaced is not None and self._replaced == identity(self._file):
            return False
        try:
            with open_regular(self._file, MAX_BYTES) as file:
                if file.seek(0, 2) < self._read:  # a resumed run has dropped the lines that it writes again
                    self._read = 0
                    self._steps.clear()
                file.seek(self._read)
                content = file.read()
        except (OSError, DamagedFile):  # not there yet
            return False
        complete, newline, _ = content.rpartition(b"\n")  # the run may be in the middle of a line
        if not newline:
            return False
        self._read += len(complete) + 1
        any_new = False
        for line in complete.split(b"\n"):
            try:
                any_new |= self._add(parse_json(line))
            except ValueError:
                continue
        return any_new

    def _add(self, summary: Any) -> bool:
        if not isinstance(summary, Mapping):
            return False
        name = summary.get("behavior")
        step = summary.get("step")
        stats = summary.get("stats")
        if not isinstance(name, str) or not isinstance(step, int) or not isinstance(stats, Mapping):
            return False
        self._steps[name] = step
        for tag, values in self._values.items():
            value = stats.get(tag)
            if isinstance(value, int | float):
                values[name] = float(value)
        return True

    @property
    def steps(self) -> int:
        return sum(self._steps.values())

    @property
    def text(self) -> str:
        words = {Tag.CUMULATIVE_REWARD: "reward", Tag.EVALUATION_REWARD: "evaluation"}
        texts = []
        for tag, values in self._values.items():
            if values:
                mean = sum(values.values()) / len(values)
                texts.append(f"{words[tag]} {mean:.2f}")
        return " ".join(texts)


class Lines:
    """One line for each run that is going on; entered while there are any."""

    def __init__(self) -> None:
        self._bars: Progress | None = None
        self._rows: dict[str, TaskID] = {}
        if sys.stdout is not None and sys.stdout.isatty():
            self._bars = _bars()

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def start(self, run: str, steps: int, text: str) -> None:
        """Show a run of ``steps`` agent steps in all; 0 if that is not known."""
        if self._bars is not None:
            self._rows[run] = self._bars.add_task(cells(run)[0], total=steps or None, text=text)
        elif text:
            self.say(f"{run}  {text}")

    def show(self, run: str, done: int, steps: int, text: str) -> None:
        """Show a new summary of a run after ``done`` of its ``steps`` agent steps."""
        if self._bars is None:
            of_all = f" of {steps:,}" if steps else ""
            self.say(f"{run}  {done:,}{of_all} steps  {text}".rstrip())
        else:
            self._bars.update(self._rows[run], completed=min(done, steps or done), text=cells(text)[0])

    def end(self, run: str, text: str) -> None:
        """Replace the line of a run by its outcome."""
        if self._bars is not None:
            self._bars.remove_task(self._rows.pop(run))
        self.say(f"{run}  {text}")

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        echo(text, file=sys.stdout)  # without `file`, click writes past the bars
        if sys.stdout is not None:
            sys.stdout.flush()


def _bars() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    return Progress(
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[text]}", markup=False),
        TimeElapsedColumn(),
        redirect_stderr=sys.stderr is not None and sys.stderr.isatty(),
    )
