"""The program of a worker process, which :mod:`rlcore_workers.processes` starts.

The process ends with the run, whatever ends the run, and so do those that environments started: it is an
:class:`rlcore_workers.EndingProcess`. The loop ends with its channel.
"""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import mmap
import os
import pickle
import signal
import socket
import sys
from contextlib import suppress
from multiprocessing import current_process, spawn
from typing import Any

from rlcore_workers.channel import ANSWER, ATTACH, CALL, FAILED, STEP, Channel
from rlcore_workers.ending_process import kill_descendants

PR_SET_PDEATHSIG = 1  # of prctl(2): the signal that the end of the parent sends
# The run decides when a worker ends: a terminal and a batch system send these to every process.
IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGXCPU", "SIGALRM")
DUMP = signal.SIGPROF  # the run sends it to a worker that hangs


def main() -> None:
    """Serve one worker of the run at the other end of the socket, until the run closes it."""
    descriptor = int(sys.argv[1])
    guard = os.getppid()
    signal.signal(signal.SIGUSR2, lambda *_: _end_after(guard))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGUSR2, 0, 0, 0)
    for name in IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the run blocked signals until here
    faulthandler.enable()
    faulthandler.register(DUMP)
    logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s", level=logging.WARNING)
    os.set_inheritable(descriptor, False)
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        _, (preparation, level, task) = channel.receive()
    except (EOFError, OSError):
        os._exit(0)
    try:
        logging.getLogger("rlcore").setLevel(level)
        _import_main(preparation)
    except BaseException as error:
        _fail(channel, error)
    else:
        with suppress(EOFError, OSError):
            _serve(channel, task)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads and exit handlers of environments must not keep the process alive


def _end_after(guard: int) -> None:
    """End if the ``guard`` was killed: what environments started must not outlive it.

    A batch system may send the signal too, while the guard is there.
    """
    if os.getppid() != guard:
        kill_descendants()
        os._exit(1)


def _import_main(preparation: dict[str, Any]) -> None:
    """Import the main module as multiprocessing does; what must not happen meanwhile is refused by this mark of its."""
    this: Any = current_process()
    this._inheriting = True
    try:
        spawn.prepare(preparation)
    finally:
        del this._inheriting


def _serve(channel: Channel, task: bytes) -> None:
    from rlcore import hide_overflow_warnings
    from rlcore_workers.part import Part

    hide_overflow_warnings()
    part: Any = None
    while True:
        kind, value = channel.receive()
        try:
            if kind == STEP:
                answer = part.step()
            elif kind == ATTACH:
                answer = part.attach(_arrays(channel, value))
            else:
                assert kind == CALL
                method, arguments = value
                if part is None:
                    part = Part(pickle.loads(task))  # nosec B301 # from the run, which started this process
                answer = getattr(part, method)(*arguments)
            if answer is None:
                channel.send_done()
            else:
                channel.send(ANSWER, answer)
        except (EOFError, OSError) as error:
            if _is_of(channel, error):
                raise
            _fail(channel, error)
        except BaseException as error:
            _fail(channel, error)


def _is_of(channel: Channel, error: BaseException) -> bool:
    """Whether it was the run that went away, not something that an environment uses."""
    try:
        return not channel.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _arrays(channel: Channel, value: Any) -> Any:
    from rlcore_workers.arrays import BatchArrays

    layout, number = value
    _, descriptors, _, _ = socket.recv_fds(channel.socket, 1, 1)
    try:
        memory = mmap.mmap(descriptors[0], layout.size)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return BatchArrays(layout, memory).part(number)


def _fail(channel: Channel, error: BaseException) -> None:
    """Send an error: its type and text, and its traceback as text."""
    from rlcore_workers.contract import WorkerFailed

    failure = WorkerFailed.of(error)
    with suppress(OSError):
        channel.send(FAILED, (str(failure), failure.details, failure.raised))


if __name__ == "__main__":
    main()
