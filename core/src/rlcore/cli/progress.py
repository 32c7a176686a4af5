"""Print the lines of ``rlcore run``: what a run trains, a bar or signs of life, and how the run ended."""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from time import perf_counter
from typing import TYPE_CHECKING

from rlcore.cli.ending import beside
from rlcore.cli.terminal import ShortPaths, counted, echo, echo_columns, printable, warn
from rlcore.errors import dotted
from rlcore.records import StatsWriterSpec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, Task, TaskID

    from rlcore.plugins.discover import Plugin
    from rlcore.run.behaviors.behavior import TrainedBehavior
    from rlcore.run.description import BehaviorDescription, EnvironmentDescription, StartDescription
    from rlcore.run.evaluation.evaluations import Scores
    from rlcore.run.run import Run

MOST_BEHAVIORS = 6  # lines of behaviors before the others are only counted
MOST_OBSERVATIONS = 3  # shapes of observations in a line
REFRESH_SECONDS = 0.25
NO_REWARD = "no episode yet"  # in place of a mean reward
WIDE = 120  # columns; a narrower bar leaves out the names of lessons' parameters
FIRST_SIGN = 10.0  # seconds after the start; the time between two signs doubles
LONGEST_PAUSE = 600.0  # seconds between two signs at most


# ---------------------------------------------------------------- the start


def show_start(run: Run, shorten: Callable[[str], str]) -> None:
    """Print what a run that has started trains."""
    lines = description_lines(run.describe())
    echo_columns([(label, shorten(text)) for label, text in lines])


def description_lines(run: StartDescription) -> list[tuple[str, str]]:
    """A label and a text for each line of the description; the label of a behavior is its name."""
    lines = [
        ("run", f"{run.directory}, seed {run.seed}"),
        ("plugins", _plugins(run.plugins)),
        ("device", run.device),
    ]
    if run.environment is None:
        lines.append(("learns from", "recorded data"))
    else:
        lines.append(("environment", environment_text(run.environment)))
    if run.collected is not None:
        lines.append(("file", run.collected))
    lines += [("values", text) for text in run.presets]
    if run.ranks > 1:
        lines.append(("ranks", f"{run.ranks}, which share the copies of the environment"))
    for behavior in run.behaviors[:MOST_BEHAVIORS]:
        lines.append((behavior.name, behavior_text(behavior)))
    more = len(run.behaviors) - MOST_BEHAVIORS
    if more > 0:
        lines.append(("", f"and {counted(more, 'more behavior')}"))
    if run.resume is not None:
        lines.append(("resume", str(run.resume)))
    return lines


def environment_text(environment: EnvironmentDescription) -> str:
    """``gymnasium CartPole-v1, 8 copies in 2 workers (processes)``."""
    text = environment.type
    if environment.id:
        text += f" {environment.id}"
    text += f", {counted(environment.num_envs, 'copy', 'copies')}"
    if environment.workers:
        text += f" in {counted(environment.workers, 'worker')} ({environment.executor})"
    return text


def behavior_text(behavior: BehaviorDescription) -> str:
    """``ppo; 8 agents; observes 4; acts discrete 2; network 2 x 64 tanh, 9,155 parameters; 100,000 steps``."""
    trainer = behavior.trainer
    if behavior.sections:
        trainer += f" with {', '.join(behavior.sections)}"
    parts = [trainer]
    if behavior.agents is not None:
        parts.append(counted(behavior.agents, "agent"))
    shapes = [_by(shape) or "1" for shape in behavior.observations.values()]
    observed = " + ".join(shapes[:MOST_OBSERVATIONS])
    more = len(shapes) - MOST_OBSERVATIONS
    if more > 0:
        observed += f" and {more} more"
    parts.append(f"observes {observed}")
    actions = []
    if behavior.continuous:
        actions.append(f"continuous {behavior.continuous}")
    if behavior.discrete:
        actions.append(f"discrete {_by(behavior.discrete)}")
    parts.append(f"acts {' and '.join(actions) or 'nothing'}")
    if behavior.network is not None:
        parts.append(f"network {behavior.network.layers}, {behavior.network.parameters:,} parameters")
    parts.append("acts without learning" if behavior.max_steps is None else f"{behavior.max_steps:,} steps")
    return "; ".join(parts)


def _by(sizes: Iterable[int]) -> str:
    """``84x84x3``."""
    return "x".join(map(str, sizes))


def _plugins(plugins: Iterable[Plugin]) -> str:
    """``core, ppo (0.1.0), acme-rl/reward (2.1), hooks (local)``: names of rlcore's packages are shortened."""
    names_of: dict[str, list[str]] = {}  # by version

    def rank(plugin: Plugin) -> tuple[bool, bool, str]:
        return not plugin.essential, not plugin.distribution, plugin.label

    for plugin in sorted(plugins, key=rank):
        of_rlcore = plugin.essential or plugin.distribution == f"rlcore-{plugin.name}"
        name = plugin.name if of_rlcore or not plugin.distribution else plugin.label
        version = plugin.version if plugin.distribution else "local"
        names_of.setdefault(version, []).append(name)
    return ", ".join(f"{', '.join(names)} ({version})" for version, names in names_of.items())


# ---------------------------------------------------------------- while it trains


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
    """``running: 1200 steps after 10 s, 99 steps/s lately; the first summary is at step 50000, the end in 0:14:05``."""
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
    left = max(behavior.settings.max_steps - behavior.steps for behavior in learning)
    end = f", the end in {timedelta(seconds=round(left / speed))}" if speed else ""
    return f"{line}; the first summary{of_behavior} is at step {step}{end}"


# ---------------------------------------------------------------- the end


def report_end(run: Run, shorten: ShortPaths) -> int:
    """Prints how a run without an error ended. Returns the exit code."""
    warn(map(shorten, run.failures))
    echo(shorten(closing_line(run)))
    return exit_code(run)


def report_saved(run: Run, shorten: ShortPaths) -> None:
    """Prints what is saved of a run that an error ended between two steps, and how to resume it."""
    if run.outcome == "failed" and run.steps and run.saved_step == run.steps:
        report_end(run, shorten)


def exit_code(run: Run) -> int:
    """The exit code of a run that ended without an error."""
    from rlcore.run.training import STOPPED

    if run.stop is None or run.outcome not in STOPPED:
        return 0
    return run.stop.exit_code


def closing_line(run: Run) -> str:
    """The last line, ``done: 9 steps; Pole mean reward 4.20 of the last 2 episodes; results/p``, and how to resume."""
    from rlcore.run.training import STOPPED

    if run.nothing_left and run.outcome == "done":
        return _nothing_left(run)
    texts = [reward_text(name, behavior) for name, behavior in run.behaviors.items()]
    rewards = ", ".join(texts)
    directory = run.directory.path
    if run.config.checkpoint_settings.inference and run.outcome == "interrupted":  # the normal end of inference
        acted = sum(behavior.inferred for behavior in run.behaviors.values())
        return f"stopped after {acted} steps; {rewards}; {directory}"
    ended = str(run.outcome)
    stop = run.stop if run.outcome in STOPPED else None
    if stop is not None and not stop.by_signal:
        if run.outcome == "interrupted":  # by a plugin, not by Ctrl-C
            ended = "stopped"
        if stop.reason:
            ended += f" ({stop.reason})"
    parts = [f"{run.steps} steps", rewards, *evaluation_texts(run), str(directory)]
    line = f"{ended}: {'; '.join(parts)}"
    return line if run.outcome == "done" else f"{line}; resume with: {resuming(run)}"


def _nothing_left(run: Run) -> str:
    """The last line of a run that had reached its end before it was resumed."""
    if run.scores.stopped:
        assert run.config.evaluation is not None
        stop_at = stop_at_text(run.config.evaluation.stop_at)
        return (
            f"nothing left to learn: evaluation.stop_at {stop_at} is reached, by "
            f"{scored_text(run.scores)} at step {run.scores.step}; raise it with --set evaluation.stop_at=..., or "
            "remove it with --set evaluation.stop_at=null"
        )
    limits: dict[str, None] = {}
    options = []
    for name, behavior in run.behaviors.items():
        limits[str(behavior.settings.max_steps)] = None
        key = dotted(("behaviors", name, "max_steps"))
        options.append("--set " + shlex.quote(f"{key}=..."))
    reached = f"max_steps {', '.join(limits)} is reached"
    return f"nothing left to learn: {reached}; raise it with {' '.join(options)}"


def reward_text(name: str, behavior: TrainedBehavior) -> str:
    """``CartPole mean reward 498.20 of the last 100 episodes``; says so before the first episode ended."""
    mean = behavior.mean_reward
    count = len(behavior.recent)
    if mean is None:
        return f"{name} no mean reward, because no episode has ended"
    if count == behavior.episodes.finished:
        episodes = "the only episode" if count == 1 else f"all {count} episodes"
    else:
        episodes = f"the last {counted(count, 'episode')}"
    return f"{name} mean reward {mean:.2f} of {episodes}"


def evaluation_texts(run: Run) -> list[str]:
    """The scores of the run's evaluations, and whether one of them ended the run, as texts."""
    scores = run.scores
    settings = run.config.evaluation
    if scores.score is None or settings is None:
        return []
    texts = [f"evaluation {scores.score:.2f}, best {scores.best_score:.2f} at step {scores.best_step}"]
    if scores.stopped:
        texts.append(f"stopped at step {scores.step} because stop_at {stop_at_text(settings.stop_at)} was reached")
    return texts


def stop_at_text(stop_at: float | Mapping[str, float] | None) -> str:
    """``475``, or ``is_success 0.9`` for means of numbers that the environment reports."""
    if isinstance(stop_at, Mapping):
        return ", ".join(f"{name} {least:g}" for name, least in stop_at.items())
    return f"{stop_at:g}"


def scored_text(scores: Scores) -> str:
    """``a score of 480.00``, and the latest means of numbers that the environment reports."""
    info = "".join(f", {name} {mean:.2f}" for name, mean in scores.info.items())
    return f"a score of {scores.score:.2f}{info}"


def resuming(run: Run) -> str:
    """The command that resumes a run."""
    settings = run.config.checkpoint_settings
    words = ["rlcore", "run", "--resume", "--run-id", settings.run_id]
    if settings.results_dir != "results":
        words += ["--results-dir", settings.results_dir]
    return shlex.join(words)
