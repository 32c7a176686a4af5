"""Paths such as ``unwrapped.model.opt.gravity[2]``: attributes and indices that lead to a number."""

from __future__ import annotations

import re
from typing import Any

PATH = re.compile(r"[A-Za-z_]\w*(\[\d+\])*(\.[A-Za-z_]\w*(\[\d+\])*)*")


def read(owner: Any, path: str) -> Any:
    """Return the value at the path. Raises AttributeError or LookupError if it does not exist."""
    for part in _parts(path):
        owner = owner[part] if isinstance(part, int) else getattr(owner, part)
    return owner


def write(owner: Any, path: str, value: Any) -> None:
    *way, last = _parts(path)
    for part in way:
        owner = owner[part] if isinstance(part, int) else getattr(owner, part)
    if isinstance(last, int):
        owner[last] = value
    else:
        setattr(owner, last, value)


def last_name(path: str) -> str:
    return next(part for part in reversed(_parts(path)) if isinstance(part, str))


def _parts(path: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.findall(r"\w+", path)]
