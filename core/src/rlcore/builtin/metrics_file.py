"""Prepares ``metrics.jsonl`` for a resumed run: lines that are kept, repeated or unreadable."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlcore.storage.files.atomic import free_name, write_atomically
from rlcore.storage.files.json_files import parse_json, read_regular

log = logging.getLogger(__name__)

METRICS_FILE = "metrics.jsonl"
DAMAGED = ".damaged"  # added to the name of the file with unreadable lines
MAX_METRICS = 1_000_000_000  # bytes; a million summaries
SHOWN_LINES = 5  # number of line numbers in a message


def keep_until(path: Path, steps: Mapping[str, int]) -> Path | None:
    """Remove the lines after each behavior's step; lines of behaviors without a step stay. Never leaves half a file.

    A last line without a line end was cut short by a crash: it is kept if only the line end is missing. Other
    unreadable lines move to a new file, ``metrics.jsonl.damaged`` if the name is free, with a warning. Returns it.
    """
    content = read_regular(path, MAX_METRICS)
    kept: list[bytes] = []
    damaged: dict[int, bytes] = {}  # by line number
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            behavior, step = _whose(line)
            if behavior not in steps or step <= steps[behavior]:
                kept.append(line + b"\n")
        except (ValueError, LookupError, TypeError):
            damaged[number] = line + b"\n"
    if content and not content.endswith(b"\n"):
        damaged.pop(content.count(b"\n") + 1, None)
    aside = None
    if damaged:
        aside = free_name(path, DAMAGED)
        write_atomically(aside, b"".join(damaged.values()))
        log.warning("%s: %s; moved to %s", path, _described(list(damaged)), aside.name)
    if b"".join(kept) != content:
        write_atomically(path, b"".join(kept))
    return aside


def _whose(line: bytes) -> tuple[str, int]:
    """Return the behavior and the step of a summary."""
    summary = parse_json(line)
    behavior, step = summary["behavior"], summary["step"]
    if not isinstance(behavior, str) or not isinstance(step, int):
        raise TypeError("not a summary")
    return behavior, step


def _described(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN_LINES])) + (", ..." if len(numbers) > SHOWN_LINES else "")
    return f"line {shown} cannot be read" if len(numbers) == 1 else f"{len(numbers)} lines cannot be read ({shown})"
