"""Runs ``rlcore`` in a Python that lacks what Windows lacks: modules, flags of ``os.open``, calls and signals.

Import it before rlcore: ``python without_posix.py run config.yaml``. Everything is removed after the standard library's
own modules have chosen what they use on this system.
"""

from __future__ import annotations

import importlib.abc
import os
import signal
import subprocess  # noqa: F401  imports fcntl's neighbors, as Python on Windows has its own in their place
import sys
import tempfile  # noqa: F401
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES = ("fcntl", "termios", "tty", "pty", "resource", "pwd", "grp", "syslog", "posix_ipc", "crypt")
OS_NAMES = (
    "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_CLOEXEC", "O_SYNC", "O_NOCTTY", "fork", "forkpty", "getuid",
    "geteuid", "getgid", "getegid", "getpgid", "setsid", "killpg", "nice", "getloadavg", "statvfs", "mkfifo",
    "fchmod", "chown", "sched_getaffinity", "sched_setaffinity", "sysconf", "wait3", "wait4", "WNOHANG",
)  # fmt: skip
SIGNALS = ("SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGCHLD", "SIGTSTP", "SIGWINCH")
CALLS = ("alarm", "setitimer", "pthread_sigmask", "pthread_kill", "sigwait")


class Absent(importlib.abc.MetaPathFinder):
    """Finds no module of ``MODULES``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in MODULES:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def remove() -> None:
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Absent())
    for module, names in ((os, OS_NAMES), (signal, (*SIGNALS, *CALLS))):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)


if __name__ == "__main__":
    remove()
    assert "rlcore" not in sys.modules
    with warnings.catch_warnings(action="ignore"):  # on Windows, filelock has locks of its own
        import filelock  # noqa: F401
    from rlcore.cli.main import main

    sys.exit(main(sys.argv[1:]))
