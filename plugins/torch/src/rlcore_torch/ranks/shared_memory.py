"""Messages between the ranks of one machine, through memory that they share.

An exchange through gloo takes hundreds of microseconds, because the ranks sleep until the kernel wakes them. Here a
rank looks at the numbers of the others' messages until they have come, and sleeps only if that takes long.
"""

from __future__ import annotations

import mmap
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

from rlcore import Ranks

__all__ = ["SharedMemory"]

T = TypeVar("T")

ORDERED = ("x86_64", "AMD64")  # processors that show the writes of one core to the others in their order
CAPACITY = 1 << 20  # bytes of a message; the gradients of two layers of 256 units have 0.6 MiB
LINE = 64  # bytes of a cache line, which belongs to one rank
NUMBER, CLOSED, PROCESS, LENGTH = range(4)  # the entries of a rank's line, each 8 bytes; LENGTH has two
LOOKS = 4_000  # at the number of a message before sleeping: less than a millisecond
PAUSE = 1e-4  # seconds between later looks
CARE = 0.05  # seconds between two looks at whether the other processes are there


class SharedMemory:
    """The messages of all ranks: two places of each, for messages with odd and with even numbers.

    A rank that writes message n + 2 has seen message n + 1 of all ranks, which they wrote after reading message n.

    Attributes:
        timeout: Seconds that an exchange waits for the other ranks.
    """

    def __init__(self, file: Path, rank: int, size: int, timeout: float) -> None:
        """Map the ``file``, which is there. Raises OSError if it cannot be mapped."""
        with file.open("r+b") as opened:
            self._memory = memoryview(mmap.mmap(opened.fileno(), _bytes_of(size)))
        self._lines = self._memory[: LINE * size].cast("q")
        self.timeout = timeout
        self._rank = rank
        self._size = size
        self._number = 0  # of the latest message
        self._lines[self._entry(rank, PROCESS)] = os.getpid()

    @classmethod
    def of(cls, ranks: Ranks, timeout: float) -> SharedMemory | None:
        """Return the memory of ``ranks``, or None where they cannot share any or would wait for a core.

        All ranks call this, and get the same answer. The file never has a name: whatever kills a rank, and whenever,
        nothing is left behind. Other ranks open it through the process of rank 0, which the system allows its user.
        """
        on_one_machine = int(os.environ.get("LOCAL_WORLD_SIZE", "0")) == ranks.size
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
        # A rank that looks all the time must not keep another one from its core.
        usable = on_one_machine and cores >= ranks.size and platform.machine() in ORDERED
        descriptor: int | None = None
        if usable and ranks.rank == 0:
            descriptor = _made(ranks.size)
        try:
            name = ranks.share("" if descriptor is None else _open_by(descriptor))
            memory = None
            if name and usable:
                with suppress(OSError):
                    memory = cls(Path(name), ranks.rank, ranks.size, timeout)
            everywhere = ranks.total(int(memory is not None)) == ranks.size
        finally:
            if descriptor is not None:
                os.close(descriptor)
        return memory if everywhere else None

    def exchange(self, message: bytes | memoryview, read: Callable[[list[memoryview]], T]) -> T | None:
        """Give ``message`` to all ranks, and return what ``read`` makes of the messages of all ranks, in their order.

        ``read`` must not keep the views. Returns None to all ranks, and calls nothing, if a message is longer than
        ``CAPACITY``. Raises RuntimeError if another rank ends, or does not come within ``timeout``.
        """
        self._number += 1
        if len(message) <= CAPACITY:
            self._place(self._rank)[: len(message)] = message
        lines = self._lines
        length = LENGTH + self._parity  # the entry of this message
        lines[self._entry(self._rank, length)] = len(message)
        lines[self._entry(self._rank, NUMBER)] = self._number  # the last write: the message is complete
        ranks = range(self._size)
        for rank in ranks:
            self._wait_for(rank)
        lengths = [lines[self._entry(rank, length)] for rank in ranks]
        if max(lengths) > CAPACITY:
            return None
        messages = [self._place(rank)[: lengths[rank]] for rank in ranks]
        return read(messages)

    def close(self) -> None:
        """Let the other ranks know that this one sends nothing more."""
        self._lines[self._entry(self._rank, CLOSED)] = 1

    def _wait_for(self, rank: int) -> None:
        lines = self._lines
        entry = self._entry(rank, NUMBER)
        number = self._number
        for _ in range(LOOKS):
            if lines[entry] >= number:
                return
        now = monotonic()
        deadline = now + self.timeout
        care = now
        while lines[entry] < number:
            now = monotonic()
            if now >= care:
                care = now + CARE
                closed = lines[self._entry(rank, CLOSED)]
                process = lines[self._entry(rank, PROCESS)]
                # Read once more: the rank may have written the message just before it ended.
                if (closed or _ended(process)) and lines[entry] < number:
                    raise RuntimeError(f"rank {rank} ended")
            if now > deadline:
                raise RuntimeError(f"waiting for rank {rank} timed out")
            sleep(PAUSE)

    @property
    def _parity(self) -> int:
        return self._number % 2

    def _place(self, rank: int) -> memoryview:
        start = LINE * self._size + (2 * rank + self._parity) * CAPACITY
        return self._memory[start : start + CAPACITY]

    @staticmethod
    def _entry(rank: int, entry: int) -> int:
        return rank * LINE // 8 + entry


def _bytes_of(size: int) -> int:
    return size * (LINE + 2 * CAPACITY)


def _made(size: int) -> int | None:
    """Make the file, which no directory has, and return its descriptor; None if there is no room for it."""
    if not hasattr(os, "memfd_create"):
        return None
    with suppress(OSError):
        descriptor = os.memfd_create("rlcore-ranks")
        try:
            os.posix_fallocate(descriptor, 0, _bytes_of(size))
        except OSError:
            os.close(descriptor)
            raise
        return descriptor
    return None


def _open_by(descriptor: int) -> str:
    """A path by which processes of this user open a file that this process has open."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _ended(process: int) -> bool:
    """Whether a process is gone, or waits for its parent to notice that it ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True
    _, _, fields = stat.rpartition(")")  # behind the name of the program, which may have spaces
    state = fields.split()[0]
    return state in ("Z", "X")
