"""``metrics.jsonl`` as a resumed run finds it: what is kept, what is taken again, what cannot be read."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rlcore.files.atomic import write_atomically
from rlcore.files.json_files import open_regular, parse_json

log = logging.getLogger(__name__)

METRICS_FILE = "metrics.jsonl"
DAMAGED = ".damaged"  # added to the name: the file of lines that cannot be read
SHOWN_LINES = 5  # numbers of damaged lines in a message


def keep_until(path: Path, steps: Mapping[str, int]) -> None:
    """Removes the lines past each behavior's step; the file is whole at every moment.

    A last line without its end is what a crash cut short: the line is kept if nothing but the end is missing. Other
    lines that cannot be read are moved to ``metrics.jsonl.damaged``, with a warning.
    """
    with open_regular(path) as file:
        content = file.read()
    kept: list[bytes] = []
    damaged: dict[int, bytes] = {}  # by line number
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            behavior, step = _whose(line)
            if step <= steps.get(behavior, 0):
                kept.append(line + b"\n")
        except (ValueError, LookupError, TypeError):
            damaged[number] = line + b"\n"
    if content and not content.endswith(b"\n"):
        damaged.pop(content.count(b"\n") + 1, None)
    if damaged:
        aside = path.with_name(path.name + DAMAGED)
        _append(aside, damaged.values())
        log.warning("%s: %s; moved to %s", path, _described(list(damaged)), aside.name)
    if b"".join(kept) != content:
        write_atomically(path, b"".join(kept))


def _whose(line: bytes) -> tuple[str, int]:
    """Behavior and step of a summary."""
    summary = parse_json(line)
    behavior, step = summary["behavior"], summary["step"]
    if not isinstance(behavior, str) or not isinstance(step, int):
        raise TypeError("not a summary")
    return behavior, step


def _append(path: Path, lines: Iterable[bytes]) -> None:
    """Adds to a file and waits until the lines are on the disk: they are about to be removed where they were."""
    with path.open("ab") as stream:
        stream.writelines(lines)
        stream.flush()
        os.fsync(stream.fileno())


def _described(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN_LINES])) + (", ..." if len(numbers) > SHOWN_LINES else "")
    return f"line {shown} cannot be read" if len(numbers) == 1 else f"{len(numbers)} lines cannot be read ({shown})"
