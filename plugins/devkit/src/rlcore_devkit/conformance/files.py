"""Files of a plugin: read all, damage each, and restore them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

OTHER = b"\x00another file" * 100


def contents(root: Path) -> dict[Path, bytes]:
    """Return the content of every file below a directory, or that of the file itself."""
    if root.is_file():
        return {root: root.read_bytes()}
    paths = sorted(root.rglob("*"))
    return {path: path.read_bytes() for path in paths if path.is_file()}


def damages(root: Path) -> list[Callable[[], object]]:
    """Return functions that each cut one file of :func:`contents` in half, or overwrite it."""
    writes: list[Callable[[], object]] = []
    for path, content in contents(root).items():
        half = len(content) // 2
        for damaged in (content[:half], OTHER):
            writes.append(partial(path.write_bytes, damaged))
    return writes


def restore(root: Path, intact: Mapping[Path, bytes]) -> None:
    """Write the files as they were, and delete others, such as a journal."""
    present = contents(root).keys()
    for path in present - intact.keys():
        path.unlink()
    for path, content in intact.items():
        path.write_bytes(content)
