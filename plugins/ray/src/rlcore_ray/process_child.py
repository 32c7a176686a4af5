"""``python -m rlcore_ray.process_child PARENT ARGUMENTS...`` becomes ``python -m rlcore ARGUMENTS...``.

The process ends with the actor that started it. A process of Ray has SIGINT blocked, which a child inherits; a run
needs SIGINT to save a checkpoint.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
ACTOR_GONE = 1


def main() -> None:
    """Replace this process by rlcore; ``PARENT`` is the number of the actor's process."""
    parent, *arguments = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # it ended before the line above
        os._exit(ACTOR_GONE)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execv(sys.executable, [sys.executable, "-m", "rlcore", *arguments])


if __name__ == "__main__":
    main()
