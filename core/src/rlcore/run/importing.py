"""Refuses runs that start because a new process imports the main module of a program."""

from __future__ import annotations

import sys
from multiprocessing import current_process

from rlcore.errors import RunStateError


def refuse_while_main_is_imported() -> None:
    """Raise RunStateError in a process that imports the main module of the one that started it.

    Workers do so, and processes that ``multiprocessing`` spawns. A run there would be that of the program once more.
    """
    if getattr(current_process(), "_inheriting", False):
        program = sys.argv[0] or "the program"
        raise RunStateError(
            f"a new process, such as a worker, imports {program}, which starts a run when it is imported; "
            'put the lines that start the run under `if __name__ == "__main__":`'
        )
