"""How a process of rlcore starts another one of this Python: it runs no code of the working directory unasked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

_EXACT = "sys.path[:] = {path!r}"
_ADDED = "sys.path += [entry for entry in {path!r} if entry not in sys.path]"
_MODULE = "import runpy; sys.argv.pop(0); runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"


def python_command(*arguments: str, added: Sequence[str] | None = None) -> list[str]:
    """Return the command of a process of this Python: ``-m MODULE`` or ``-c PROGRAM``, and its arguments.

    Start every process of Python with it. ``python -m`` alone would import from the working directory first: a
    ``types.py`` there would be run, although no file named it. The process has the flags of this one and its module
    search path, so it imports what this process would: local plugins, and modules beside a configuration, are found by
    their paths::

        subprocess.run(python_command("-m", "rlcore", "status", str(directory)), check=True)

    Args:
        arguments: ``"-m"`` or ``"-c"``, the module or the program, and what follows in ``sys.argv``.
        added: For a process on another host, whose Python may be elsewhere: the search path of the process that asks.
            The entries that the new process lacks come after its own.

    Raises:
        ValueError: The first argument is neither ``-m`` nor ``-c``, or nothing follows it.
    """
    kind, *rest = arguments or ("",)
    if kind not in ("-m", "-c") or not rest:
        raise ValueError(f"{' '.join(arguments)!r}: give -m MODULE or -c PROGRAM, and then its arguments")
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined] # what multiprocessing uses too
    entries = sys.path if added is None else added
    path = [entry or os.getcwd() for entry in entries]  # "" is the working directory of this process
    template = _EXACT if added is None else _ADDED
    search = template.format(path=path)
    program = _MODULE
    if kind == "-c":
        program, *rest = rest
    return [sys.executable, *flags, "-P", "-c", f"import sys; {search}\n{program}", *rest]
