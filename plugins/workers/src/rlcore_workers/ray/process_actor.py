"""A process of rlcore on a host of a cluster, such as a rank, in the care of a Ray actor."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

import attrs

from rlcore import ConfigError, python_command
from rlcore_workers import EndingProcess

STDOUT = 1
STDERR = 2
THREADS = 4  # of an actor: read, send, and one to spare
JOIN_SECONDS = 5.0  # for the last lines of a process that ended; a process that it left may hold the pipe open
OF_RAY = ("PYTHONBREAKPOINT", "RAY_CLIENT_MODE", "RAY_JOB_ID", "RAY_LD_PRELOAD_ON_WORKERS", "RAY_RAYLET_PID")


@attrs.frozen
class Place:
    """Where an actor is.

    Attributes:
        node: Ray's identifier of the node.
        host: Name of the host.
        address: IP address of the node in the cluster.
        interface: Network interface that has the address; empty if it is unknown.
        gpus: Numbers of the GPUs that Ray gave to the actor.
    """

    node: str
    host: str
    address: str
    interface: str
    gpus: tuple[str, ...]


class ProcessActor:
    """The class of the actors. Several methods run at once: ``read`` waits for output while ``send`` is called."""

    def __init__(self) -> None:
        self._process: EndingProcess
        self._news: SimpleQueue[tuple[int, bytes] | int] = SimpleQueue()
        self._store: Any = None

    def place(self, directory: str, wanted: str) -> Place:
        """Enter ``directory`` and say where this actor is. Raises ConfigError for a host that cannot run it."""
        import psutil
        import ray

        address = ray.util.get_node_ip_address()
        host = socket.gethostname()
        if wanted != version("rlcore"):
            raise ConfigError(
                f"rlcore {version('rlcore')} is installed on {host} ({address}), and {wanted} here; install the same "
                "version of rlcore and of its plugins on every host"
            )
        try:
            os.chdir(directory)
        except OSError as error:
            raise ConfigError(
                f"{host} ({address}): the directory {directory} cannot be entered: {error.strerror}; the command, its "
                "files and what it writes must have the same path on every host, such as on a shared file system"
            ) from error
        context = ray.get_runtime_context()
        interface = ""
        for name, addresses in psutil.net_if_addrs().items():
            if any(entry.address == address for entry in addresses):
                interface = name
                break
        return Place(
            node=context.get_node_id(),
            host=host,
            address=address,
            interface=interface,
            gpus=tuple(context.get_accelerator_ids().get("GPU", ())),
        )

    def store(self, address: str) -> int:
        """Start the store in which ranks find each other, as torchrun does, at ``address`` only. Return its port."""
        # By name: workers need no PyTorch.
        self._store, port = import_module("rlcore_torch.ranks.torch_ranks").start_store(address)
        return int(port)

    def start(self, arguments: Sequence[str], variables: Mapping[str, str | None], path: Sequence[str]) -> None:
        """Start ``rlcore ARGUMENTS``, which also finds modules in ``path``. None removes a variable."""
        environ = dict(os.environ)
        for name in (*OF_RAY, *variables):
            environ.pop(name, None)
        environ |= {name: value for name, value in variables.items() if value is not None}
        # Ray blocks SIGINT, which a process inherits from the thread; a run needs it to save a checkpoint.
        blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            self._process = EndingProcess(
                python_command("-m", "rlcore", *arguments, added=path),
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        Thread(target=self._follow, daemon=True).start()

    def read(self) -> list[tuple[int, bytes] | int]:
        """Wait for output or the end. Return lines with the number of their stream, and the exit code at the end."""
        news = [self._news.get()]
        while not self._news.empty():
            news.append(self._news.get())
        return news

    def send(self, number: int) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def _follow(self) -> None:
        streams = ((STDOUT, self._process.stdout), (STDERR, self._process.stderr))
        readers = [Thread(target=self._copy, args=stream, daemon=True) for stream in streams]
        for reader in readers:
            reader.start()
        code = self._process.wait()
        for reader in readers:
            reader.join(JOIN_SECONDS)
        self._news.put(code)

    def _copy(self, number: int, stream: IO[bytes]) -> None:
        for line in stream:
            self._news.put((number, line))


def process_actor(reserved: Mapping[str, float], scheduling_strategy: Any) -> Any:
    """Ask Ray for an actor with amounts ``reserved`` by Ray's names, which Ray never starts again."""
    import ray

    resources = dict(reserved)
    made = ray.remote(ProcessActor).options(
        num_cpus=resources.pop("CPU", 0.0),
        num_gpus=resources.pop("GPU", 0.0),
        resources=resources,
        max_restarts=0,
        max_task_retries=0,
        max_concurrency=THREADS,
        enable_task_events=False,
        scheduling_strategy=scheduling_strategy,
    )
    return made.remote()
