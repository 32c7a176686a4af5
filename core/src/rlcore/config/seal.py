"""A checksum in the first line of a configuration that rlcore wrote, to notice edits and damage."""

from __future__ import annotations

import hashlib

_SEAL = "# Written by rlcore. SHA-256 of what follows: "


def sealed(text: str) -> str:
    """``text`` below a comment with its SHA-256, which :func:`is_sealed` checks."""
    return f"{_SEAL}{_digest(text)}\n{text}"


def content_sha256(text: str) -> str:
    """The checksum of a configuration, in hexadecimal digits, without the line that :func:`sealed` adds."""
    return _digest(text.partition("\n")[2] if text.startswith(_SEAL) else text)


def is_sealed(text: str) -> bool:
    """Whether ``text`` is, to the letter, what :func:`sealed` returned."""
    first, _, rest = text.partition("\n")
    return first == f"{_SEAL}{_digest(rest)}"


def is_broken(text: str) -> bool:
    """Whether ``text`` begins with a checksum that does not fit."""
    return text.startswith(_SEAL) and not is_sealed(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
