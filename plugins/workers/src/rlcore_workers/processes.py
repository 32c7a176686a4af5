"""The executor ``processes``: a fresh Python process for each worker, and memory that all of them share.

A step sends five bytes to every worker and waits for five bytes from each; observations and actions are in the shared
memory, which has no name, so that nothing can be left behind.
"""

from __future__ import annotations

import logging
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from math import inf
from multiprocessing import spawn
from time import monotonic, sleep
from typing import Any

from rlcore import EnvironmentFailed, RunContext, python_command
from rlcore_workers.arrays import BatchArrays
from rlcore_workers.channel import ATTACH, CALL, FAILED, Channel
from rlcore_workers.contract import Task, Worker, WorkerFailed
from rlcore_workers.create import create_environment as create_in_workers
from rlcore_workers.ending_process import EndingProcess
from rlcore_workers.environment import WorkerEnvironment
from rlcore_workers.layout import Layout
from rlcore_workers.settings import WorkerSettings

KEPT_LINES = 50  # of a worker's output, for errors
LONGEST_LINE = 65536  # bytes of it; a longer one, such as a progress bar without line ends, is shown in parts
LOOK_SECONDS = 0.5  # a dead worker whose channel a process of an environment holds open is noticed after this time
MESSAGE_SECONDS = 60
ENDING_SECONDS = 1.0
TRACEBACK_SECONDS = 0.5  # that a worker which hangs has to write where it hangs
_OF_BATCH_SYSTEMS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGXCPU")
_BLOCKED = {getattr(signal, name) for name in _OF_BATCH_SYSTEMS if hasattr(signal, name)}


class ProcessWorker:
    """A worker in a process of its own.

    Attributes:
        lines: The last lines that the process wrote.
        process: The process.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._overdue = False
        self._written = 0  # number of lines
        mine, theirs = socket.socketpair()
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):  # of a message that is half sent
            mine.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", MESSAGE_SECONDS, 0))
        self._channel = Channel(mine)
        self.descriptor = mine.fileno()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)  # until the worker ignores them
        try:
            self.process = EndingProcess(
                python_command("-m", "rlcore_workers.child", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
            )
        except Exception as error:
            self.close_channel()
            raise WorkerFailed(f"cannot be started: {error}") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            theirs.close()
        self._thread = threading.Thread(target=self._read, name=f"worker {task.part}", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        """Keep the last lines of the output of the process and pass them on, until it ends."""
        assert self.process.stdout is not None
        with self.process.stdout as output, suppress(OSError, ValueError):
            for line in iter(lambda: output.readline(LONGEST_LINE), b""):
                text = line.decode(errors="replace").rstrip("\n")
                self.lines.append(text)
                self._written += 1
                with suppress(Exception):
                    if not self._overdue:
                        print(f"worker {self.task.part}: {text}", file=sys.stderr)

    def begin(self, method: str, *arguments: Any) -> None:
        """Send a call, as :meth:`rlcore_workers.contract.Worker.begin` says."""
        with self._reached():
            if method == "step" and not arguments:
                self._channel.send_step()
                return
            if method == "create":
                self._prepare()
            self._channel.send(CALL, (method, arguments))

    def _prepare(self) -> None:
        """Send what the program needs to import the same modules: the path, the directory and the main module."""
        preparation = spawn.get_preparation_data(f"rlcore-worker-{self.task.part}")
        del preparation["authkey"]
        if not os.path.exists(preparation.get("init_main_from_path", "")):  # a program that was read from a pipe
            preparation.pop("init_main_from_path", None)
        level = logging.getLogger("rlcore").getEffectiveLevel()
        self._channel.send(CALL, (preparation, level, pickle.dumps(self.task)))

    def attach(self, layout: Layout, descriptor: int) -> None:
        """Send the shared memory."""
        with self._reached():
            self._channel.send(ATTACH, (layout, self.task.part))
            socket.send_fds(self._channel.socket, [b"m"], [descriptor])

    def result(self) -> Any:
        """Return the answer, as :meth:`rlcore_workers.contract.Worker.result` says."""
        with self._reached():
            kind, value = self._channel.receive()
        if kind == FAILED:
            message, details, raised = value
            raise WorkerFailed(message, details + self._tail(), raised)
        return value

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError):  # also of a channel that this process closed
            raise self._gone() from None

    def _gone(self) -> WorkerFailed:
        """The error of a process that ended, or that closed its channel."""
        deadline = monotonic() + ENDING_SECONDS
        while not self.ended and monotonic() < deadline:
            sleep(0.002)
        if not self.ended:
            return WorkerFailed("its process closed the connection", self._tail())
        code = self._reap()
        what = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return WorkerFailed(f"its process {what}{self._last_line()}", self._tail())

    def _reap(self) -> int:
        """Kill what the process started, collect it and read the rest of its output; return its exit code."""
        self.process.kill()
        code = self.process.wait()
        self._thread.join(ENDING_SECONDS)
        return code

    def _last_line(self) -> str:
        written = [line.strip() for line in self.lines if line.strip()]
        # faulthandler's first line says what happened; a traceback of all threads follows.
        fatal = [line for line in self.lines if line.startswith("Fatal Python error")]
        lines = fatal[:1] or written[-1:]
        return f" (it wrote: {lines[0].strip()[:200]})" if lines else ""

    def _tail(self) -> str:
        lines = "\n".join(self.lines)
        return f"\nThe last lines that the worker wrote:\n{lines}\n" if lines else ""

    def overdue(self, doing: str, seconds: float) -> WorkerFailed:
        """Have the process write where it is; it is a signal handler in C that does so."""
        self._overdue = True  # what follows is for the error, not for the terminal
        before = self._written
        last = before
        with suppress(OSError):
            self.process.send_signal(signal.SIGPROF)
        deadline = monotonic() + TRACEBACK_SECONDS
        while monotonic() < deadline and not self.ended:
            sleep(0.02)
            if before < self._written == last:  # nothing follows
                break
            last = self._written
        return WorkerFailed(f"did not finish {doing} within {seconds:g} s", self._tail())

    def kill(self) -> None:
        """Kill the process and those that it started, and free everything."""
        self.close_channel()
        self._reap()

    def close_channel(self) -> None:
        """Close the channel; calls fail from now on."""
        self._channel.close()


class ProcessExecutor:
    """Workers that are processes of this machine.

    Raises EnvironmentFailed on Windows, whose processes cannot inherit sockets.
    """

    def __init__(self) -> None:
        if not hasattr(socket, "send_fds"):
            raise EnvironmentFailed("environment.workers: processes need Linux or macOS; leave the key out")
        self._workers: set[ProcessWorker] = set()
        self._memory = -1  # descriptor of the shared memory

    def start(self, task: Task) -> ProcessWorker:
        """Start a process, as :meth:`rlcore_workers.contract.Executor.start` says."""
        worker = ProcessWorker(task)
        self._workers.add(worker)
        return worker

    def arrays(self, layout: Layout) -> BatchArrays:
        """Create the shared memory: a file without a name."""
        if hasattr(os, "memfd_create"):
            self._memory = os.memfd_create("rlcore")
        else:
            with tempfile.TemporaryFile() as file:
                self._memory = os.dup(file.fileno())
        os.ftruncate(self._memory, layout.size)
        return BatchArrays(layout, mmap.mmap(self._memory, layout.size))

    def attach(self, worker: Worker, arrays: BatchArrays) -> None:
        """Give a worker the shared memory."""
        assert isinstance(worker, ProcessWorker)
        worker.attach(arrays.layout, self._memory)

    def wait(self, workers: Collection[Worker], seconds: float | None) -> list[Worker]:
        """Wait for answers and for ends of processes."""
        by_descriptor = {worker.descriptor: worker for worker in workers if isinstance(worker, ProcessWorker)}
        poll = select.poll()
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        deadline = inf if seconds is None else monotonic() + seconds
        while True:
            left = min(LOOK_SECONDS, max(0.0, deadline - monotonic()))
            ready: list[Worker] = [by_descriptor[descriptor] for descriptor, _ in poll.poll(left * 1000.0)]
            if ready:
                return ready
            gone = [worker for worker in by_descriptor.values() if worker.ended]
            for worker in gone:  # a process that an environment started holds the channel open
                worker.close_channel()
            if gone or monotonic() >= deadline:
                return list(gone)

    def kill(self, worker: Worker) -> None:
        """Kill the process of a worker."""
        assert isinstance(worker, ProcessWorker)
        self._workers.discard(worker)
        worker.kill()

    def close(self) -> None:
        """Kill all workers and free the memory."""
        for worker in list(self._workers):
            self.kill(worker)
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1


def create_environment(settings: WorkerSettings, run: RunContext) -> WorkerEnvironment:
    """Return the environments of ``run`` in processes."""
    return create_in_workers(ProcessExecutor(), settings, run)
