"""The executor ``ray``: an actor for each worker, on this machine or on the hosts of a cluster.

Ray never starts an actor again by itself and never repeats a call: the run supervises its workers. Actions, batches
and results are bytes; large ones are in Ray's object stores.
"""

from __future__ import annotations

import mmap
import pickle
import re
from collections.abc import Collection, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rlcore import Environment, RunContext, one_line
from rlcore_workers import BatchArrays, Layout, PartMessages, Task, Worker, WorkerFailed
from rlcore_workers import create_environment as create_in_workers
from rlcore_workers.ray.actor import PartActor, main_module
from rlcore_workers.ray.room import free_room
from rlcore_workers.ray.session import connection
from rlcore_workers.ray.settings import RaySettings

if TYPE_CHECKING:
    import ray


HOST_LABEL = "ray.io/node-id"  # Ray gives it to every host
FETCH_SECONDS = 60.0  # for the answer of a call that has ended


class RayWorker:
    """A worker in a Ray actor; implements :class:`rlcore_workers.Worker`.

    Attributes:
        actor: The handle of the actor.
        answer: Reference to the answer of the call that was begun.
        silent_host: Ray's identity of the host, if the worker did not answer in time.
    """

    def __init__(self, task: Task, actor: Any, reserved: Collection[str]) -> None:
        """``reserved`` are the names of what Ray reserves for the actor."""
        self.actor = actor
        self._reserved = reserved
        self.answer: ray.ObjectRef[Any]
        self._task = task
        self._messages: PartMessages
        self._place = actor.place.remote()  # ends when Ray has started the actor
        self.silent_host: str | None = None

    def begin(self, method: str, *arguments: Any) -> None:
        """Call a method of the actor, as :meth:`rlcore_workers.Worker.begin` says."""
        if method == "create":
            task = pickle.dumps(self._task)
            self.answer = self.actor.create.remote(task, version("rlcore"), main_module())
        else:
            request = self._messages.request() if method in ("reset", "step") else b""
            self.answer = self.actor.call.remote(method, arguments, request)

    def attach(self, arrays: BatchArrays) -> None:
        """Have the actor make arrays of the same layout."""
        self._messages = PartMessages(arrays, self._task.part)
        self.answer = self.actor.attach.remote(arrays.layout)

    def result(self) -> Any:
        """Return the answer, as :meth:`rlcore_workers.Worker.result` says."""
        import ray

        try:
            answer = ray.get(self.answer, timeout=FETCH_SECONDS)
        except ray.exceptions.RayError as error:
            raise _lost(error) from error
        if isinstance(answer, WorkerFailed):
            raise answer
        result, batches = answer
        if batches:
            self._messages.take(batches)
        # From the run's own actor, by Ray: whoever can forge it can use Ray, and run any code.
        return None if result is None else pickle.loads(result)  # nosec B301

    def overdue(self, doing: str, seconds: float) -> WorkerFailed:
        """Return the error of a call that took too long: where the actor is, or that Ray has no place for it."""
        import ray

        text = f"did not finish {doing} within {seconds:g} s"
        if ray.wait([self._place], timeout=0)[0]:
            try:
                place, self.silent_host = ray.get(self._place)
            except ray.exceptions.RayError as error:
                return _lost(error)
            return WorkerFailed(f"{text}; it is {place}")
        free = free_room(self._reserved)
        return WorkerFailed(f"{text}: Ray has not started it, because {free} is free (environment.workers.cpus)")


def _lost(error: Exception) -> WorkerFailed:
    """The error of a worker whose answer Ray does not have; Ray's own text is in the details."""
    import ray.exceptions

    details = str(error)
    if isinstance(error, ray.exceptions.ActorUnavailableError):
        return WorkerFailed("its process or its host cannot be reached", details, host_lost=True)
    if isinstance(error, ray.exceptions.ActorDiedError):
        code = re.search(r"exit code (\d+)", details)  # Ray has it in the text alone
        if code:
            return WorkerFailed(f"its process ended with exit code {code[1]}", details)
        return WorkerFailed("its process ended, or its host was lost", details, host_lost=True)
    if isinstance(error, ray.exceptions.GetTimeoutError):
        return WorkerFailed(f"its answer did not arrive within {FETCH_SECONDS:g} s", details)
    return WorkerFailed(f"Ray lost its answer: {one_line(error)}", details)


class RayExecutor:
    """Workers that are Ray actors; implements :class:`rlcore_workers.Executor`."""

    def __init__(self, settings: RaySettings) -> None:
        """Connect to Ray. Raises what :meth:`rlcore_workers.ray.session.Connection.open` raises."""
        connection.open(settings)
        import ray

        self._connected = True
        self._reserved = ("CPU", *settings.resources)
        self._workers: set[RayWorker] = set()
        self._silent_hosts: set[str] = set()
        self._actors = ray.remote(PartActor)
        self._options: Mapping[str, Any] = {
            "num_cpus": settings.cpus,
            "resources": dict(settings.resources),
            "max_restarts": 0,
            "max_task_retries": 0,
            "enable_task_events": False,  # Ray would keep an event of every step
        }

    def start(self, task: Task) -> RayWorker:
        """Ask Ray for an actor, as :meth:`rlcore_workers.Executor.start` says."""
        actor = self._actors.options(**self._options, scheduling_strategy=self._scheduling()).remote(task.part)
        worker = RayWorker(task, actor, self._reserved)
        self._workers.add(worker)
        return worker

    def _scheduling(self) -> Any:
        """Spread workers over the hosts; once a host was silent, prefer the others.

        Ray believes for half a minute and more that a host is there which was cut off, and would start actors on it.
        """
        from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy, NotIn

        if not self._silent_hosts:
            return "SPREAD"
        return NodeLabelSchedulingStrategy(hard={}, soft={HOST_LABEL: NotIn(*sorted(self._silent_hosts))})

    def arrays(self, layout: Layout) -> BatchArrays:
        """Return arrays in the memory of the run."""
        return BatchArrays(layout, mmap.mmap(-1, layout.size))

    def attach(self, worker: Worker, arrays: BatchArrays) -> None:
        """Have a worker make arrays of the same layout."""
        assert isinstance(worker, RayWorker)
        worker.attach(arrays)

    def wait(self, workers: Collection[Worker], seconds: float | None) -> list[Worker]:
        """Wait until one of the calls has ended and its answer is on this machine, or its actor is lost."""
        import ray

        of_answer = {worker.answer: worker for worker in workers if isinstance(worker, RayWorker)}
        ready, _ = ray.wait(list(of_answer), num_returns=1, timeout=seconds)
        return [of_answer[answer] for answer in ready]

    def kill(self, worker: Worker) -> None:
        """Have Ray kill the process of a worker and those that it started."""
        import ray

        assert isinstance(worker, RayWorker)
        if worker in self._workers:
            self._workers.remove(worker)
            if worker.silent_host is not None:
                self._silent_hosts.add(worker.silent_host)
            ray.kill(worker.actor)

    def close(self) -> None:
        """Kill all workers, and end the connection to Ray."""
        for worker in list(self._workers):
            self.kill(worker)
        if self._connected:
            self._connected = False
            connection.close()


def create_environment(settings: RaySettings, run: RunContext) -> Environment:
    """Return the environments of ``run`` in Ray actors."""
    return create_in_workers(RayExecutor(settings), settings, run)
