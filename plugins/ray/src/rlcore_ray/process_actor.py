"""A process of rlcore on a host of a cluster, in the care of a Ray actor."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from typing import IO, Any

import attrs

from rlcore_workers import EndingProcess

__all__ = ["Place", "ProcessActor"]

STDOUT, STDERR = 1, 2
JOIN_SECONDS = 5.0  # for the last lines of a process that ended; a process that it left may hold the pipe open
OF_RAY = ("PYTHONBREAKPOINT", "RAY_CLIENT_MODE", "RAY_JOB_ID", "RAY_LD_PRELOAD_ON_WORKERS", "RAY_RAYLET_PID")


@attrs.frozen
class Place:
    """Where an actor is, and what is there.

    Attributes:
        node: Ray's identifier of the node.
        host: Name of the host.
        address: IP address of the node in the cluster.
        interface: Network interface that has the address; empty if it is unknown.
        gpus: Numbers of the GPUs that Ray gave to the actor.
        rlcore: Version of rlcore that is installed.
        problem: What the host lacks; empty if nothing is missing.
    """

    node: str
    host: str
    address: str
    interface: str
    gpus: tuple[str, ...]
    rlcore: str
    problem: str


class ProcessActor:
    """The class of the actors. Several methods run at once: ``read`` waits for output while ``send`` is called."""

    def __init__(self) -> None:
        self._process: EndingProcess
        self._output: deque[tuple[int, bytes]] = deque()
        self._code: int | None = None
        self._news = threading.Condition()
        self._store: Any = None

    def place(self, directory: str, proof: tuple[str, str] | None) -> Place:
        """Enter ``directory`` and say where this actor is. ``proof`` is a file of the run, and its content."""
        import ray

        problem = ""
        try:
            os.chdir(directory)
        except OSError as error:
            problem = f"the directory {directory} cannot be entered: {error.strerror}"
        else:
            if proof is not None and _content(proof[0]) != proof[1]:
                problem = f"{proof[0]} is not the file of the host that started the command"
        address = ray.util.get_node_ip_address()
        context = ray.get_runtime_context()
        return Place(
            node=context.get_node_id(),
            host=socket.gethostname(),
            address=address,
            interface=_interface(address),
            gpus=tuple(context.get_accelerator_ids().get("GPU", ())),
            rlcore=version("rlcore"),
            problem=problem,
        )

    def store(self, address: str) -> int:
        """Start the store in which ranks find each other, as torchrun does, and return its port.

        The store listens at ``address`` only. PyTorch alone would listen on all network interfaces.
        """
        # By name: workers and sweeps need no PyTorch.
        self._store, port = import_module("rlcore_torch.distributed").start_store(address)
        return int(port)

    def start(self, arguments: Sequence[str], variables: Mapping[str, str | None], flags: Sequence[str]) -> int:
        """Start ``python FLAGS -m rlcore ARGUMENTS`` and return the number of its process; None removes a variable."""
        environ = {name: value for name, value in os.environ.items() if name not in {*OF_RAY, *variables}}
        environ |= {name: value for name, value in variables.items() if value is not None}
        # Ray blocks SIGINT, which a process inherits from the thread; a run needs it to save a checkpoint.
        blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            self._process = EndingProcess(
                [sys.executable, *flags, "-m", "rlcore", *arguments],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        threading.Thread(target=self._follow, name="process", daemon=True).start()
        return self._process.pid

    def read(self) -> tuple[list[tuple[int, bytes]], int | None]:
        """Wait for output or the end. Return lines with the number of their stream, and the exit code at the end."""
        with self._news:
            self._news.wait_for(lambda: self._output or self._code is not None)
            lines = list(self._output)
            self._output.clear()
            return lines, self._code

    def send(self, number: int) -> None:
        """Send a signal to the process."""
        if self._code is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.Signals(number))

    def _follow(self) -> None:
        streams = ((STDOUT, self._process.stdout), (STDERR, self._process.stderr))
        readers = [
            threading.Thread(target=self._copy, args=(number, stream), daemon=True) for number, stream in streams
        ]
        for reader in readers:
            reader.start()
        code = self._process.wait()
        for reader in readers:
            reader.join(JOIN_SECONDS)
        with self._news:
            self._code = code
            self._news.notify_all()

    def _copy(self, number: int, stream: IO[bytes]) -> None:
        for line in stream:
            with self._news:
                self._output.append((number, line))
                self._news.notify_all()


def _content(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(4096)
    except (OSError, UnicodeDecodeError):
        return None


def _interface(address: str) -> str:
    """The network interface that has ``address``; empty if none has."""
    import psutil

    found = psutil.net_if_addrs().items()
    return next((name for name, each in found if any(one.address == address for one in each)), "")
