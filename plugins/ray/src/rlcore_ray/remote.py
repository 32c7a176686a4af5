"""Processes of rlcore on a cluster, as the command that started them has them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

import attrs

from rlcore import ConfigError, EnvironmentFailed, SettingError, one_line
from rlcore_ray.process_actor import STDERR, Place, ProcessActor
from rlcore_ray.session import ADDRESS_KEY, connection, imports_from_here
from rlcore_ray.settings import RaySettings

if TYPE_CHECKING:
    import ray

__all__ = ["RemoteProcess", "Reserved", "Signals", "connected", "print_line", "wait_for_news"]

TWICE_SECONDS = 0.5  # of rlcore itself: a signal that is repeated sooner counts as one
THREADS = 4  # of an actor: read, send, and one to spare
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # Ray sets the first one


@attrs.frozen
class Reserved:
    """CPUs, GPUs and other resources that Ray reserves for a process.

    Attributes:
        cpus: Logical CPUs.
        gpus: GPUs.
        resources: Other resources by name, which the nodes declared.
    """

    cpus: float
    gpus: float
    resources: Mapping[str, float]

    @property
    def bundle(self) -> dict[str, float]:
        """The amounts by Ray's names, without zeros."""
        found = {"CPU": self.cpus, "GPU": self.gpus, **self.resources}
        return {name: amount for name, amount in found.items() if amount}

    def __str__(self) -> str:
        return ", ".join(f"{amount:g} {name}" for name, amount in self.bundle.items()) or "nothing"


@contextmanager
def connected(address: str | None, count: int, reserved: Reserved) -> Iterator[None]:
    """Connect to the cluster at ``address``, or start Ray on this machine with room for ``count`` processes."""
    try:
        settings = RaySettings(address=address, count=count, cpus=reserved.cpus, resources=dict(reserved.resources))
        connection.open(settings)
    except SettingError as error:
        raise ConfigError(f"--{error.field}: {error.problem}") from error
    except ConfigError as error:
        if error.key != ADDRESS_KEY:
            raise
        raise ConfigError(f"--address: {error.message}") from error
    try:
        yield
    finally:
        connection.close()


class RemoteProcess:
    """A process of rlcore in an actor. Lines and the end are news, which :func:`wait_for_news` waits for.

    Attributes:
        place: Where the actor is; None before it has been placed.
        pending: Reference to the next answer of the actor.
        code: Exit code of the process, negative for a signal; None until it has ended. A process whose actor or host is
            lost ended by SIGKILL.
        lost: How the actor was lost; empty if it was not.
        killed: Whether :meth:`kill` ended the process.
    """

    def __init__(self, reserved: Reserved, proof: tuple[Path, str] | None = None, **options: Any) -> None:
        """Ask Ray for an actor. ``proof`` is a file that the host must have, and its content."""
        import ray

        actors = ray.remote(ProcessActor).options(
            num_cpus=reserved.cpus,
            num_gpus=reserved.gpus,
            resources=dict(reserved.resources),
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=THREADS,
            enable_task_events=False,
            **options,
        )
        self.place: Place | None = None
        self.code: int | None = None
        self.lost = ""
        self.killed = False
        self._actor = actors.remote()
        expected = None if proof is None else (str(proof[0]), proof[1])
        self.pending: ray.ObjectRef[Any] = self._actor.place.remote(os.getcwd(), expected)

    def start(self, arguments: Sequence[str], variables: Mapping[str, str]) -> None:
        """Start ``rlcore ARGUMENTS`` in the environment of the host, with the variables of rlcore that are set here."""
        flags = [] if imports_from_here() else ["-P"]
        self.pending = self._actor.start.remote(list(arguments), {**_variables_of_rlcore(), **variables}, flags)

    def store(self) -> int:
        """Start the store of ranks, and return its port. Raises EnvironmentFailed."""
        import ray

        assert self.place is not None
        try:
            return int(ray.get(self._actor.store.remote(self.place.address)))
        except ray.exceptions.RayError as error:
            raise EnvironmentFailed(f"the store of the ranks cannot be started: {_reason(error)}") from error

    def take(self) -> list[tuple[int, bytes]]:
        """Take the answer that has arrived: set ``place``, or return lines, or set ``code`` at the end.

        Raises ConfigError for a host that cannot run the process.
        """
        import ray

        try:
            answer = ray.get(self.pending)
        except ray.exceptions.RayTaskError as error:
            raise EnvironmentFailed(f"a process cannot be started: {_reason(error)}") from error
        except ray.exceptions.RayError as error:
            self.lost = one_line(error)
            self.code = -signal.SIGKILL
            return []
        if isinstance(answer, Place):
            self.place = _checked(answer)
            return []
        lines, code = ([], None) if isinstance(answer, int) else answer
        if code is None:
            self.pending = self._actor.read.remote()
        else:
            self.code = code
        return list(lines)

    def send(self, number: int) -> None:
        """Send a signal to the process, if it has been started."""
        if self.place is not None and self.code is None:
            self._actor.send.remote(number)

    def kill(self) -> None:
        """Kill the actor, and the process with it."""
        import ray

        self.killed = self.killed or self.code is None
        with suppress(ray.exceptions.RayError, ValueError):
            ray.kill(self._actor)


def wait_for_news(processes: Collection[RemoteProcess], seconds: float) -> list[RemoteProcess]:
    """Wait until one of the processes has news, for at most ``seconds``; return those that have some."""
    import ray

    by_answer = {each.pending: each for each in processes}
    if not by_answer:
        return []
    ready, _ = ray.wait(list(by_answer), num_returns=1, timeout=seconds)
    more, _ = ray.wait(list(by_answer), num_returns=len(by_answer), timeout=0) if ready else ([], [])
    return [by_answer[answer] for answer in dict.fromkeys((*ready, *more))]


def print_line(stream: int, line: bytes) -> None:
    """Print a line of a process to the stream of this process that it was written to."""
    target = sys.stderr if stream == STDERR else sys.stdout
    with suppress(OSError, ValueError):  # a closed terminal or pipe ends no run
        target.write(line.decode("utf-8", "replace"))
        target.flush()


class Signals:
    """SIGINT, SIGTERM and SIGHUP that this process got while the block runs.

    Attributes:
        first: The first signal; None before it.
        waiting: Signals that have not been passed on yet.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.waiting: list[int] = []
        self._at = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def taken(self) -> list[int]:
        """Return the signals to pass on, and forget them."""
        found, self.waiting = self.waiting, []
        return found

    @property
    def exit_code(self) -> int:
        """The exit code of a command that the first signal ended."""
        return 128 + (self.first or 0)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.first is not None and (number == signal.SIGHUP or monotonic() - self._at < TWICE_SECONDS):
            return
        self.first = self.first or number
        self._at = monotonic()
        self.waiting.append(number)


def _variables_of_rlcore() -> dict[str, str | None]:
    """The variables that decide what rlcore computes: a process anywhere has those of this one."""
    found = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    return found | {name: value for name, value in os.environ.items() if name.startswith("RLCORE_")}


def _checked(place: Place) -> Place:
    installed = version("rlcore")
    if place.rlcore != installed:
        raise ConfigError(
            f"rlcore {place.rlcore} is installed on {place.host} ({place.address}), and {installed} here; install the "
            "same version of rlcore and of its plugins on every host"
        )
    if place.problem:
        raise ConfigError(
            f"{place.host} ({place.address}): {place.problem}; the command, its files and what it writes must have the "
            "same path on every host, such as on a shared file system"
        )
    return place


def _reason(error: Exception) -> str:
    cause = getattr(error, "cause", None)
    return one_line(cause if isinstance(cause, BaseException) else error)
