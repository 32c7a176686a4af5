"""Actors return errors, and refuse other versions of rlcore; ranks and players start again. No test starts Ray."""

from __future__ import annotations

import importlib
import pickle
import signal
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest

from rlcore import ConfigError, EnvironmentFailed
from rlcore_workers import WorkerFailed
from rlcore_workers.ray import playing
from rlcore_workers.ray.actor import PartActor
from rlcore_workers.ray.executor import RayExecutor, RayWorker
from rlcore_workers.ray.playing import Playing, PlayingJob
from rlcore_workers.ray.ranks import Rank, RankJob
from rlcore_workers.ray.session import LOCAL_ONLY
from rlcore_workers.ray.settings import RaySettings
from rlcore_workers.ray.terminal import noted_signals

pytestmark = pytest.mark.smoke


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, imported as a run would: tests of this process that start Ray need it so."""
    for name, value in LOCAL_ONLY.items():
        monkeypatch.setenv(name, value)
    return importlib.import_module("ray")


def test_hosts_need_the_same_version_of_rlcore(tmp_path: Path) -> None:
    failure = PartActor(0).create(b"never read", "99.0", {"dir": str(tmp_path)})
    sent = pickle.loads(pickle.dumps(failure))
    assert isinstance(sent, WorkerFailed) and sent.final and isinstance(sent.raised, ConfigError)
    assert "the run has rlcore 99.0; install the same version" in str(sent)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_signals_of_a_terminal_and_of_batch_systems_are_for_the_ranks() -> None:
    sent = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU]
    before = list(map(signal.getsignal, sent))
    with noted_signals() as noted:
        for number in sent:
            signal.raise_signal(number)
    assert noted == sent
    assert list(map(signal.getsignal, sent)) == before


@pytest.mark.parametrize("method", ["attach", "call"])
def test_errors_are_answers(method: str) -> None:
    arguments = {"attach": (None,), "call": ("close", (), b"")}[method]
    failure = getattr(PartActor(0), method)(*arguments)
    assert isinstance(failure, WorkerFailed) and "AttributeError" in str(failure) and failure.details


@pytest.fixture
def address() -> Iterator[str]:
    """Where something listens, as a run does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


NOT_THERE = "127.0.0.1:1"
LOST = "the process or its host was lost"


class Killed(RankJob):
    """A job whose second rank is killed in every attempt."""

    lost_head: str | None = None

    def _attempt(self, *given: Any) -> tuple[list[Rank], str | None]:
        ended = [Rank(None, None, -9, killed=True), Rank(None, None, -9)]  # type: ignore[arg-type]
        return ended, self.lost_head


def test_ranks_start_again_as_often_as_the_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert Killed(2, {}, 1.0, max_restarts=2).run([]) == 128 + 9
    again = [f"; all ranks start again (restarts left: {left})" for left in (1, 0)]
    assert capsys.readouterr().err.splitlines() == [f"rank 1 ended (signal 9){more}" for more in (*again, "")]


def test_ranks_do_not_start_again_without_the_head_of_ray(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Killed, "lost_head", "10.0.0.7:6379")
    assert Killed(2, {}, 1.0, max_restarts=2).run([]) == 128 + 9
    assert capsys.readouterr().err == (
        "rank 1 ended (signal 9); the ranks cannot start again, because Ray's head at 10.0.0.7:6379 does not answer: "
        "start Ray again on all hosts, then this command with --resume\n"
    )


@pytest.mark.parametrize(
    ("codes", "code", "lines"),
    [
        ([0], 0, []),
        ([-9, 0], 0, [f"{LOST}; it is started again (restarts left: 1)"]),
        ([3, 0], 0, ["it ended with exit code 3; it is started again (restarts left: 1)"]),
        ([2], 2, ["it ended with exit code 2"]),
        (
            [-9, 3, -15],
            143,
            [
                f"{LOST}; it is started again (restarts left: 1)",
                "it ended with exit code 3; it is started again (restarts left: 0)",
                LOST,
            ],
        ),
    ],
)
def test_a_player_is_started_again_if_it_was_lost_or_gave_the_run_up(
    codes: list[int],
    code: int,
    lines: list[str],
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ends = iter(codes)
    monkeypatch.setattr(Playing, "_played", lambda self, arguments: next(ends))
    player = Playing(1, PlayingJob(2, {}, 2), signals=[])
    player.play([address])
    assert player.code == code and not list(ends)
    assert capsys.readouterr().err.splitlines() == [f"process 1 of 2: {line}" for line in lines]


@pytest.mark.parametrize("run", [NOT_THERE, "--token-file"])
def test_a_player_that_gave_the_run_up_is_not_started_again_where_no_run_listens(
    run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Playing, "_played", lambda self, arguments: 3)
    player = Playing(1, PlayingJob(1, {}, 2), signals=[])
    player.play([run])
    assert player.code == 3
    assert capsys.readouterr().err == "process 1 of 1: it ended with exit code 3\n"


@pytest.mark.parametrize(("others", "code"), [([0], 0), ([0, 2], 2), ([], 3)])
def test_a_lost_player_waits_for_room_only_while_the_run_listens(
    others: list[int], code: int, ray: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others ended by themselves, or there are none."""
    monkeypatch.setattr(playing, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(playing, "free_room", lambda reserved: "0 of 1 CPU")
    monkeypatch.setattr(ray, "wait", lambda references, timeout: ([], references))
    starts = Counter[int]()

    def played(self: Playing, arguments: Sequence[str]) -> int:
        starts[self.number] += 1
        if self.number <= len(others):
            return others[self.number - 1]
        if starts[self.number] == 1:
            return -signal.SIGKILL
        self._placed(None, arguments[0])
        raise AssertionError("it has no place")

    monkeypatch.setattr(Playing, "_played", played)
    assert PlayingJob(len(others) + 1, {}, 2).run([NOT_THERE]) == code
    assert f"is not started again: nothing answers at {NOT_THERE}" in capsys.readouterr().err


@pytest.mark.parametrize("signals", [[], [signal.SIGTERM]])
def test_a_player_that_does_not_answer_is_not_waited_for_at_the_end(
    signals: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray takes a minute to give its host up."""
    answer = Event()

    def played(self: Playing, arguments: Sequence[str]) -> int:
        if self.number == 2 or signals:
            answer.wait()
        return 0

    monkeypatch.setattr(playing, "END_SECONDS", 0.1)
    monkeypatch.setattr(playing, "noted_signals", lambda: nullcontext(signals))
    monkeypatch.setattr(Playing, "_played", played)
    assert PlayingJob(2, {}, 2).run([NOT_THERE]) == (128 + signal.SIGTERM if signals else 0)
    answer.set()
    assert "process 2 of 2 does not answer, and is not waited for\n" in capsys.readouterr().err


def test_a_player_that_a_signal_ended_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([-2])
    monkeypatch.setattr(Playing, "_played", lambda self, arguments: next(ends))
    player = Playing(1, PlayingJob(1, {}, 2), signals=[signal.SIGINT])
    player.play([NOT_THERE])
    assert player.code == 130


def test_ranks_wait_for_room_as_long_as_the_command_says(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 101.0, 103.0, 103.5])
    monkeypatch.setattr("rlcore_workers.ray.ranks.monotonic", lambda: next(clock))
    monkeypatch.setattr(ray, "wait", lambda *given, timeout: ([], []))
    monkeypatch.setattr(ray, "available_resources", dict)
    monkeypatch.setattr(ray, "cluster_resources", dict)
    with pytest.raises(EnvironmentFailed, match=r"no room for 2 ranks .* also after 3 s \(--wait\)"):
        RankJob(2, {"CPU": 1.0}, 3.0, 0)._wait_for_room(Mock(), [])
    assert not list(clock)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("GetTimeoutError", "its answer did not arrive within 60 s"),
        ("RaySystemError", "Ray lost its answer: RaySystemError: System error: gone"),
    ],
)
def test_an_answer_that_ray_does_not_have_says_why(
    ray: Any, monkeypatch: pytest.MonkeyPatch, error: str, told: str
) -> None:
    worker = RayWorker(Mock(), Mock(), ["CPU"])
    worker.begin("close")
    monkeypatch.setattr(ray, "get", Mock(side_effect=getattr(ray.exceptions, error)("gone")))
    with pytest.raises(WorkerFailed, match=f"^{told}$"):
        worker.result()


def test_a_worker_is_started_again_on_another_host_than_one_that_was_silent(
    ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    actors = Mock()
    monkeypatch.setattr("rlcore_workers.ray.executor.connection", Mock())
    monkeypatch.setattr(ray, "remote", lambda actor: actors)
    monkeypatch.setattr(ray, "kill", Mock())
    monkeypatch.setattr(ray, "wait", lambda references, timeout: (references, []))
    monkeypatch.setattr(ray, "get", lambda reference: ("process 7 on host2", "b0"))
    executor = RayExecutor(RaySettings(executor="ray", count=1))
    worker = executor.start(Mock())
    assert actors.options.call_args.kwargs["scheduling_strategy"] == "SPREAD"
    assert str(worker.overdue("step", 8.0)) == "did not finish step within 8 s; it is process 7 on host2"
    executor.kill(worker)
    executor.start(Mock())
    (preferred,) = actors.options.call_args.kwargs["scheduling_strategy"].soft
    assert (preferred.key, preferred.operator.values) == ("ray.io/node-id", ["b0"])
