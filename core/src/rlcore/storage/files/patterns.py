"""Checks of the patterns by which plugins declare the files they write into a run directory."""

from __future__ import annotations

from pathlib import PurePosixPath


def pattern_problem(pattern: str) -> str | None:
    """The problem of a pattern of files that a plugin writes; None if it is valid."""
    parts = PurePosixPath(pattern).parts
    if not parts or pattern.startswith("/") or ".." in parts or "\\" in pattern:
        return f"{pattern!r} is not a path within the run directory"
    if any(not part.strip("*?") for part in parts):
        return f"{pattern!r} matches files of any name; a pattern names what the plugin writes"
    return None
