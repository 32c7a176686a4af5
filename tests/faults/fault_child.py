"""A forked process of the fault tests: it runs one ``rlcore`` command, under a handicap.

The fork server imports everything once, so that a command costs milliseconds instead of the seconds PyTorch takes.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
import pkgutil
import resource
import signal
import sys
import time
from collections.abc import Callable

import gymnasium  # noqa: F401
import psutil  # noqa: F401
import rich.table  # noqa: F401
import torch  # noqa: F401
import yaml  # noqa: F401
from plain_torch import SWITCH, compute_with_plain_torch

from rlcore.cli.main import main

PLUGINS = ("curriculum", "ghost", "gymnasium", "offline", "ppo", "sac", "td3", "tensorboard")

for package in ("rlcore", *(f"rlcore_{plugin}" for plugin in PLUGINS)):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not module.name.startswith("rlcore_devkit"):
            importlib.import_module(module.name)

if SWITCH in os.environ:
    compute_with_plain_torch()


def command(
    argv: list[str],
    directory: str,
    slow_fsync: float = 0.0,
    largest_file: int | None = None,
    drop_capabilities: bool = False,
    signalled: tuple[str, int, bool, signal.Signals] | None = None,
    failing: tuple[str, int, int] | None = None,
    clock: tuple[float, float] | None = None,
) -> None:
    """Runs ``rlcore`` in ``directory`` with its output in ``stdout`` and ``stderr`` there, and exits as it does.

    ``slow_fsync``: seconds that every fsync takes. ``largest_file``: bytes that no file may exceed.
    ``drop_capabilities``: even root is bound by permissions. ``signalled``: arguments of :func:`signal_at`.
    ``failing``: arguments of :func:`fail_at`. ``clock``: arguments of :func:`jump`.
    """
    os.chdir(directory)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(file, descriptor)
        os.close(file)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    for name in [name for name in os.environ if name.startswith("RLCORE_")]:
        del os.environ[name]
    if slow_fsync:
        fsync = os.fsync

        def slow(descriptor: int) -> None:
            time.sleep(slow_fsync)
            fsync(descriptor)

        os.fsync = slow
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    if drop_capabilities:
        without_capabilities()
    if signalled is not None:
        signal_at(*signalled)
    if failing is not None:
        fail_at(*failing)
    if clock is not None:
        jump(*clock)
    code = main(argv)
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)


def signal_at(function: str, call: int, after: bool, number: signal.Signals) -> None:
    """Send the process a signal at a call, counted from 1, of ``module:name``: before it begins, or when it ends."""
    at_call(function, call, after, lambda: os.kill(os.getpid(), number))


def fail_at(function: str, call: int, code: int) -> None:
    """Let a call of ``module:name``, counted from 1, fail with an error of the operating system, such as ``EIO``."""

    def fail() -> None:
        raise OSError(code, os.strerror(code))

    at_call(function, call, False, fail)


def at_call(function: str, call: int, after: bool, happen: Callable[[], None]) -> None:
    """Have something happen at a call, counted from 1, of ``module:name``: before it begins, or when it ends."""
    module, _, path = function.partition(":")
    *owners, name = path.split(".")
    owner = importlib.import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    called = getattr(owner, name)
    calls = 0

    def counted(*arguments: object, **keywords: object) -> object:
        nonlocal calls
        calls += 1
        if calls == call and not after:
            happen()
        result = called(*arguments, **keywords)
        if calls == call and after:
            happen()
        return result

    setattr(owner, name, counted)


def jump(seconds: float, by: float) -> None:
    """Set the clock ``seconds`` away from the true time; it jumps ``by`` seconds there and back with each call.

    Files get the time of the clock when they are flushed, as those of checkpoints are.
    """
    true = time.time
    fsync = os.fsync
    calls = itertools.count()

    def jumping() -> float:
        return true() + seconds + by * (next(calls) % 2)

    def stamped(descriptor: int) -> None:
        os.utime(descriptor, (jumping(),) * 2)
        fsync(descriptor)

    time.time, os.fsync = jumping, stamped


def without_capabilities() -> None:
    """Gives up CAP_DAC_OVERRIDE and all the others (Linux, capset(2))."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")
