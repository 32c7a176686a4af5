"""Two independent functions in two threads.

PyTorch and NumPy release Python's global lock inside their operations, so two threads can compute the losses of a
policy and of its critics in parallel. Threads inside one matrix product slow down as soon as something else runs on the
machine.
:func:`rlcore_torch.choose_backend` decides whether a trainer uses two threads.
"""

from __future__ import annotations

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
    """Runs two functions at the same time, or one after the other.

    The results are equal if neither function reads or writes what the other one writes. The thread ends with the
    object. PyTorch's gradient mode belongs to a thread, so each function sets its own.
    """

    def __init__(self, threaded: bool) -> None:
        self._threaded = threaded
        self._thread: threading.Thread | None = None
        self._tasks: Tasks = SimpleQueue()
        self._answers: Answers = SimpleQueue()

    def run(self, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
        """Return both answers. An exception of either function is raised here, when both have ended."""
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
            # A KeyboardInterrupt may come anywhere: an answer that is still due must not meet the next call.
            self._end_thread()
            raise
        return one, two

    def __del__(self) -> None:
        self._end_thread(at_most=1.0)

    def _end_thread(self, at_most: float | None = None) -> None:
        """Let the thread end after its current work and wait ``at_most`` seconds; the next call starts another."""
        thread, tasks = self._thread, self._tasks
        self._thread, self._tasks, self._answers = None, SimpleQueue(), SimpleQueue()
        if thread is not None:
            tasks.put(None)
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(at_most)


def _serve(tasks: Tasks, answers: Answers, threads: int) -> None:
    torch.set_num_threads(threads)
    while (task := tasks.get()) is not None:
        try:
            answers.put((task(), None))
        except BaseException as error:
            answers.put((None, error))
        del task  # its captured tensors must not outlive it: the queue may stay empty for long
