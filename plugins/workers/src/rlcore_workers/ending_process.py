"""Starts processes that end with the process that started them, together with all that they started themselves.

A *guard* stands between the two: this file, run as a program. It is the process that ``subprocess`` knows. It starts
the command in a session of its own, passes signals on to it, and kills what is left when either side ends. On Linux
these are all descendants, since orphans come to the guard; elsewhere, or without /proc, they are the process group of
the command. Imports are few, because every process pays for them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

if __name__ != "__main__":
    import subprocess

    class EndingProcess(subprocess.Popen[Any]):
        """A process that ends when the calling process does, however that ends, with all that it started.

        Use it in an environment that starts a simulator. ``subprocess.Popen`` leaves simulators behind when a run or a
        worker is killed. The class is used like ``Popen``, with these differences: the command is a list, runs in a new
        session, and gets no ``preexec_fn``; ``kill`` also ends what the command started, and so does the end of the
        command; ``pid`` is that of a small process that guards the command and passes signals on. On Windows it is a
        plain ``Popen``::

            self.simulator = EndingProcess(["./simulator.sh", "--port", str(port)], cwd=folder)

        Raises:
            OSError: The command cannot be started.
            TypeError: ``shell`` or ``executable`` is given.
        """

        def __init__(self, command: Sequence[str | os.PathLike[str]], **options: Any) -> None:
            if options.keys() & {"shell", "executable"}:
                raise TypeError("EndingProcess takes a command as a list, without shell and executable")
            if not hasattr(os, "fork"):
                super().__init__(command, **options)
                return
            # The guard keeps its end of this pipe until the command runs, or writes why it cannot be started.
            report, guard_end = os.pipe()
            words = [os.fspath(word) for word in command]
            # Without site-packages and variables of Python: the guard starts fast, and imports nothing of others.
            guard = [sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), str(guard_end)]
            options["pass_fds"] = (*options.get("pass_fds", ()), guard_end)
            options["start_new_session"] = True
            options.pop("process_group", None)
            try:
                super().__init__([*guard, *words], **options)
            finally:
                os.close(guard_end)
                with os.fdopen(report, "rb") as file:
                    problem = file.read()  # nothing as soon as the command runs
            if problem:
                self.wait()
                number = int(problem)
                raise OSError(number, os.strerror(number), words[0])

        @property
        def ended(self) -> str | None:
            """How the process ended: ``ended with exit code 1`` or ``was killed by SIGSEGV``; None while it runs."""
            code = self.poll()
            if code is None:
                return None
            if code < 0:
                with suppress(ValueError):
                    return f"was killed by {signal.Signals(-code).name}"
            return f"ended with exit code {code}"

        def send_signal(self, sig: int) -> None:
            """Send a signal to the command; SIGKILL ends all that it started too."""
            if os.name == "posix" and sig == signal.SIGKILL:
                super().send_signal(KILL)
                sig = signal.SIGCONT  # the guard may have been stopped
            super().send_signal(sig)


# SIGKILL would end the guard alone. A command has no use for the signal of a timer that it did not set.
KILL = getattr(signal, "SIGVTALRM", 0)
PASSED_ON = (
    "SIGINT",
    "SIGTERM",
    "SIGHUP",
    "SIGQUIT",
    "SIGUSR1",
    "SIGUSR2",
    "SIGALRM",
    "SIGXCPU",
    "SIGPROF",
    "SIGCONT",
    "SIGWINCH",
)
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LOOK_SECONDS = 0.5  # between two looks at the parent, where the system has no news of its end
SWEEP_SECONDS = 5.0  # that killed processes have to end


def prctl(option: int, value: int) -> None:
    """Call prctl(2) for the current process, on Linux."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def kill_descendants() -> None:
    """Kill the processes that this one started, and those that they started, in whatever sessions they are."""
    parents: dict[int, int] = {}
    with suppress(OSError):  # no /proc
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                # proc(5): pid, the name of the program in parentheses, state, parent. A name may have parentheses.
                _, _, fields = file.read().rpartition(b")")
                parents[int(name)] = int(fields.split()[1])
    processes = [os.getpid()]
    for process in processes:  # the list grows: breadth first
        processes += [child for child, parent in parents.items() if parent == process]
    for process in processes[1:]:
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)


def _guard(parent: int, report: int, command: Sequence[str]) -> None:
    """Run ``command`` until it or ``parent`` ends, and end as it does."""
    import select

    os.set_inheritable(report, False)  # closed by the start of the command, which tells the caller of it
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans of the command become children of the guard, not of init
    news, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    numbers = [getattr(signal, name) for name in PASSED_ON] + [KILL, signal.SIGCHLD]
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    guard = os.getpid()
    child = os.fork()
    if not child:
        try:
            os.setsid()
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:  # the guard ended before the line above
                os._exit(1)
            signal.set_wakeup_fd(-1)
            # Python ignores two signals for itself. The command has what the caller had ignored, and no more.
            before |= {signal.SIGPIPE: None, signal.SIGXFSZ: None}
            for number, handler in before.items():
                signal.signal(number, handler if handler is signal.SIG_IGN else signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.execvp(command[0], list(command))
        except OSError as error:
            os.write(report, str(error.errno).encode())
        finally:
            os._exit(127)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):  # whoever reads from the command notices when it closes them
        os.dup2(nothing, number)
    low, high = sorted((news, wake))  # all others are the command's alone
    os.closerange(3, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, os.sysconf("SC_OPEN_MAX"))
    waits = [news]
    with suppress(OSError, AttributeError):
        waits.append(os.pidfd_open(parent))
    ended: dict[int, int] = {}
    while child not in ended and os.getppid() == parent:
        ready, _, _ = select.select(waits, (), (), LOOK_SECONDS)
        numbers_of_signals = os.read(news, 4096) if news in ready else b""  # a byte for each
        for number in numbers_of_signals:
            if number == KILL:
                _sweep(child, ended)
            elif number != signal.SIGCHLD and child not in ended:
                os.kill(child, number)
        _collect(ended)
    _sweep(child, ended)
    code = os.waitstatus_to_exitcode(ended.get(child, 0))
    if code < 0:
        # Ends by the signal that ended the command, for who waits for it, and without a core dump of its own.
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # SIGKILL
            signal.signal(-code, signal.SIG_DFL)
        os.kill(guard, -code)
    os._exit(code & 255)


def _collect(ended: dict[int, int]) -> bool:
    """Note how children ended, orphans among them. Return whether there are more."""
    try:
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:  # the children that are left still run
                return True
            ended[process] = status
    except ChildProcessError:
        return False


def _sweep(child: int, ended: dict[int, int]) -> None:
    """Kill the command and all that it started, and what these start meanwhile."""
    deadline = monotonic() + SWEEP_SECONDS
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    while _collect(ended) and monotonic() < deadline:
        kill_descendants()
        sleep(0.002)


if __name__ == "__main__":
    _guard(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
