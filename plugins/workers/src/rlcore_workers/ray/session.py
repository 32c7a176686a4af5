"""The connection of this process to Ray. A process has one: it is shared, and ended with the last executor."""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from rlcore import ConfigError, EnvironmentFailed, one_line
from rlcore_workers.ray.settings import LOOPBACK, RaySettings

ADDRESS_KEY = ("environment", "workers", "address")
# Ray replaces the node address 127.0.0.1 by one that other machines reach, unless this says that there is no cluster.
LOCAL_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
CONNECT_SECONDS = 10.0
VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0"}  # Ray would send statistics about its use to its makers
SET_BY_RAY = ("PYTHONBREAKPOINT", "RAY_AUTH_MODE", "RAY_CLIENT_MODE")


class Connection:
    """Starts Ray or attaches to a cluster for its first user, and undoes that with the last one.

    A connection that the program itself has made is used as it is, and kept.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._made = ExitStack()

    def open(self, settings: RaySettings) -> None:
        """Connect. Raises ConfigError if there is no cluster at the address, EnvironmentFailed if Ray cannot start."""
        with self._lock:
            if not self._users:
                self._made = _connected(settings)
            self._users += 1

    def close(self) -> None:
        """Give up what :meth:`open` gave."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._made.close()


connection = Connection()
"""The connection of this process; Ray has no more than one."""


def _connected(settings: RaySettings) -> ExitStack:
    local = settings.address is None and settings.bind in LOOPBACK
    here_only = local or _answers_here_only(settings.address)
    with ExitStack() as made:
        made.enter_context(_variables({**VARIABLES, **LOCAL_ONLY} if here_only else VARIABLES))
        import ray  # reads the variables

        if ray.is_initialized():
            made.close()
            return ExitStack()
        _require_listener(settings.address)
        made.callback(ray.shutdown)
        try:
            with _same_sigterm(), _without_advice():
                ray.init(
                    address=settings.address or "local",
                    configure_logging=False,
                    logging_level=logging.ERROR,
                    # Ray has its processes import from the working directory first, unless the job is a client's.
                    # Else Ray puts the working directory first in the search path of its processes: a logging.py
                    # there would be run. An actor adds the path of the run to the end of its own instead.
                    job_config=ray.job_config.JobConfig(_client_job=True),
                    **({} if settings.address else _own_ray(settings)),
                )
        except (ConnectionError, ValueError) as error:
            if settings.address is None:
                raise EnvironmentFailed(f"Ray cannot be started: {one_line(error)}") from error
            message = f"there is no Ray cluster at {settings.address!r} that this machine is a node of: "
            token = "" if "RAY_AUTH_MODE" in os.environ else "; if it asks for a token, set RAY_AUTH_MODE=token"
            raise ConfigError(message + one_line(error) + token, key=ADDRESS_KEY) from error
        except Exception as error:
            raise EnvironmentFailed(f"Ray cannot be started: {one_line(error)}") from error
        if local and ray.util.get_node_ip_address() not in LOOPBACK:
            raise EnvironmentFailed(
                "Ray would listen on all network interfaces, because the program imported ray before the run; set "
                + " ".join(f"{name}={value}" for name, value in LOCAL_ONLY.items())
                + " in the environment of the program"
            )
        return made.pop_all()


def _require_listener(address: str | None) -> None:
    """Raise ConfigError if nothing listens at HOST:PORT: Ray would wait for minutes."""
    if address is None or address == "auto":
        return
    try:
        _connect(address, CONNECT_SECONDS)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"nothing answers at {address!r}: {one_line(error)}", key=ADDRESS_KEY) from error


def reachable(address: str, seconds: float = CONNECT_SECONDS) -> bool:
    """Whether something listens at HOST:PORT; False for other words."""
    try:
        _connect(address, seconds)
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _connect(address: str, seconds: float) -> None:
    """Connect to HOST:PORT, and close the connection."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), seconds).close()


def _answers_here_only(address: str | None) -> bool:
    """Whether ``address`` is of a cluster at 127.0.0.1 that other machines cannot reach.

    Ray replaces 127.0.0.1 by the address that other machines reach, which is right for other clusters.
    """
    host, _, port = (address or "").rpartition(":")
    if host not in LOOPBACK:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 1))  # sends nothing; chooses the interface to other machines
            public, _ = probe.getsockname()
            socket.create_connection((public, int(port)), CONNECT_SECONDS).close()
        except (OSError, OverflowError):
            return True
    return False


def _own_ray(settings: RaySettings) -> dict[str, Any]:
    """The arguments of ``ray.init`` that start Ray for this run, with what its workers reserve."""
    return {
        "num_cpus": max(1, math.ceil(settings.count * settings.cpus)),
        "resources": {name: amount * settings.count for name, amount in settings.resources.items()},
        "include_dashboard": False,
        # RaySettings refuses these addresses unless allow_public_bind is set.
        "_node_ip_address": None if settings.bind in ("0.0.0.0", "::") else settings.bind,  # nosec B104
    }


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment that are not set, and restore the environment, which Ray changes too."""
    before = {name: os.environ.get(name) for name in (*values, *SET_BY_RAY)}
    for name, wanted in values.items():
        os.environ.setdefault(name, wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _without_advice() -> Iterator[None]:
    """Leave out Ray's lines about its start, which are for those who started it themselves."""
    logger = logging.getLogger("ray")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _same_sigterm() -> Iterator[None]:
    """Keep the handler of SIGTERM, which ``ray.init`` replaces in the main thread: the run saves a checkpoint."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGTERM, handler)
