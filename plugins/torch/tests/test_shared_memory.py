"""Messages through shared memory: they arrive whole and in order, and a rank that ends is noticed."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rlcore_torch.ranks import shared_memory
from rlcore_torch.ranks.shared_memory import CAPACITY, SharedMemory

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="has no memory files without a name")

Memories = Callable[..., list[SharedMemory]]


@pytest.fixture
def memories() -> Memories:
    """``memories(size, timeout=...)``: that of each rank, all in this process."""

    def make(size: int, timeout: float = 20.0) -> list[SharedMemory]:
        descriptor = shared_memory._made(size)
        assert descriptor is not None
        file = Path(shared_memory._open_by(descriptor))
        made = [SharedMemory(file, rank, size, timeout) for rank in range(size)]
        os.close(descriptor)
        return made

    return make


def together(memories: list[SharedMemory], messages: Callable[[int], list[bytes]]) -> list[list[Any]]:
    """The messages that each rank got, if it sent ``messages(rank)`` one after the other."""

    def send(rank: int) -> list[Any]:
        return [
            memories[rank].exchange(message, lambda views: [bytes(view) for view in views])
            for message in messages(rank)
        ]

    with ThreadPoolExecutor(len(memories)) as pool:
        return list(pool.map(send, range(len(memories))))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_rank_gets_the_messages_of_all_in_their_order(memories: Memories, size: int) -> None:
    lengths = [0, 1, 7, CAPACITY, 3, 1000, 0, 5, 64]
    sent = [[bytes([rank + 3 * k]) * length for k, length in enumerate(lengths)] for rank in range(size)]
    got = together(memories(size), lambda rank: sent[rank])
    assert got == [[[of_rank[k] for of_rank in sent] for k in range(len(lengths))]] * size


def test_a_message_that_one_rank_has_no_room_for_is_left_to_gloo_by_all(memories: Memories) -> None:
    got = together(memories(2), lambda rank: [b"a" * (CAPACITY + rank), b"b"])
    assert got == [[None, [b"b", b"b"]]] * 2


def test_a_rank_that_closed_its_memory_or_is_slow_is_named(memories: Memories) -> None:
    first, second = memories(2)
    second.close()
    with pytest.raises(RuntimeError, match="rank 1 ended"):
        first.exchange(b"a", list)
    first, _ = memories(2, timeout=0.1)
    with pytest.raises(RuntimeError, match="waiting for rank 1 timed out"):
        first.exchange(b"a", list)


@pytest.mark.parametrize("reaped", [False, True])
def test_a_process_that_ended_is_noticed_also_before_its_parent_has_read_that(memories: Memories, reaped: bool) -> None:
    first, _ = memories(2)
    with subprocess.Popen([sys.executable, "-c", ""]) as other:
        if reaped:
            other.wait()
        first._lines[first._entry(1, shared_memory.PROCESS)] = other.pid
        with pytest.raises(RuntimeError, match="rank 1 ended"):
            first.exchange(b"a", list)


def test_the_last_message_of_a_rank_that_closed_is_read(memories: Memories) -> None:
    first, second = memories(2)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(second.exchange, b"last", lambda views: None)
        assert first.exchange(b"a", lambda views: [bytes(view) for view in views]) == [b"a", b"last"]
        answer.result()


def test_no_room_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shared_memory.os, "posix_fallocate", full)
    before = len(os.listdir("/proc/self/fd"))
    assert shared_memory._made(2) is None
    assert len(os.listdir("/proc/self/fd")) == before


KILLED = """
import os, signal, sys
from rlcore import Ranks
from rlcore_torch.ranks.shared_memory import SharedMemory

class Killed(Ranks):
    rank, size = 0, 1

    def share(self, value):
        assert value, "ranks of this machine share memory"
        if sys.argv[1] == "share":
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    def total(self, value):
        os.kill(os.getpid(), signal.SIGKILL)

SharedMemory.of(Killed(), 1.0)
"""


@pytest.mark.skipif(platform.machine() not in shared_memory.ORDERED, reason="shares no memory on this processor")
@pytest.mark.parametrize("moment", ["share", "total"])
def test_a_rank_that_is_killed_while_the_others_open_the_memory_leaves_no_file(moment: str) -> None:
    before = set(os.listdir("/dev/shm"))
    command = [sys.executable, "-c", KILLED, moment]
    environ = {**os.environ, "LOCAL_WORLD_SIZE": "1"}
    assert subprocess.run(command, env=environ, check=False).returncode == -signal.SIGKILL
    assert not [name for name in set(os.listdir("/dev/shm")) - before if "rlcore-ranks" in name]
