"""``python -m rlcore_study.child run ...``: the program ``rlcore``, which does not outlive the process that started it.

Standard input is a pipe whose other end only the parent holds. The system closes it however the parent ends, also by
``kill -9``. The run then gets the SIGTERM that a user would send: it saves a checkpoint and ends.
"""

from __future__ import annotations

import os
import runpy
import signal
import threading
from time import sleep

PATIENCE = 300.0  # seconds for the checkpoint of a run without a parent; then it ends without one


def end_with(pipe: int) -> None:
    """Wait until the other end of ``pipe`` is closed, then end this process like a user does."""
    while os.read(pipe, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    sleep(PATIENCE)
    os.kill(os.getpid(), signal.SIGTERM)  # the second one ends a run at once


def main() -> None:
    # The parent may ignore it, as under submitit. This process needs it for the end of the parent.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    pipe = os.dup(0)  # workers and engines, which inherit standard input, get none of it
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    threading.Thread(target=end_with, args=(pipe,), name="parent", daemon=True).start()
    runpy.run_module("rlcore", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
