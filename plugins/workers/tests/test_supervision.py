"""The supervisor says which worker failed before it kills it, and starts workers again whose hosts were lost."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from rlcore import EnvironmentFailed, EnvSettings
from rlcore_workers import WorkerFailed
from rlcore_workers.contract import Task
from rlcore_workers.settings import WorkerSettings
from rlcore_workers.supervisor import Supervisor


class LostHosts:
    """An executor that notes what had been said when it was asked to kill a worker."""

    def __init__(self, log: pytest.LogCaptureFixture) -> None:
        self.killed: list[tuple[object, str]] = []
        self._log = log

    def kill(self, worker: object) -> None:
        self.killed.append((worker, self._log.text))


def supervisor(executor: Any, count: int, **settings: Any) -> Supervisor:
    tasks: list[Any] = [Task.__new__(Task) for _ in range(count)]
    for part, task in enumerate(tasks):
        object.__setattr__(task, "first", part)
        object.__setattr__(task, "count", 1)
    made = Supervisor(
        executor, tasks, WorkerSettings(count=count, **settings), EnvSettings(restarts_rate_limit_n=1), "it"
    )
    made.workers = {part: f"worker {part}" for part in range(count)}  # type: ignore[misc]
    return made


def test_a_worker_is_named_before_it_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    hosts = LostHosts(caplog)
    made = supervisor(hosts, 3)
    overdue = WorkerFailed("did not finish step within 10 s; it is process 7 on host2")
    assert made.recover({1: overdue}, "step") == ([1], [])
    assert [worker for worker, _ in hosts.killed] == ["worker 1"]
    assert "it: worker 1 (environment 1) failed in step: " in hosts.killed[0][1]
    assert "on host2; it is started again" in hosts.killed[0][1]
    with pytest.raises(EnvironmentFailed, match="restarts_rate_limit_n"):
        made.recover({0: overdue, 1: overdue}, "step")
    assert "worker 0" in [worker for worker, _ in hosts.killed], "it is killed although another ends the run"


def test_workers_that_failed_do_not_count_among_those_that_are_left(caplog: pytest.LogCaptureFixture) -> None:
    made = supervisor(LostHosts(caplog), 3, on_failure="drop", min_workers=2)
    failure = WorkerFailed("its process ended")
    assert made.recover({1: failure}, "step") == ([1], [])
    made.workers[1] = "worker 1"  # type: ignore[assignment]
    assert made.recover({1: failure}, "step") == ([], [1])
    assert made.recover({0: failure}, "step") == ([0], [])
    made.workers[0] = "worker 0"  # type: ignore[assignment]
    with pytest.raises(EnvironmentFailed, match="not started again"):
        made.recover({0: failure}, "step")


class Answering:
    """A worker that answers at once."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def begin(self, method: str, *arguments: Any) -> None:
        assert method == "create"

    def result(self) -> object:
        if isinstance(self._answer, WorkerFailed):
            raise self._answer
        return self._answer


class Starts(LostHosts):
    """An executor whose starts of each worker end as listed."""

    def __init__(self, log: pytest.LogCaptureFixture, *answers: list[object]) -> None:
        super().__init__(log)
        self._answers = dict(enumerate(answers))

    def start(self, task: Task) -> Answering:
        return Answering(self._answers[task.first].pop(0))

    def wait(self, workers: Any, seconds: float | None) -> list[Any]:
        return list(workers)


def test_a_worker_whose_host_is_lost_before_it_has_begun_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    lost = WorkerFailed("its process ended, or its host was lost", host_lost=True)
    crashed = WorkerFailed("its process ended with exit code 1")
    assert supervisor(Starts(caplog, ["a"], [lost, "b"]), 2).start_all() == ["a", "b"]
    with pytest.raises(EnvironmentFailed, match=r"worker 1 .* exit code 1"):
        supervisor(Starts(caplog, ["a"], [crashed, "b"]), 2).start_all()
    with pytest.raises(EnvironmentFailed, match=r"worker 0 .* exit code 1"):
        supervisor(Starts(caplog, [crashed], [lost, "b"]), 2).start_all()
    with pytest.raises(EnvironmentFailed, match="restarts_rate_limit_n"):
        supervisor(Starts(caplog, ["a"], [lost, lost, "b"]), 2).start_all()
    with pytest.raises(EnvironmentFailed, match="its host was lost"):
        supervisor(Starts(caplog, ["a"], [lost, lost, "b"]), 2, on_failure="drop", min_workers=1).start_all()
