"""Prepares ``metrics.jsonl`` for a resumed run: lines that are kept, repeated or unreadable."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rlcore.files.atomic import write_atomically
from rlcore.files.json_files import parse_json, read_regular

log = logging.getLogger(__name__)

METRICS_FILE = "metrics.jsonl"
DAMAGED = ".damaged"  # added to the name of the file with unreadable lines
MAX_METRICS = 1_000_000_000  # bytes; a million summaries
SHOWN_LINES = 5  # number of line numbers in a message


def keep_until(path: Path, steps: Mapping[str, int]) -> None:
    """Remove the lines after each behavior's step. The file is complete at every moment.

    A last line without a line end was cut short by a crash: it is kept if only the line end is missing. Other
    unreadable lines move to ``metrics.jsonl.damaged``, with a warning.
    """
    content = read_regular(path, MAX_METRICS)
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
    """Return the behavior and the step of a summary."""
    summary = parse_json(line)
    behavior, step = summary["behavior"], summary["step"]
    if not isinstance(behavior, str) or not isinstance(step, int):
        raise TypeError("not a summary")
    return behavior, step


def _append(path: Path, lines: Iterable[bytes]) -> None:
    """Append lines to a file and flush them to disk, because they are then removed from the original file."""
    with path.open("ab") as stream:
        stream.writelines(lines)
        stream.flush()
        os.fsync(stream.fileno())


def _described(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN_LINES])) + (", ..." if len(numbers) > SHOWN_LINES else "")
    return f"line {shown} cannot be read" if len(numbers) == 1 else f"{len(numbers)} lines cannot be read ({shown})"
