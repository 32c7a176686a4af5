"""The supervisor says which worker failed before it kills it: an executor may take long to reach the worker's host."""

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
