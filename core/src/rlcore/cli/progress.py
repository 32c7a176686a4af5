"""The screen and the signals of ``rlcore run``: first lines, the progress bar, how a user stops a run."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic, perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from rlcore.cli.terminal import echo, echo_columns, printable
from rlcore.records import StatsWriterSpec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, Task, TaskID

    from rlcore.plugins.discover import Plugin
    from rlcore.run.description import BehaviorDescription, EnvironmentDescription, RunDescription
    from rlcore.run.run import Run

REFRESH_SECONDS = 0.25
NO_REWARD = "no episode yet"  # in place of a mean reward
WIDE = 120  # columns; a narrower bar leaves out the names of lessons' parameters


@contextmanager
def _beside(follow: Callable[..., None], *arguments: Any) -> Iterator[None]:
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
def show_progress(run: Run) -> Iterator[Callable[[], None]]:
    """Shows steps, steps per second, return, lessons and time left of ``run`` while the block lasts.

    Without a terminal, it prints a line now and then until the first summary. A thread reads the run's counters; the
    loop does not know of it. Yields a function that ends the bar before the block ends.
    """
    if sys.stdout is not None and sys.stdout.isatty():  # None: it was closed before the start
        with progress_bar() as progress, _beside(_follow, run, progress):
            yield progress.stop
    elif is_silent(run):
        yield lambda: None
    else:
        with _beside(_print_signs, run):
            yield lambda: None


def progress_bar(console: Console | None = None) -> Progress:
    """An empty bar, to which a row is added for each behavior."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{'-' if task.speed is None else format(task.speed, ',.0f')} steps/s")

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
    numbers = [
        f"{name} {number:g}" if wide else f"{number:g}" for name, number in lessons.items() if name not in silent
    ]
    return f" lesson {', '.join(numbers)}" if numbers else ""


def _follow(run: Run, progress: Progress, done: threading.Event) -> None:
    inference = run.config.checkpoint_settings.inference
    silent = run.config.lone_lessons
    tasks: dict[str, TaskID] = {}
    finished = False
    while not finished:
        finished = done.wait(REFRESH_SECONDS)
        lessons = printable(lessons_text(run.lessons, silent, wide=progress.console.width >= WIDE))
        for name, behavior in list(run.behaviors.items()):
            # The last update may go beyond what is to be learned; what is only acted has no end.
            steps = behavior.inferred if inference else min(behavior.steps, behavior.settings.max_steps)
            reward = behavior.mean_reward
            score = behavior.evaluated
            text = NO_REWARD if reward is None else f"reward {reward:.2f}"
            text += f"{'' if score is None else f' evaluation {score:.2f}'}{lessons}"
            if name not in tasks:
                total = None if inference else behavior.settings.max_steps
                tasks[name] = progress.add_task(name, total=total, completed=steps, text=text)
            progress.update(tasks[name], completed=steps, text=text)


FIRST_SIGN = 10.0  # seconds after the start; the time between two signs doubles
LONGEST_PAUSE = 600.0  # seconds between two signs at most
MOST_BEHAVIORS = 6  # lines of behaviors before the others are only counted
MOST_OBSERVATIONS = 3  # shapes of observations in a line


def is_silent(run: Run) -> bool:
    """Whether the configuration turned the console writer off: then only the last line is printed."""
    console = run.plugins.record(StatsWriterSpec, "rlcore/console")
    off = [reference for reference, settings in run.config.stats.items() if settings is False]
    return any(run.plugins.record(StatsWriterSpec, reference) is console for reference in off)


def show_start(run: Run, shown: Callable[[str], str]) -> None:
    """Print what a run that has started trains."""
    echo_columns([(label, shown(text)) for label, text in description_lines(run.describe())])


def description_lines(run: RunDescription) -> list[tuple[str, str]]:
    """A label and a text for each line of the description; the label of a behavior is its name."""
    source = "recorded data" if run.environment is None else environment_text(run.environment)
    found = [
        ("run", f"{run.directory}, seed {run.seed}"),
        ("plugins", _plugins(run.plugins)),
        ("device", run.device),
        ("learns from" if run.environment is None else "environment", source),
    ]
    if run.preset is not None:
        found.append(("preset", run.preset))
    if run.ranks > 1:
        found.append(("ranks", f"{run.ranks}, which share the copies of the environment"))
    found += [(each.name, behavior_text(each)) for each in run.behaviors[:MOST_BEHAVIORS]]
    more = len(run.behaviors) - MOST_BEHAVIORS
    if more > 0:
        found.append(("", f"and {more} more behavior{'s' if more > 1 else ''}"))
    if run.resume is not None:
        found.append(("resume", str(run.resume)))
    return found


def environment_text(found: EnvironmentDescription) -> str:
    """``gymnasium CartPole-v1, 8 copies in 2 workers (processes)``."""
    copies = "1 copy" if found.num_envs == 1 else f"{found.num_envs} copies"
    workers = "1 worker" if found.workers == 1 else f"{found.workers} workers"
    where = f" in {workers} ({found.executor})" if found.workers else ""
    return f"{' '.join(filter(None, (found.type, found.id)))}, {copies}{where}"


def behavior_text(found: BehaviorDescription) -> str:
    """``ppo; 8 agents; observes 4; acts discrete 2; network 2 x 64 tanh, 9,155 parameters; 100,000 steps``."""
    parts = [" with ".join(filter(None, (found.trainer, ", ".join(found.sections))))]
    if found.agents is not None:
        parts.append("1 agent" if found.agents == 1 else f"{found.agents} agents")
    shapes = ["x".join(map(str, shape)) or "1" for shape in found.observations.values()]
    more = len(shapes) - MOST_OBSERVATIONS
    seen = " + ".join(shapes[:MOST_OBSERVATIONS]) + (f" and {more} more" if more > 0 else "")
    actions = [f"continuous {found.continuous}"] if found.continuous else []
    if found.discrete:
        actions.append(f"discrete {'x'.join(map(str, found.discrete))}")
    parts += [f"observes {seen}", f"acts {' and '.join(actions) or 'nothing'}"]
    if found.network is not None:
        parts.append(f"network {found.network.layers}, {found.network.parameters:,} parameters")
    end = "acts without learning" if found.max_steps is None else f"{found.max_steps:,} steps"
    return "; ".join((*parts, end))


def _plugins(plugins: Iterable[Plugin]) -> str:
    """``core, ppo (0.1.0), acme-rl/reward (2.1), hooks (local)``: names of rlcore's packages are shortened."""
    groups: dict[str, list[str]] = {}
    for plugin in sorted(plugins, key=lambda each: (not each.essential, not each.distribution, each.label)):
        ours = plugin.essential or plugin.distribution == f"rlcore-{plugin.name}"
        name = plugin.name if ours or not plugin.distribution else plugin.label
        groups.setdefault(plugin.version if plugin.distribution else "local", []).append(name)
    return ", ".join(f"{', '.join(names)} ({version})" for version, names in groups.items())


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
        echo(sign(run, steps, (steps - steps_before) / (now - before), now - started), file=sys.stdout)
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
    nearest = min(learning, key=lambda each: each.next_summary - each.steps, default=None)
    if nearest is None:
        return line
    of = f" of {nearest.name}" if len(behaviors) > 1 else ""
    return f"{line}; the first summary{of} is at step {min(nearest.next_summary, nearest.settings.max_steps)}"


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
    try:
        with _beside(_print_what_it_waits_for, run, received):
            yield
    finally:
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
        doing = "ending"
        lost = "nothing"
    return f"stopping: {doing}; a second Ctrl-C or SIGTERM ends the run at once and loses {lost}"
