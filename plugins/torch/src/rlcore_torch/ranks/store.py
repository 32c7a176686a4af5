"""The store in which ranks find each other, with a deadline for every answer.

PyTorch waits for an answer of a ``TCPStore`` in the kernel. If the host that holds the store is cut off, or loses its
power, that takes as long as TCP tries again, about 15 minutes, in which Python handles no signal either. Therefore
another thread asks, and this one waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from torch.distributed.distributed_c10d import PrefixStore

T = TypeVar("T")

ANSWER_SECONDS = 5.0  # for one answer of the store


class StoreLost(RuntimeError):
    """The store of the ranks does not answer; so is a RuntimeError of PyTorch for a connection that was closed."""


class RankStore:
    """A store of PyTorch whose methods raise RuntimeError, soon, if it is gone or does not answer.

    Attributes:
        store: The store itself, for PyTorch.
    """

    def __init__(self, store: Any, prefix: str) -> None:
        """All keys in ``store`` begin with ``prefix``."""
        self.store = PrefixStore(prefix, store)
        self._lost: list[str] = []  # why, once it did not answer; an object, which the stores below this one share

    def within(self, prefix: str) -> RankStore:
        """Return a view of the store, in which all keys begin with ``prefix`` too."""
        part = RankStore(self.store, prefix)
        part._lost = self._lost
        return part

    def set(self, key: str, value: str) -> None:
        """Store ``value`` under ``key``."""
        self._answer(partial(self.store.set, key, value))

    def get(self, key: str) -> str:
        """Return the value of ``key``, which is there."""
        value: bytes = self._answer(partial(self.store.get, key))
        return value.decode()

    def has(self, key: str) -> bool:
        """Return whether ``key`` is there."""
        return bool(self._answer(partial(self.store.check, [key])))

    def _answer(self, ask: Callable[[], Any]) -> Any:
        if self._lost:  # the thread that asked last holds the connection
            raise StoreLost(*self._lost)
        try:
            return in_thread(ask, ANSWER_SECONDS)
        except TimeoutError:
            self._lost.append(f"the store of the ranks did not answer for {ANSWER_SECONDS:g} seconds")
            raise StoreLost(*self._lost) from None


def in_thread(function: Callable[[], T], seconds: float) -> T:
    """Return what ``function`` returns in another thread, or raise what it raises. Signals are handled meanwhile.

    Raises TimeoutError after ``seconds``; the thread is left to itself.
    """
    answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def call() -> None:
        try:
            answers.put((function(), None))
        except BaseException as error:
            answers.put((None, error))

    Thread(target=call, name="rank store", daemon=True).start()
    try:
        value, error = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    answer: T = value
    return answer
