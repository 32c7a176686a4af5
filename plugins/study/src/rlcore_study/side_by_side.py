"""Runs several ``rlcore run`` processes side by side: progress lines, one Ctrl-C for all, and resumes after kills.

A run belongs to the process that started it. When that process gets SIGINT, SIGTERM, SIGHUP or another signal that the
configuration names, all runs get it too, and each saves a checkpoint; at the second one, all end at once. If that
process is killed, each run saves a checkpoint and ends by itself (:mod:`rlcore_study.child`). Nothing but the run
directories remembers which runs there were.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import Any, Literal

import attrs

from rlcore import CheckpointSettings, RunConfig, echo, find_checkpoints, is_locked, python_command
from rlcore_study.lines import Lines, Summaries

LOOK_SECONDS = 0.1
LOCK_SECONDS = 120.0  # for the runs of an earlier process, which was killed, to save their checkpoints
TWICE_SECONDS = 0.5  # a signal repeated within these seconds counts as one, as in a run
AUTO = "auto"
STOPS = CheckpointSettings().signals()  # of a configuration that names no others


@attrs.frozen
class Job:
    """A run that is to be started, or continued.

    Attributes:
        run_id: The name of the run, for its line.
        directory: The run directory.
        words: The words after ``rlcore run``, without ``--resume``.
        resume: Whether the run is continued if it has a checkpoint. Without one, it starts from the beginning. With
            ``"auto"``, the process of the run decides.
        new: The words for a start from the beginning, if they are others.
        steps: Agent steps that all behaviors are to learn together; 0 if that is not known.
        wait: Seconds to wait for another process of the run to end.
    """

    run_id: str
    directory: Path
    words: tuple[str, ...]
    resume: bool | Literal["auto"] = False
    new: tuple[str, ...] | None = None
    steps: int = 0
    wait: float = LOCK_SECONDS


@attrs.frozen
class Ended:
    """A run whose process has ended.

    Attributes:
        job: The run.
        code: The exit code; 128 + N for a process that was killed by signal N.
        error: The error that the process printed, or its last line; empty if it printed none.
        seconds: The time that the process took.
        interrupted: Whether a signal ended it that has a run save a checkpoint.
    """

    job: Job
    code: int
    error: str
    seconds: float
    interrupted: bool

    @property
    def killed(self) -> bool:
        """Whether another signal ended it."""
        return self.code > 128 and not self.interrupted

    @property
    def text(self) -> str:
        """The end in words, such as ``failed after 9.3 s: ...``."""
        after = f"after {self.seconds:.1f} s"
        if self.code == 0:
            return f"done {after}"
        if self.interrupted:
            return f"interrupted {after}"
        if self.killed:
            with suppress(ValueError):
                return f"killed by {signal.Signals(self.code - 128).name} {after}"
        return f"failed {after}: {self.error or f'exit code {self.code}'}"


def cores() -> int:
    """The number of processors that this process may use."""
    with suppress(AttributeError):  # of systems without affinities
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def steps_of(config: RunConfig) -> int:
    """The agent steps of all behaviors in a run of this configuration."""
    return sum(behavior.max_steps for behavior in config.behaviors.values())


def has_checkpoint(directory: Path) -> bool:
    """Whether a run in ``directory`` can be continued."""
    return bool(find_checkpoints(directory / "checkpoints"))


class Process:
    """A process of ``rlcore run``, which saves a checkpoint and ends when this process ends.

    Attributes:
        begun: The time of its start.
        error: The error that it printed, or else the last line that it printed to standard error.
    """

    def __init__(self, words: Sequence[str], limits: Mapping[str, str], say: Callable[[str], None]) -> None:
        """``say`` is called with each line that is not an error."""
        self.begun = monotonic()
        self.error = ""
        self._last = ""
        self._say = say
        self._popen = subprocess.Popen(
            python_command("-m", "rlcore_study.child", "run", *words),
            stdin=subprocess.PIPE,  # closed when this process ends, however it ends
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**limits, **os.environ},
            start_new_session=True,  # Ctrl-C reaches it through this process
        )
        self._reader = threading.Thread(target=self._read_errors, args=(self._popen.stderr,), daemon=True)
        self._reader.start()

    def _read_errors(self, stream: Any) -> None:
        for line in stream:
            text = line.decode("utf-8", "replace").rstrip()
            self._last = text or self._last
            if text.lower().startswith("error: "):
                self.error = text[len("error: ") :]
            elif text and not text.startswith("stopping: "):
                self._say(text)

    def send(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        with suppress(ProcessLookupError):
            self._popen.send_signal(number)

    def code(self) -> int | None:
        """The exit code, 128 + N for signal N; None while the process is going on."""
        code = self._popen.poll()
        if code is None:
            return None
        self._reader.join(timeout=5.0)  # a worker that is left over may hold the other end
        self.close()
        if code and not self.error:
            self.error = self._last
        return 128 - code if code < 0 else code

    def close(self) -> None:
        """Let the process save a checkpoint and end, as after the end of this one."""
        assert self._popen.stdin is not None
        self._popen.stdin.close()

    def wait(self) -> None:
        """Wait for the end."""
        self._popen.wait()
        self._reader.join(timeout=5.0)


class Running:
    """A run that is going on.

    Attributes:
        job: The run.
        summaries: The steps and the latest values that the run has written.
    """

    def __init__(
        self, job: Job, say: Callable[[str], None], alone: bool = True, signals: Mapping[int, bool] = STOPS
    ) -> None:
        """``signals`` have the run save a checkpoint; each with whether the run then ends."""
        self.job = job
        self._codes = {128 + number for number, ends in signals.items() if ends}
        # Runs side by side have the cores for themselves, one each; OpenMP reads this, and rlcore-torch.
        self._limits = {} if alone else {"OMP_THREAD_LIMIT": "1"}
        self.summaries = Summaries(job.directory)
        self._say = say
        self._asked = monotonic()
        self._process: Process | None = None

    @property
    def waits(self) -> bool:
        """Whether the process is not started yet, because another one is still writing to the run directory."""
        if self._process is not None or monotonic() - self._asked >= self.job.wait:
            return False
        return is_locked(self.job.directory)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to the run; the first SIGINT or SIGTERM makes it save a checkpoint and end."""
        if self._process is not None:
            self._process.send(number)

    def start(self) -> None:
        """Start the process. Later calls do nothing."""
        if self._process is not None:
            return
        job = self.job
        words = job.words
        if job.resume == AUTO:
            words = (f"--resume={AUTO}", *words)
        elif job.resume and has_checkpoint(job.directory):
            words = ("--resume", *words)
        else:
            self.summaries.ignore_present()
            words = words if job.new is None else job.new
        self._process = Process(words, self._limits, self._say)

    def ended(self) -> Ended | None:
        """How the process has ended; None while it is going on."""
        if self._process is None:
            return None
        code = self._process.code()
        if code is None:
            return None
        seconds = monotonic() - self._process.begun
        return Ended(self.job, code, self._process.error, seconds, code in self._codes)

    def close(self) -> None:
        """Let the run save a checkpoint and end, and wait for it."""
        if self._process is not None:
            self._process.close()
            self._process.wait()


def side_by_side(
    jobs: Iterable[Job | None],
    at_once: int,
    ended: Callable[[Ended], None] = lambda run: None,
    look: Callable[[Running], None] = lambda run: None,
    signals: Mapping[int, bool] = STOPS,
) -> int | None:
    """Run ``jobs``, at most ``at_once`` at a time, until all have ended.

    A job is taken from ``jobs`` when there is room for it, so that an iterator may choose it by the results of earlier
    ones; it yields None while it cannot choose yet. ``ended`` is called with each run that has ended, and
    ``look`` several times a second with each run that is going on; it may stop it. A run that fails does not stop
    others. ``signals`` are passed on to all runs, each with whether they then end. Returns the number of the
    signal that ended all runs; None if none did. Call it in the main thread.
    """
    waiting = iter(jobs)
    left = True
    running: list[Running] = []
    seen: set[str] = set()
    with Lines() as lines:

        def say(text: str, run: str) -> None:
            if text not in seen:  # a warning that all runs print is printed once
                seen.add(text)
                lines.say(f"{run}  {text}")

        with _forwarded(running, signals) as received:
            stopping = False
            try:
                while left or running:
                    while left and not received and len(running) < at_once:
                        job = next(waiting, _NONE_LEFT)
                        left = job is not _NONE_LEFT
                        if not isinstance(job, Job):
                            break
                        running.append(_begin(job, lines, say, at_once == 1, signals))
                    if received and not stopping:
                        lines.say("stopping: the runs save a checkpoint; a second Ctrl-C or SIGTERM ends them at once")
                        stopping = True
                        left = False
                    for run in list(running):
                        _look(run, running, lines, stopping, ended, look)
                    sleep(LOOK_SECONDS)
            finally:  # after an error in a function of the caller
                for run in running:
                    run.close()
    return received[0] if received else None


_NONE_LEFT = object()


def _begin(
    job: Job, lines: Lines, say: Callable[[str, str], None], alone: bool, signals: Mapping[int, bool]
) -> Running:
    run = Running(job, lambda text: say(text, job.run_id), alone, signals)
    text = "waits for another process of this run to end" if run.waits else ""
    lines.start(job.run_id, job.steps, text)
    return run


def _look(
    run: Running,
    running: list[Running],
    lines: Lines,
    stopping: bool,
    ended: Callable[[Ended], None],
    look: Callable[[Running], None],
) -> None:
    """Start the run if it can be started, show what is new, and say how it has ended."""
    job = run.job
    if run.waits:
        if stopping:
            running.remove(run)
            lines.end(job.run_id, "not started")
        return
    if not stopping:
        run.start()
    if run.summaries.read():
        lines.show(job.run_id, run.summaries.steps, job.steps, run.summaries.text)
    end = run.ended()
    if end is None:
        look(run)
    else:
        running.remove(run)
        lines.end(job.run_id, end.text)
        ended(end)


@contextmanager
def _forwarded(running: Sequence[Running], signals: Mapping[int, bool]) -> Iterator[list[int]]:
    """Send signals that this process gets to all runs. The list that is yielded has the first one that ends them.

    A signal that was ignored before stays ignored, as in a run.
    """
    received: list[int] = []
    times: list[float] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if not signals[number]:
            pass  # each run saves a checkpoint and continues
        elif not received:
            received.append(number)
            times.append(monotonic())
        elif number not in (signal.SIGINT, signal.SIGTERM) or monotonic() - times[0] < TWICE_SECONDS:
            return
        for run in list(running):
            run.stop(number)

    handlers = {}
    for number in signals:
        handler = signal.getsignal(number)
        if number == signal.SIGTERM and handler == signal.SIG_IGN:
            echo("warning: SIGTERM has no effect: the process that started this one ignores it", err=True)
        if handler not in (signal.SIG_IGN, None):
            handlers[number] = handler
            signal.signal(number, handle)
    try:
        yield received
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
