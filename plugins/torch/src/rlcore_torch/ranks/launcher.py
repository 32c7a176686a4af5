"""PyTorch's ``torchrun`` within this process, with the exit codes of the ranks and one line for an error.

PyTorch decides when ranks start, restart and end. This module notes the processes that it starts, and ends this one if
PyTorch waits for a host that is lost: its store answers no sooner than after minutes.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import Event, Thread
from time import monotonic
from typing import Any, NoReturn

import click

from rlcore import ConfigError, ExitCode, RanksFailed, echo, one_line, python_command
from rlcore_torch.ranks.watchdog import end_process

SAVING = ("SIGUSR1", "SIGUSR2", "SIGXCPU")  # signals that PyTorch passes on only if it is told to
LOOK_SECONDS = 0.5
MEET_SECONDS = 3.0  # for a connection to the host where all meet
WAIT_SECONDS = 10.0  # without ranks, before a line says so
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # or PyTorch says that it finds no names for addresses


class RankProcess(subprocess.Popen[Any]):
    """A rank that PyTorch started.

    Attributes:
        number: Number of the rank.
        local: Number of the rank on this host.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.number = int(options["env"]["RANK"])
        self.local = int(options["env"]["LOCAL_RANK"])


class RanksHere:
    """The ranks of this host in the latest attempt."""

    def __init__(self) -> None:
        self.processes: list[RankProcess] = []

    def start(self, *arguments: Any, **options: Any) -> RankProcess:
        """Start a process as ``subprocess.Popen`` does, for PyTorch."""
        process = RankProcess(*arguments, **options)
        if process.local in {each.local for each in self.processes}:  # another attempt
            self.processes = []
        self.processes = [*self.processes, process]
        return process

    def codes(self) -> dict[int, int | None]:
        """The exit code of each rank, negative for a signal; None while it runs."""
        return {process.number: process.poll() for process in self.processes}


def launch(words: Sequence[str]) -> int:
    """Run ``torchrun`` with these options and ``rlcore run`` with those after them. Returns the exit code.

    Raises:
        click.UsageError: An option that torchrun does not have.
        ConfigError: A value that torchrun refuses.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError

    torchrun: Any = import_module("torch.distributed.run")
    options = _options(torchrun.get_args_parser(), words)
    ranks = RanksHere()
    with _noting(ranks), _guarded(options, ranks), _quiet():
        try:
            torchrun.run(options)
        except SignalException as error:
            return _after_signal(ranks, int(error.sigval))
        except ChildFailedError:
            codes = ranks.codes()
            code = exit_code(codes)
            if code < 128:  # a run that saved says so itself
                echo(f"error: {_failures(codes)}", err=True)
            return code
        except RendezvousError as error:
            # Said here and not raised: the command ends at once after this function, and not after PyTorch's store.
            codes = ranks.codes()
            place = _meeting_place(options)
            if place is not None and any(codes.values()):  # the ranks were there; the host where all meet is not
                echo(f"error: {_lost(place)}; {_failures(codes)}", err=True)
                return exit_code(codes)
            where = f" at {options.rdzv_endpoint}" if options.rdzv_endpoint else ""
            echo(f"error: the hosts could not meet{where}: {one_line(error)}", err=True)
            return RanksFailed.exit_code
        except (ValueError, OSError) as error:
            raise ConfigError(f"torchrun: {one_line(error)}") from error
    return ExitCode.DONE


def exit_code(codes: Mapping[int, int | None]) -> int:
    """The exit code of a run whose ranks ended with ``codes``.

    It is that of a rank which failed by itself; then that of a lost rank; then that of a signal, which is above 128.
    """
    known = [ExitCode.INTERNAL if code is None else code for code in codes.values()]
    errors = [code for code in known if ExitCode.INTERNAL < code < 128]
    if errors:
        return errors[0]
    if ExitCode.INTERNAL in known:
        return ExitCode.INTERNAL
    lowest = min(known, default=ExitCode.DONE)
    if lowest < 0:
        return 128 - lowest  # as a shell reports a signal
    return max(known, default=ExitCode.DONE)


def _options(parser: Any, words: Sequence[str]) -> Namespace:
    """The options of torchrun, with the command of the ranks and the signals that they know."""

    def refuse(message: str) -> NoReturn:
        raise click.UsageError(f"torchrun: {message}")

    parser.error = refuse
    options: Namespace = parser.parse_args(list(words))
    if options.module or options.no_python:
        raise click.UsageError("give the configuration after the options of torchrun: `-m rlcore run` is added to it")
    arguments = ("run", options.training_script, *options.training_script_args)
    options.no_python = True
    options.training_script, *options.training_script_args = python_command("-m", "rlcore", *arguments)
    handled = getattr(options, "signals_to_handle", None)  # of PyTorch 2.9 or newer
    if handled == parser.get_default("signals_to_handle") and handled is not None:
        names = [name for name in (*handled.split(","), *SAVING) if hasattr(signal, name)]
        # One that is ignored, as nohup does, stays ignored.
        names = [name for name in names if signal.getsignal(getattr(signal, name)) != signal.SIG_IGN]
        options.signals_to_handle = ",".join(names)
    return options


@contextmanager
def _noting(ranks: RanksHere) -> Iterator[None]:
    """Have PyTorch start its processes through ``ranks``: after a signal it tells their exit codes to no one."""
    module: Any = import_module("torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler")
    before = module.Popen
    module.Popen = ranks.start
    try:
        yield
    finally:
        module.Popen = before


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what torchrun logs of the ends of ranks, which is said in one line. ``--debug`` shows it."""
    debugging = (
        click.get_current_context().find_root().params.get("debug") or os.environ.get("RLCORE_DEBUG", "0") != "0"
    )
    before = logging.root.manager.disable
    if not debugging:
        logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _guarded(options: Namespace, ranks: RanksHere) -> Iterator[None]:
    """Watch over torchrun, which may wait for a host that is lost, in a thread."""
    done = Event()
    thread = Thread(target=_watch, args=(options, ranks, done), name="torchrun watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()


def _watch(options: Namespace, ranks: RanksHere, done: Event) -> None:
    ended_at: float | None = None
    said = False
    while not done.wait(LOOK_SECONDS):
        codes = ranks.codes()
        if not codes or None in codes.values() or not any(codes.values()):
            ended_at = None
            said = False
            continue
        now = monotonic()
        ended_at = ended_at or now
        place = _meeting_place(options)
        if place is not None and not _answers(*place):
            echo(f"error: {_lost(place)}; {_failures(codes)}", err=True)
            end_process(exit_code(codes))
        if now - ended_at > WAIT_SECONDS and not said:
            said = True
            echo(f"{_failures(codes)}; waiting for {options.nnodes} hosts to start all ranks again", err=True)


def _meeting_place(options: Namespace) -> tuple[str, int] | None:
    """The host and the port where the hosts meet; None for one host."""
    endpoint = options.rdzv_endpoint
    if options.rdzv_backend == "static":
        endpoint = f"{options.master_addr}:{options.master_port}"
    if not endpoint or options.rdzv_backend not in ("c10d", "static") or options.nnodes in ("1", "1:1"):
        return None
    host, _, port = endpoint.rpartition(":")
    if not host:
        host, port = endpoint, "29400"  # PyTorch's own
    return (host.strip("[]"), int(port)) if port.isdecimal() else None


def _lost(place: tuple[str, int]) -> str:
    host, port = place
    return f"{host}:{port}, where the hosts meet, does not answer: {host} was lost, or this host is cut off"


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), MEET_SECONDS).close()
    except ConnectionRefusedError:  # the host is there
        return True
    except OSError:
        return False
    return True


def _after_signal(ranks: RanksHere, number: int) -> int:
    """The exit code after torchrun has passed a signal on, and has killed the ranks that had not ended in time."""
    codes = ranks.codes()
    if not codes:
        return 128 + number
    killed = {rank: code for rank, code in codes.items() if code == -signal.SIGKILL}
    if killed:
        name = signal.Signals(number).name
        echo(f"error: {_failures(killed)}: it had not saved in time after {name} (--shutdown-timeout)", err=True)
    return exit_code(codes)


def _failures(codes: Mapping[int, int | None]) -> str:
    """What ended how on this host: ``rank 2 ended (signal 9)``."""
    parts = []
    for rank, code in codes.items():
        if code:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            parts.append(f"rank {rank} on {socket.gethostname()} ended ({how})")
    return ", ".join(parts)
