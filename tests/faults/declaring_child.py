"""``declaring_child.py RUN_DIRECTORY WORDS...``: ``rlcore WORDS``, and what it makes that the mark does not name.

An audit hook of Python sees every file and folder that the process makes. Each has to be in the mark when it is made.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from rlcore.cli.main import main
from rlcore.files.lock import LOCK
from rlcore.files.writing import is_leftover
from rlcore.storage.mark import CHECKPOINTS, LOGS, Mark, read_mark

# The run makes these before it has a mark, and they alone do not keep it from starting.
BARE = (".", LOCK, LOGS)


def main_of_child(directory: Path, words: list[str]) -> int:
    undeclared: list[str] = []

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.mkdir" or (event == "open" and arguments[2] & os.O_CREAT):
            made = arguments[0]
        elif event == "os.rename":
            made = arguments[1]
        else:
            return
        if not isinstance(made, str | os.PathLike):
            return
        path = Path(os.path.abspath(made))
        if not path.is_relative_to(directory):
            return
        relative = path.relative_to(directory)
        if str(relative) in BARE or relative.parts[0] == CHECKPOINTS or any(map(is_leftover, relative.parts)):
            return
        mark = read_mark(directory) or Mark()
        if not mark.has_name(relative.as_posix()):
            undeclared.append(f"{event} {relative}")

    sys.addaudithook(look)
    code = main(words)
    print("undeclared:", undeclared)
    return code


if __name__ == "__main__":
    sys.exit(main_of_child(Path(sys.argv[1]), sys.argv[2:]))
