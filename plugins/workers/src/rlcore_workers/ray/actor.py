"""The environments of one worker, in a Ray actor."""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from multiprocessing import spawn
from typing import Any

from rlcore import ConfigError
from rlcore_workers import BatchArrays, Layout, Part, PartMessages, WorkerFailed

WRITES_BATCHES = ("reset", "step", "load_state_dict")


class PartActor:
    """The class of the actors.

    A method returns a pair: a pickled result or None, and bytes with batches, which are empty if there are none; or a
    WorkerFailed.
    """

    def __init__(self, number: int) -> None:
        """``number`` is that of the worker."""
        self._number = number
        self._part: Part
        self._messages: PartMessages

    def create(self, task: bytes, wanted: str, main: Mapping[str, Any]) -> Any:
        """Make the environments of a pickled task for a run with rlcore ``wanted`` and the main module ``main``."""
        try:
            _prepare(wanted, main, needs_main=b"__main__" in task)
            self._part = Part(pickle.loads(task))  # nosec B301 # from the run, by Ray, which may run any code here
            return pickle.dumps(self._part.create()), b""
        except BaseException as error:
            return WorkerFailed.of(error)

    def place(self) -> tuple[str, str]:
        """Return where this worker is, in words, and the identity of the host in Ray's cluster."""
        import ray

        return f"process {os.getpid()} on {socket.gethostname()}", ray.get_runtime_context().get_node_id()

    def attach(self, layout: Layout) -> Any:
        """Make arrays like those of the run; the system provides memory only for the rows that are used."""
        try:
            arrays = BatchArrays(layout, mmap.mmap(-1, layout.size))
            self._messages = PartMessages(arrays, self._number)
            self._part.attach(arrays.part(self._number))
        except BaseException as error:
            return WorkerFailed.of(error)
        return None, b""

    def call(self, method: str, arguments: tuple[Any, ...], request: bytes) -> Any:
        """Call a method of the part, which may write batches."""
        try:
            if request:
                self._messages.accept(request)
            result = getattr(self._part, method)(*arguments)
            batches = self._messages.answer() if method in WRITES_BATCHES else b""
            return None if result is None else pickle.dumps(result), batches
        except BaseException as error:
            return WorkerFailed.of(error)


def main_module() -> dict[str, Any]:
    """Return what objects of a program need: the working directory, the search path and the main module."""
    data = spawn.get_preparation_data("rlcore")
    return {key: data[key] for key in ("dir", "sys_path", "init_main_from_name", "init_main_from_path") if key in data}


def _prepare(wanted: str, main: Mapping[str, Any], needs_main: bool) -> None:
    """Compare the versions of rlcore; enter the run's directory, and import its main module, if this host has them.

    Python may be elsewhere on this host. What the search path of the run has beyond that of this process comes last.
    """
    installed = version("rlcore")
    if wanted != installed:
        raise ConfigError(
            f"rlcore {installed} is installed on {socket.gethostname()}, the run has rlcore {wanted}; install the same "
            "version of rlcore and of its plugins on every host",
            key=("environment", "workers"),
        )
    with suppress(OSError):
        os.chdir(main["dir"])
    sys.path += [entry for entry in main["sys_path"] if entry not in sys.path]
    if needs_main:
        spawn.prepare({key: value for key, value in main.items() if key != "sys_path"})
