"""Two independent pieces of work side by side, on the two cores most machines have at least.

PyTorch and NumPy let go of Python's global lock inside their operations, so that a thread each is enough for, say, the
gradients of a policy and of its critics. Threads inside one matrix product crawl as soon as something else runs on
the machine.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

import torch

A = TypeVar("A")
B = TypeVar("B")
Tasks = SimpleQueue[Callable[[], Any] | None]
Answers = SimpleQueue[tuple[Any, BaseException | None]]


class Pair:
    """Runs two functions at once where there is a second core, one after the other elsewhere.

    Which of the two happens changes no result, as long as neither function touches what the other one writes. The
    thread ends with the object. Autograd's mode belongs to a thread: a function sets it for itself.
    """

    def __init__(self, device: torch.device) -> None:
        """On other devices than a CPU the work is queued there anyway, and a thread would only cost."""
        self._threaded = device.type == "cpu" and cores() > 1
        self._thread: threading.Thread | None = None
        self._tasks: Tasks = SimpleQueue()
        self._answers: Answers = SimpleQueue()

    def run(self, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
        """The answers of both. What either of them raises is raised here, when both have ended."""
        if not self._threaded:
            return first(), second()
        try:
            if self._thread is None:
                work = (self._tasks, self._answers, torch.get_num_threads())
                self._thread = threading.Thread(target=_serve, args=work, name="rlcore pair", daemon=True)
                self._thread.start()
            self._tasks.put(second)
            try:
                one = first()
            finally:
                two, error = self._answers.get()
            if error is not None:
                raise error
        except BaseException:
            # A KeyboardInterrupt may come anywhere: what is still to be answered must not meet the next call.
            self._end_thread()
            raise
        return one, two

    def __del__(self) -> None:
        self._end_thread(at_most=1.0)

    def _end_thread(self, at_most: float | None = None) -> None:
        """Has the thread end with the work it has, and waits ``at_most`` seconds; the next call makes another."""
        thread, tasks = self._thread, self._tasks
        self._thread, self._tasks, self._answers = None, SimpleQueue(), SimpleQueue()
        if thread is not None:
            tasks.put(None)
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(at_most)


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _serve(tasks: Tasks, answers: Answers, threads: int) -> None:
    torch.set_num_threads(threads)
    while (task := tasks.get()) is not None:
        try:
            answers.put((task(), None))
        except BaseException as error:
            answers.put((None, error))
        del task  # what it holds must not outlive it: a queue may stay empty for long
