"""The supervision of a run's workers: deadlines, the ends of workers, and how often they are started again.

A worker that fails is killed, and a new one makes its environments and starts the next episode of each. What happens to
the open episodes, and to the environments of other workers, is decided in :mod:`rlcore_workers.environment`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from time import monotonic
from typing import Any

import attrs

from rlcore import EnvironmentFailed, EnvSettings
from rlcore_workers.contract import Executor, Task, Worker, WorkerFailed
from rlcore_workers.settings import WorkerSettings

log = logging.getLogger(__name__)


CLOSE_SECONDS = 4.0  # that closing environments may take, less than a run gives it; the workers are killed then


class WorkerTraceback(Exception):
    """The traceback and the last output of a worker, as the cause of the error of a run; ``--debug`` shows it."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@attrs.define
class Restarts:
    """How often one worker or player was started again, and when.

    Attributes:
        count: Restarts in the whole run.
        times: When the latest ones were, in seconds of the monotonic clock; those before the period are dropped.
    """

    count: int = 0
    times: deque[float] = attrs.field(factory=deque)

    def refused(self, limits: EnvSettings) -> str | None:
        """Return the limit that the next restart would exceed, or None."""
        now = monotonic()
        while self.times and now - self.times[0] > limits.restarts_rate_limit_period_s:
            self.times.popleft()
        if 0 <= limits.max_lifetime_restarts <= self.count:
            return f"env_settings.max_lifetime_restarts is {limits.max_lifetime_restarts}"
        if 0 <= limits.restarts_rate_limit_n <= len(self.times):
            period = limits.restarts_rate_limit_period_s
            return f"env_settings.restarts_rate_limit_n allows {limits.restarts_rate_limit_n} within {period} s"
        return None

    def add(self) -> None:
        """Count a restart that begins now."""
        self.count += 1
        self.times.append(monotonic())


@attrs.define
class Calls:
    """Calls of one method of some workers.

    Attributes:
        method: Name of the method.
        flying: Workers that have not answered: their number, and when they are overdue.
        landed: What workers answered, or how they failed, by number.
    """

    method: str
    flying: dict[Worker, tuple[int, float]] = attrs.field(factory=dict)
    landed: dict[int, Any] = attrs.field(factory=dict)

    def take(self, parts: Iterable[int]) -> tuple[dict[int, Any], dict[int, WorkerFailed]]:
        """Remove what landed of these workers. Return results and failures, by number."""
        results: dict[int, Any] = {}
        failures: dict[int, WorkerFailed] = {}
        for part in list(parts):
            if part not in self.landed:
                continue
            answer = self.landed.pop(part)
            if isinstance(answer, WorkerFailed):
                failures[part] = answer
            else:
                results[part] = answer
        return results, failures


Arguments = Callable[[int], tuple[Any, ...]]
"""The arguments of a call, by the number of the worker."""


def _no_arguments(part: int) -> tuple[Any, ...]:
    return ()


class Supervisor:
    """The workers of a run, by number.

    Attributes:
        workers: The workers that are there, by number.
        restarts: Number of workers that were started again.
        steps: Steps that were sent; :meth:`land` waits for them.
        waited: Seconds that the run waited for its workers.
        close_seconds: How long closing environments may take.
    """

    def __init__(
        self, executor: Executor, tasks: list[Task], settings: WorkerSettings, limits: EnvSettings, named: str
    ) -> None:
        """``named`` is what messages call the environment; ``limits`` has the limits of restarts."""
        self.workers: dict[int, Worker] = {}
        self.restarts = 0
        self.waited = 0.0
        self.steps = Calls("step")
        self._executor = executor
        self._tasks = tasks
        self._settings = settings
        self._limits = limits
        self._named = named
        self._history = [Restarts() for _ in tasks]
        self.close_seconds = CLOSE_SECONDS
        self._seconds: dict[str, float | None] = {
            "create": limits.timeout_wait or None,
            "step": settings.step_timeout,
        }

    @property
    def size(self) -> int:
        """Number of workers, those that were dropped included."""
        return len(self._tasks)

    def start(self, parts: Iterable[int]) -> tuple[dict[int, Any], dict[int, WorkerFailed]]:
        """Start workers and have them make their environments."""
        parts = list(parts)
        refused = {}
        for part in parts:
            try:
                self.workers[part] = self._executor.start(self._tasks[part])
            except WorkerFailed as failure:
                refused[part] = failure
        started = [part for part in parts if part not in refused]
        made, failures = self.call(started, "create")
        return made, {**refused, **failures}

    def start_all(self) -> list[Any]:
        """Start the workers for the first time; return what each has made.

        Starts those again whose host was lost meanwhile, and raises the error of the first that failed otherwise.
        """
        made, failures = self.start(range(self.size))
        while failures and all(failure.host_lost for failure in failures.values()):
            again, dropped = self.recover(failures, "create")
            self.refuse({part: failures[part] for part in dropped}, "create")  # a run begins with all of them
            made_again, failures = self.start(again)
            made |= made_again
        self.refuse(failures, "create")
        return [made[part] for part in range(self.size)]

    def attach(self, parts: Iterable[int], arrays: Any) -> dict[int, WorkerFailed]:
        """Give workers the arrays of the run. Return the failures, by number."""
        calls = Calls("attach")
        self._begin(calls, parts, lambda worker, part: self._executor.attach(worker, arrays))
        _, failures = self._landed(calls)
        return failures

    def call(
        self, parts: Iterable[int], method: str, arguments: Arguments = _no_arguments
    ) -> tuple[dict[int, Any], dict[int, WorkerFailed]]:
        """Call a method of the parts of these workers, side by side. Return results and failures, by number."""
        calls = Calls(method)
        self._begin(calls, parts, lambda worker, part: worker.begin(method, *arguments(part)))
        return self._landed(calls)

    def send(self, parts: Iterable[int], arguments: Arguments) -> None:
        """Have these workers step; :meth:`land` waits for them."""
        self._begin(self.steps, parts, lambda worker, part: worker.begin("step", *arguments(part)))

    def land(self, enough: Callable[[], bool] | None = None) -> None:
        """Wait until ``enough`` is true of what landed, or all workers that step have answered, died or are overdue."""
        self._wait(self.steps, enough)

    def _begin(self, calls: Calls, parts: Iterable[int], begin: Callable[[Worker, int], None]) -> None:
        seconds = self._limit(calls)
        overdue = inf if seconds is None else monotonic() + seconds
        for part in parts:
            worker = self.workers[part]
            try:
                begin(worker, part)
            except WorkerFailed as failure:
                calls.landed[part] = failure
            else:
                calls.flying[worker] = (part, overdue)

    def _limit(self, calls: Calls) -> float | None:
        """The seconds that calls may take; None for no limit. Those that save or load a state may take as a reset."""
        return self._seconds.get(calls.method, self._settings.reset_timeout)

    def _landed(self, calls: Calls) -> tuple[dict[int, Any], dict[int, WorkerFailed]]:
        self._wait(calls)
        return calls.take(calls.landed)

    def _wait(self, calls: Calls, enough: Callable[[], bool] | None = None) -> None:
        flying = calls.flying
        started = monotonic()
        try:
            while flying and (enough is None or not enough()):
                first = min(overdue for _, overdue in flying.values())
                seconds = None if first == inf else max(0.0, first - monotonic())
                if not self._receive(calls, flying, seconds):
                    self._give_up(calls)
            if flying:  # enough have answered; one of the others may be overdue all the same
                self._give_up(calls)
        except BaseException:  # Ctrl-C in a program: an answer may be half read, or taken for that of another call
            for part, _ in list(flying.values()):
                self.kill(part)
            raise
        self.waited += monotonic() - started

    def _receive(self, calls: Calls, workers: Collection[Worker], seconds: float | None) -> bool:
        """Receive answers of these workers as soon as there are some; return whether there were."""
        ready = self._executor.wait(workers, seconds)
        for worker in ready:
            part = calls.flying[worker][0]
            try:
                calls.landed[part] = worker.result()
            except WorkerFailed as failure:
                calls.landed[part] = failure
            del calls.flying[worker]
        return bool(ready)

    def _give_up(self, calls: Calls) -> None:
        """Stop waiting for workers that are overdue, unless their answers are there."""
        now = monotonic()
        seconds = self._limit(calls) or 0.0
        late = _overdue(calls, now)
        while late and self._receive(calls, late, 0.0):
            late = _overdue(calls, now)
        for worker in late:
            part, _ = calls.flying.pop(worker)
            calls.landed[part] = worker.overdue(calls.method, seconds)

    def recover(self, failures: Mapping[int, WorkerFailed], doing: str) -> tuple[list[int], list[int]]:
        """Kill workers that failed. Return those to start again, and those to do without.

        Raises the error of the run if a worker must not be started again.
        """
        try:
            # What happens is said first: to kill a worker on a host that was cut off may take Ray long.
            return self._decide(failures, doing)
        finally:
            for part in failures:  # all of them: one that hangs must not get another call
                self.kill(part)

    def _decide(self, failures: Mapping[int, WorkerFailed], doing: str) -> tuple[list[int], list[int]]:
        """Return which workers to start again, and which to do without, and say so."""
        again: list[int] = []
        dropped: list[int] = []
        left = len(self.workers.keys() - failures.keys())
        for part, failure in sorted(failures.items()):
            if failure.final and failure.raised is not None:  # another start would not help
                raise failure.raised from WorkerTraceback(failure.details)
            policy = self._settings.on_failure
            refused = self._history[part].refused(self._limits)
            text = f"{self._called(part)} failed in {doing}: {failure}"
            if policy == "fail":
                raise self._error(text, failure)
            if refused is None:
                log.warning("%s; it is started again, and its open episodes are dropped", text)
                log.debug("%s", failure.details)
                self._history[part].add()
                self.restarts += 1
                again.append(part)
            elif policy == "drop" and left >= self._settings.min_workers:
                log.warning("%s; the run continues without it, because %s", text, refused)
                dropped.append(part)
            else:
                raise self._error(f"{text}; it is not started again, because {refused}", failure)
        return again, dropped

    def _called(self, part: int) -> str:
        task = self._tasks[part]
        environments = f"environment {task.first}"
        if task.count > 1:
            environments = f"environments {task.first} to {task.first + task.count - 1}"
        return f"{self._named}: worker {part} ({environments})"

    def _error(self, text: str, failure: WorkerFailed) -> EnvironmentFailed:
        error = EnvironmentFailed(text)
        if failure.details:
            error.repeats_cause = True
            error.__cause__ = WorkerTraceback(failure.details)
        return error

    def refuse(self, failures: Mapping[int, WorkerFailed], doing: str) -> None:
        """Raise the error of the first worker that failed, if one did, as one process would."""
        for part, failure in sorted(failures.items()):
            if failure.raised is not None:
                raise failure.raised from WorkerTraceback(failure.details)
            raise self._error(f"{self._called(part)} failed in {doing}: {failure}", failure)

    def kill(self, part: int) -> None:
        """Kill a worker, if it is there."""
        worker = self.workers.pop(part, None)
        self.steps.landed.pop(part, None)  # of a worker that answered a step, and failed in a later call
        if worker is not None:
            self.steps.flying.pop(worker, None)
            self._executor.kill(worker)

    def close(self) -> None:
        """Close the environments, as far as workers still answer, and kill all workers."""
        self._seconds["close"] = self.close_seconds
        try:
            # Steps that are open have as long as closing: a run that ends does not wait for step_timeout.
            soon = monotonic() + CLOSE_SECONDS
            for worker, (part, overdue) in self.steps.flying.items():
                self.steps.flying[worker] = (part, min(soon, overdue))
            self.land()
            _, failures_of_steps = self.steps.take(range(self.size))
            for part in failures_of_steps:
                self.kill(part)
            _, failures = self.call(list(self.workers), "close")
        finally:
            self.workers.clear()
            self._executor.close()
        self.refuse(failures, "close")


def _overdue(calls: Calls, now: float) -> list[Worker]:
    """The workers that should have answered by ``now``."""
    return [worker for worker, (_, overdue) in calls.flying.items() if overdue <= now]
