"""A forked process of ``test_hostile_inputs.py``: it runs one command and measures it.

The fork server has imported what commands import, so that only what they do counts.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time

import h5py  # noqa: F401
from fault_child import command


def measured(argv: list[str], directory: str) -> None:
    """Runs a command that is handed hostile input; writes processor seconds and megabytes to ``cost``.

    Modules of ``directory`` can be imported, if the command does.
    """
    sys.path.insert(0, directory)
    began = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    try:
        command(argv, directory)
    finally:
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        with open(os.path.join(directory, "cost"), "w") as file:
            json.dump({"seconds": time.process_time() - began, "megabytes": megabytes}, file)
