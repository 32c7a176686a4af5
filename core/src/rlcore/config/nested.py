"""Blocks within a plugin's block, whose settings class only that plugin can tell: those of its own plugins, say."""

from __future__ import annotations

from typing import Any

from rlcore.config.document import Document
from rlcore.config.problems import KeyPath
from rlcore.config.structure import INVALID, Problems, build


def read_settings(cls: type, data: Any) -> tuple[Any, tuple[tuple[KeyPath, str], ...]]:
    """An instance of the settings class ``cls`` from plain data, and what is wrong with the data.

    The settings are None where anything is. A problem is a path of keys and indices within the block, and a message:
    with the block's own path put before it, one that the method ``problems`` of a curriculum's settings may yield.
    """
    found = _Found()
    settings = build(cls, data, (), found)
    return (None if settings is INVALID else settings), tuple(found.problems)


class _Found(Problems):
    """Keeps problems by their paths; their places in a file are for somebody else to tell."""

    def __init__(self) -> None:
        super().__init__(Document(None, {}))
        self.problems: list[tuple[KeyPath, str]] = []

    def add(self, path: KeyPath, message: str, package: str | None = None) -> None:
        self.problems.append((path, message))
