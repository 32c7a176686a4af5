"""Settings of a block that only a plugin knows: for example a block for one of the plugin's own plugins."""

from __future__ import annotations

from typing import Any

from rlcore.config.collected import INVALID, Problems
from rlcore.config.document import Document
from rlcore.config.structure import build
from rlcore.errors import KeyPath


def read_settings(cls: type, data: Any) -> tuple[Any, tuple[tuple[KeyPath, str], ...]]:
    """An instance of the settings class ``cls`` from plain data, and what is wrong with the data.

    The settings are None if anything is wrong. A problem is a path of keys and indices within the block, and a message.
    The method ``problems`` of a curriculum's settings may yield it with the block's own path before it.
    """
    found = _Found()
    settings = build(cls, data, (), found)
    return (None if settings is INVALID else settings), tuple(found.problems)


class _Found(Problems):
    """Keeps problems by their paths; the caller knows their places in a file."""

    def __init__(self) -> None:
        super().__init__(Document(None))
        self.problems: list[tuple[KeyPath, str]] = []

    def add(self, path: KeyPath, message: str, package: str | None = None, note: str = "") -> None:
        self.problems.append((path, f"{message}; {note}" if note else message))
