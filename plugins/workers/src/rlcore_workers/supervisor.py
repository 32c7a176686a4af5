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
    """How often one worker was started again, and when."""

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
        self.count += 1
        self.times.append(monotonic())


class Supervisor:
    """The workers of a run, by number.

    Attributes:
        workers: The workers that are there, by number.
        restarts: Number of workers that were started again.
        flying: Workers that were sent a step and have not answered: their number, and when they are overdue.
        landed: What workers answered to a step, or how they failed, by number; until :meth:`take` is called.
        waited: Seconds that the run waited for its workers.
    """

    def __init__(
        self, executor: Executor, tasks: list[Task], settings: WorkerSettings, limits: EnvSettings, named: str
    ) -> None:
        """``named`` is what messages call the environment; ``limits`` has the limits of restarts."""
        self.workers: dict[int, Worker] = {}
        self.restarts = 0
        self.waited = 0.0
        self.flying: dict[Worker, tuple[int, float]] = {}
        self.landed: dict[int, Any] = {}
        self._executor = executor
        self._tasks = tasks
        self._settings = settings
        self._limits = limits
        self._named = named
        self._history = [Restarts() for _ in tasks]
        self._deadlines: dict[str, float | None] = {
            "create": limits.timeout_wait or None,
            "step": settings.step_timeout,
            "close": CLOSE_SECONDS,
        }

    @property
    def size(self) -> int:
        """Number of workers, those that were dropped included."""
        return len(self._tasks)

    def call(
        self, parts: Iterable[int], method: str, arguments: Callable[[int], tuple[Any, ...]] | None = None
    ) -> tuple[dict[int, Any], dict[int, WorkerFailed]]:
        """Call a method of the parts of these workers, side by side. Return results and failures, by number."""

        def begin(worker: Worker, part: int) -> None:
            worker.begin(method, *(() if arguments is None else arguments(part)))

        return self._together(parts, method, begin)

    def send(self, parts: Iterable[int], arguments: Callable[[int], tuple[Any, ...]] | None = None) -> None:
        """Have these workers step; :meth:`land` waits for them."""
        seconds = self._deadlines["step"]
        overdue = inf if seconds is None else monotonic() + seconds
        for part in parts:
            worker = self.workers[part]
            try:
                worker.begin("step", *(() if arguments is None else arguments(part)))
            except WorkerFailed as failure:
                self.landed[part] = failure
            else:
                self.flying[worker] = (part, overdue)

    def land(self, enough: Callable[[], bool] | None = None) -> None:
        """Wait until ``enough`` is true of what landed, or all workers that step have answered, died or are overdue."""
        flying, started = self.flying, monotonic()
        try:
            while flying and (enough is None or not enough()):
                first = min(overdue for _, overdue in flying.values())
                if not self._receive(flying, None if first == inf else max(0.0, first - monotonic())):
                    self._give_up()
            if flying:
                self._give_up()
        except BaseException:  # Ctrl-C in a program: an answer may be half read
            for part, _ in list(flying.values()):
                self.kill(part)
            raise
        self.waited += monotonic() - started

    def take(self, parts: Iterable[int] | None = None) -> tuple[dict[int, Any], dict[int, WorkerFailed]]:
        """Remove what landed, of these workers or of all. Return results and failures, by number."""
        landed = self.landed
        if parts is None:
            self.landed = {}
        else:
            landed = {part: landed.pop(part) for part in parts if part in landed}
        failures = {part: answer for part, answer in landed.items() if isinstance(answer, WorkerFailed)}
        return {part: answer for part, answer in landed.items() if part not in failures}, failures

    def _receive(self, workers: Collection[Worker], seconds: float | None) -> bool:
        """Receive answers of workers that step, as soon as there are some; return whether there were."""
        ready = self._executor.wait(workers, seconds)
        for worker in ready:
            part = self.flying[worker][0]
            try:
                self.landed[part] = worker.result()
            except WorkerFailed as failure:
                self.landed[part] = failure
            del self.flying[worker]
        return bool(ready)

    def _give_up(self) -> None:
        """Stop waiting for workers that are overdue, unless their answers are there."""
        now = monotonic()
        while late := [worker for worker, (_, overdue) in self.flying.items() if overdue <= now]:
            if not self._receive(late, 0.0):
                for worker in late:
                    part = self.flying.pop(worker)[0]
                    self.landed[part] = worker.overdue("step", self._deadlines["step"] or 0.0)

    def attach(self, parts: Iterable[int], arrays: Any) -> dict[int, WorkerFailed]:
        """Give workers the arrays of the run. Return the failures, by number."""
        return self._together(parts, "attach", lambda worker, part: self._executor.attach(worker, arrays))[1]

    def start(self, parts: Iterable[int]) -> tuple[dict[int, Any], dict[int, WorkerFailed]]:
        """Start workers and have them make their environments."""
        parts, refused = list(parts), {}
        for part in parts:
            try:
                self.workers[part] = self._executor.start(self._tasks[part])
            except WorkerFailed as failure:
                refused[part] = failure
        made, failures = self.call([part for part in parts if part not in refused], "create")
        return made, {**refused, **failures}

    def _together(
        self, parts: Iterable[int], method: str, begin: Callable[[Worker, int], None]
    ) -> tuple[dict[int, Any], dict[int, WorkerFailed]]:
        """``begin`` a call of each worker, and wait until every one has answered, died or missed the deadline."""
        results: dict[int, Any] = {}
        failures: dict[int, WorkerFailed] = {}
        waiting: dict[Worker, int] = {}
        for part in parts:
            worker = self.workers[part]
            try:
                begin(worker, part)
                waiting[worker] = part
            except WorkerFailed as failure:
                failures[part] = failure
        seconds = self._deadlines.get(method, self._settings.reset_timeout)
        started = monotonic()
        try:
            while waiting:
                left = None if seconds is None else max(0.0, started + seconds - monotonic())
                ready = self._executor.wait(waiting.keys(), left)
                for worker in ready:
                    part = waiting.pop(worker)
                    try:
                        results[part] = worker.result()
                    except WorkerFailed as failure:
                        failures[part] = failure
                if not ready and seconds is not None and monotonic() - started >= seconds:
                    for worker, part in waiting.items():
                        failures[part] = worker.overdue(method, seconds)
                    break
        except BaseException:  # Ctrl-C in a program: their answers would be taken for those of another call
            for part in waiting.values():
                self.kill(part)
            raise
        self.waited += monotonic() - started
        return results, failures

    def recover(self, failures: Mapping[int, WorkerFailed], doing: str) -> tuple[list[int], list[int]]:
        """Kill workers that failed. Return those to start again, and those to do without.

        Raises the error of the run if a worker must not be started again.
        """
        again: list[int] = []
        dropped: list[int] = []
        for part in failures:  # all of them first: one that hangs must not get another call
            self.kill(part)
        for part, failure in sorted(failures.items()):
            if failure.final and failure.raised is not None:
                raise failure.raised from WorkerTraceback(failure.details)
            policy, refused = self._settings.on_failure, self._history[part].refused(self._limits)
            text = f"{self._called(part)} failed in {doing}: {failure}"
            if policy == "fail":
                raise self._error(text, failure)
            if refused is None:
                log.warning("%s; it is started again, and its open episodes are dropped", text)
                log.debug("%s", failure.details)
                self._history[part].add()
                self.restarts += 1
                again.append(part)
            elif policy == "drop" and len(self.workers) >= self._settings.min_workers:
                log.warning("%s; the run continues without it, because %s", text, refused)
                dropped.append(part)
            else:
                raise self._error(f"{text}; it is not started again, because {refused}", failure)
        return again, dropped

    def _called(self, part: int) -> str:
        task = self._tasks[part]
        last = task.first + task.count - 1
        which = f"environment {task.first}" if task.count == 1 else f"environments {task.first} to {last}"
        return f"{self._named}: worker {part} ({which})"

    def _error(self, text: str, failure: WorkerFailed) -> EnvironmentFailed:
        error = EnvironmentFailed(text)
        error.repeats_cause = bool(failure.details)
        error.__cause__ = WorkerTraceback(failure.details) if failure.details else None
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
        self.landed.pop(part, None)
        if worker is not None:
            self.flying.pop(worker, None)
            self._executor.kill(worker)

    def close(self) -> None:
        """Close the environments, as far as workers still answer, and kill all workers."""
        try:
            soon = monotonic() + CLOSE_SECONDS
            self.flying = {worker: (part, min(soon, overdue)) for worker, (part, overdue) in self.flying.items()}
            self.land()
            for part in self.take()[1]:
                self.kill(part)
            _, failures = self.call(list(self.workers), "close")
        finally:
            self.workers.clear()
            self._executor.close()
        self.refuse(failures, "close")
