"""A rank ends in time although the store of the ranks, the other ranks or torchrun are gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
import torch.distributed as dist

from rlcore import StopRequests
from rlcore_torch.ranks import store as stores
from rlcore_torch.ranks import watchdog as watchdogs
from rlcore_torch.ranks.store import RankStore, StoreLost, in_thread
from rlcore_torch.ranks.watchdog import Watchdog

SERVER = """
import sys
from rlcore_torch.ranks.torch_ranks import start_store
store, port = start_store("127.0.0.1")
print(port, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[tuple[int, RankStore]]:
    """A process that holds a store, and a connection to it."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        store = dist.TCPStore("127.0.0.1", port, timeout=timedelta(seconds=60))  # type: ignore[attr-defined]
        try:
            yield process.pid, RankStore(store, "rlcore")
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(watchdogs, "LOOK_SECONDS", 0.05)


def hold(process: int) -> None:
    """Stop a process, and wait until it has stopped: until then it may answer."""
    os.kill(process, signal.SIGSTOP)
    stat = Path(f"/proc/{process}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)


def test_a_store_that_does_not_answer_is_given_up_once(
    server: tuple[int, RankStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, store = server
    part = store.within("run")
    part.set("key", "value")
    assert part.get("key") == "value"
    assert store.has("run/key") and not store.has("key")
    hold(process)
    began = time.monotonic()
    with pytest.raises(StoreLost, match="did not answer for 1 seconds"):
        part.has("key")
    assert time.monotonic() - began < 10
    monkeypatch.setattr(stores, "in_thread", None)  # it is not asked again
    for each in (store, part):
        with pytest.raises(StoreLost):
            each.set("key", "")


def test_signals_are_handled_while_the_store_does_not_answer(server: tuple[int, RankStore]) -> None:
    process, store = server
    store.set("key", "value")
    handled = []
    before = signal.signal(signal.SIGALRM, lambda *_: handled.append(time.monotonic()))
    try:
        hold(process)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(StoreLost):
            store.get("key")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert handled and time.monotonic() - handled[0] > 0.5


def test_a_store_that_has_ended_raises_the_error_of_pytorch(server: tuple[int, RankStore]) -> None:
    process, store = server
    store.set("key", "value")
    os.kill(process, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"[Cc]onnection") as raised:
        store.get("key")
    assert not isinstance(raised.value, StoreLost)


def test_an_error_of_the_thread_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        in_thread(lambda: 1 / 0, 10.0)


def test_the_watchdog_ends_a_rank_that_waits_too_long_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdogs, "GRACE_SECONDS", 0.5)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    said: list[str] = []
    ended = Event()

    def end(limit: str) -> None:
        said.append(limit)
        ended.set()

    watchdog = Watchdog(StopRequests(), end)
    try:
        with watchdog.within(0.0):
            pass
        assert not ended.wait(1.0)
        with watchdog.within(0.25):
            assert ended.wait(30.0)
    finally:
        watchdog.close()
    assert said[0] == "0.75 seconds"


def test_a_rank_whose_torchrun_ended_requests_a_stop() -> None:
    program = (
        "import os, socket, sys, time\n"
        "from rlcore import StopRequests\n"
        "from rlcore_torch.ranks.watchdog import Watchdog\n"
        "stops = StopRequests()\n"
        "if os.fork():\n"
        "    time.sleep(2)\n"
        "    os._exit(0)\n"
        "starter = os.getppid()\n"
        "Watchdog(stops, print)\n"
        "time.sleep(1)\n"
        "assert stops.first is None\n"
        "while stops.first is None: time.sleep(0.05)\n"
        "reason = stops.first.reason.replace(str(starter), 'N').replace(socket.gethostname(), 'H')\n"
        "print(stops.first.exit_code, reason, flush=True)\n"
    )
    environ = {**os.environ, "TORCHELASTIC_RUN_ID": "job"}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout == "143 torchrun, process N on H, ended without its ranks\n", ended.stderr
