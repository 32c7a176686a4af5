"""Problems collected while a document is checked, so that one look shows all of them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rlcore.config.document import Document
from rlcore.config.problems import MAX_PROBLEMS, ConfigErrors, KeyPath, Problem, dotted
from rlcore.errors import PluginError

if TYPE_CHECKING:
    from rlcore.plugins.records import Record

MAX_CALLS = 10 * MAX_PROBLEMS

# Blocks that inherit, by the block they inherit from.
_HEIRS = {"default_settings": "behaviors", "environment": "evaluation"}


class Invalid(enum.Enum):
    INVALID = "a value that was refused; its problem is collected"


INVALID: Final = Invalid.INVALID


class Problems:
    """Collects the problems of one document.

    A step that rewrites the document while it is checked replaces :attr:`document`, which says where values were
    written. ``find_record`` finds the record that a field names, given its kind, name and place; None does not look.
    """

    def __init__(self, document: Document, find_record: Callable[[str, str, KeyPath], Any] | None = None) -> None:
        self.document = document
        self.find_record = find_record
        self._found: dict[tuple[str, str], Problem] = {}
        self._calls = 0

    def add(self, path: KeyPath, message: str, package: str | None = None) -> None:
        """Add a problem with the value at ``path``. A problem that several blocks inherit is kept once.

        ``package`` is what ``pip install`` needs to fix the problem.
        """
        origin = self.document.origin(path)
        where = dotted(origin.path)
        message = " ".join(message.split())
        self._calls += 1
        if self._calls > MAX_CALLS:
            self.raise_any()
        if (where, message) in self._found:
            return
        if origin.path and path and _HEIRS.get(str(origin.path[0])) == path[0]:
            heir = f" (inherited by {dotted(path[:2])})"
        else:
            heir = ""
        self._found[where, message] = Problem(origin.place, where, message + heir, origin.order, package)
        if len(self._found) >= MAX_PROBLEMS:  # the rest would be of the same kind
            self.raise_any()

    def plugin_error(self, path: KeyPath, message: str) -> PluginError:
        """A PluginError with the place of ``path`` in the file: the plugin is wrong, not the file."""
        origin = self.document.origin(path)
        return PluginError(str(Problem(origin.place, dotted(origin.path), message)))

    def raise_any(self) -> None:
        """Raise :class:`ConfigErrors` if there is a problem."""
        if self._found:
            raise ConfigErrors(self._found.values())


class OwnedProblems(Problems):
    """Adds to other problems, and names the plugin of ``record`` in each: a section's name does not say whose it is."""

    def __init__(self, problems: Problems, record: Record) -> None:
        super().__init__(problems.document, problems.find_record)
        self._problems = problems
        self._owner = record.described if record.plugin is None else record.plugin.described

    def add(self, path: KeyPath, message: str, package: str | None = None) -> None:
        self._problems.add(path, f"{message}; section of {self._owner}", package)
