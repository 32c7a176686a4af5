"""Tables of the commands as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rlcore import cells


def columns(rows: Iterable[Sequence[Any]]) -> list[str]:
    """A line for each row, in which each column is as wide as its longest text. There is at least one row."""
    texts = [cells(*row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in texts]
