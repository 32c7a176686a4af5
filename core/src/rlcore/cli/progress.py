"""A live progress bar on a terminal. Other outputs get signs of life until the first summary."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from rlcore.builtin.terminal_text import printable
from rlcore.cli.start import signs_of_life

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from rlcore.run.run import Run

REFRESH_SECONDS = 0.25
NO_REWARD = "no episode yet"  # in place of a mean reward
WIDE = 120  # columns; a narrower bar leaves out the names of lessons' parameters


@contextmanager
def show_progress(run: Run) -> Iterator[Callable[[], None]]:
    """Shows steps, steps per second, return, lessons and time left of ``run`` while the block lasts.

    A thread draws the bar and reads the run's counters a few times a second; the loop does not know of it.
    Yields a function that ends the bar before the block ends.
    """
    if sys.stdout is None or not sys.stdout.isatty():  # None: it was closed before the start
        with signs_of_life(run):
            yield lambda: None
        return
    with progress_bar() as progress:
        done = threading.Event()
        thread = threading.Thread(target=_follow, args=(run, progress, done), daemon=True)
        thread.start()
        try:
            yield progress.stop
        finally:
            done.set()
            thread.join()


def progress_bar(console: Console | None = None) -> Progress:
    """An empty bar, to which a row is added for each behavior."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    columns = (
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),  # in 80 columns the bar is shortened, not this
        TextColumn("{task.fields[speed]} steps/s"),
        TextColumn("{task.fields[reward]}{task.fields[score]}{task.fields[lessons]}", markup=False),
        TimeRemainingColumn(),
    )
    # Standard error that goes to a file is left alone: the bar would draw its lines on the terminal.
    return Progress(
        *columns,
        console=console,
        speed_estimate_period=10.0,
        redirect_stderr=sys.stderr is not None and sys.stderr.isatty(),
    )


def lessons_text(lessons: Mapping[str, float], silent: Collection[str], wide: bool) -> str:
    """`` lesson length 2, gravity 0``, or `` lesson 2, 0`` if there is no room for names."""
    numbers = [
        f"{name} {number:g}" if wide else f"{number:g}" for name, number in lessons.items() if name not in silent
    ]
    return f" lesson {', '.join(numbers)}" if numbers else ""


def _follow(run: Run, progress: Progress, done: threading.Event) -> None:
    inference, silent = run.config.checkpoint_settings.inference, run.config.lone_lessons
    tasks: dict[str, TaskID] = {}
    seen: dict[str, tuple[float, int]] = {}
    finished = False
    while not finished:
        finished = done.wait(REFRESH_SECONDS)
        lessons = printable(lessons_text(run.lessons, silent, wide=progress.console.width >= WIDE))
        for name, behavior in list(run.behaviors.items()):
            # The last update may go beyond what is to be learned; what is only acted has no end.
            steps = behavior.inferred if inference else min(behavior.steps, behavior.settings.max_steps)
            now = perf_counter()
            if name not in tasks:
                total = None if inference else behavior.settings.max_steps
                tasks[name] = progress.add_task(
                    name, total=total, completed=steps, speed="-", reward=NO_REWARD, score="", lessons=""
                )
                seen[name] = (now, steps)
            before, steps_before = seen[name]
            reward, score = behavior.mean_reward, behavior.evaluated
            progress.update(
                tasks[name],
                completed=steps,
                reward=NO_REWARD if reward is None else f"reward {reward:.2f}",
                score="" if score is None else f" evaluation {score:.2f}",
                lessons=lessons,
            )
            if now - before >= 1.0:
                progress.update(tasks[name], speed=f"{(steps - steps_before) / (now - before):,.0f}")
                seen[name] = (now, steps)
