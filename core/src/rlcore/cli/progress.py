"""The progress of ``rlcore run`` on the screen: a bar, or signs of life until the first summary."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from rlcore.cli.ending import beside
from rlcore.cli.terminal import echo, printable
from rlcore.records import StatsWriterSpec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, Task, TaskID

    from rlcore.run.run import Run

REFRESH_SECONDS = 0.25
NO_REWARD = "no episode yet"  # in place of a mean reward
WIDE = 120  # columns; a narrower bar leaves out the names of lessons' parameters
FIRST_SIGN = 10.0  # seconds after the start; the time between two signs doubles
LONGEST_PAUSE = 600.0  # seconds between two signs at most


@contextmanager
def show_progress(run: Run) -> Iterator[Callable[[], None]]:
    """Shows steps, steps per second, return, lessons and time left of ``run`` while the block lasts.

    Without a terminal, it prints a line now and then until the first summary. A thread reads the run's counters; the
    loop does not know of it. Yields a function that ends the bar before the block ends.
    """
    if sys.stdout is not None and sys.stdout.isatty():  # None: it was closed before the start
        with progress_bar() as progress, beside(_follow, run, progress):
            yield progress.stop
    elif is_silent(run):
        yield lambda: None
    else:
        with beside(_print_signs, run):
            yield lambda: None


def progress_bar(console: Console | None = None) -> Progress:
    """An empty bar, to which a row is added for each behavior."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = "-" if task.speed is None else f"{task.speed:,.0f}"
            return Text(f"{speed} steps/s")

    columns = (
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),  # in 80 columns the bar is shortened, not these
        Speed(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[text]}", markup=False),
        TimeRemainingColumn(),
    )
    # Standard error that goes to a file is left alone: the bar would draw its lines on the terminal.
    redirect = sys.stderr is not None and sys.stderr.isatty()
    return Progress(*columns, console=console, speed_estimate_period=10.0, redirect_stderr=redirect)


def lessons_text(lessons: Mapping[str, float], silent: Collection[str], wide: bool) -> str:
    """`` lesson length 2, gravity 0``, or `` lesson 2, 0`` if there is no room for names."""
    numbers = []
    for name, number in lessons.items():
        if name not in silent:
            numbers.append(f"{name} {number:g}" if wide else f"{number:g}")
    return f" lesson {', '.join(numbers)}" if numbers else ""


def _follow(run: Run, progress: Progress, done: threading.Event) -> None:
    inference = run.config.checkpoint_settings.inference
    silent = run.config.lone_lessons
    tasks: dict[str, TaskID] = {}
    finished = False
    while not finished:
        finished = done.wait(REFRESH_SECONDS)
        wide = progress.console.width >= WIDE
        lessons = printable(lessons_text(run.lessons, silent, wide))
        for name, behavior in list(run.behaviors.items()):  # a copy: this thread runs beside the training
            max_steps = behavior.settings.max_steps
            # The last update may go beyond what is to be learned; what is only acted has no end.
            steps = behavior.inferred if inference else min(behavior.steps, max_steps)
            text = NO_REWARD if behavior.mean_reward is None else f"reward {behavior.mean_reward:.2f}"
            if behavior.evaluated is not None:
                text += f" evaluation {behavior.evaluated:.2f}"
            text += lessons
            if name not in tasks:
                total = None if inference else max_steps
                tasks[name] = progress.add_task(name, total=total, completed=steps, text=text)
            progress.update(tasks[name], completed=steps, text=text)


def is_silent(run: Run) -> bool:
    """Whether the configuration turned the console writer off: then only the last line is printed."""
    console = run.plugins.record(StatsWriterSpec, "rlcore/console")
    for reference, settings in run.config.stats.items():
        # `console` and `rlcore/console` both name it.
        if settings is False and run.plugins.record(StatsWriterSpec, reference) is console:
            return True
    return False


def _print_signs(run: Run, done: threading.Event) -> None:
    started = perf_counter()
    pause = FIRST_SIGN
    before = started
    steps_before = 0
    while not done.wait(pause) and run.epoch == 0:
        now = perf_counter()
        steps = run.steps
        if run.config.checkpoint_settings.inference:
            steps = sum(behavior.inferred for behavior in run.behaviors.values())
        speed = (steps - steps_before) / (now - before)
        echo(sign(run, steps, speed, now - started), file=sys.stdout)
        if sys.stdout is not None:
            sys.stdout.flush()
        before = now
        steps_before = steps
        pause = min(2 * pause, LONGEST_PAUSE)


def sign(run: Run, steps: int, speed: float, seconds: float) -> str:
    """``running: 1200 steps after 10 s, 120 steps/s lately; the first summary is at step 50000``."""
    behaviors = run.behaviors
    if not behaviors:
        return f"starting: {seconds:.0f} s so far"
    line = f"running: {steps} steps after {seconds:.0f} s, {speed:.0f} steps/s lately"
    if run.config.checkpoint_settings.inference:
        return line
    learning = [behavior for behavior in behaviors.values() if behavior.learning]
    if not learning:
        return line
    nearest = min(learning, key=lambda behavior: behavior.next_summary - behavior.steps)
    of_behavior = f" of {nearest.name}" if len(behaviors) > 1 else ""
    step = min(nearest.next_summary, nearest.settings.max_steps)
    return f"{line}; the first summary{of_behavior} is at step {step}"
