"""Problems collected while a document is checked, so that one look shows all of them."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from rlcore.config.document import Document
from rlcore.config.inherit import inherit_defaults
from rlcore.config.nodes import Block
from rlcore.config.problems import MAX_PROBLEMS, ConfigErrors, Problem
from rlcore.errors import ConfigError, KeyPath, NotInstalled, PluginError, dotted

if TYPE_CHECKING:
    from rlcore.records import Record

MAX_CALLS = 10 * MAX_PROBLEMS

# Blocks that inherit, by the block they inherit from.
_HEIRS = {"default_settings": "behaviors", "environment": "evaluation"}


class Invalid(enum.Enum):
    INVALID = "a value that was refused; its problem is collected"


INVALID: Final = Invalid.INVALID


class Records(Protocol):
    """Finds the records that a document names, and builds their blocks."""

    def named(self, kind: str, name: str, path: KeyPath) -> Any:
        """The record, or INVALID after a problem was added; None where it may be absent, and is."""

    def of_kind(self, kind: str) -> Sequence[Record]:
        """All records of a kind."""

    def settings(self, record: Record, data: Any, path: KeyPath) -> Any:
        """The settings of a record, or INVALID."""

    def chosen_block(self, base: type, data: Any, path: KeyPath, problems: Problems) -> Any:
        """A block that is declared as ``base`` and names its record itself, or INVALID."""


class Problems:
    """Collects the problems of one document.

    A step that rewrites the document while it is checked replaces :attr:`document`, which says where values were
    written. Without ``records``, no record that the document names is looked for.
    """

    def __init__(self, document: Document, records: Records | None = None) -> None:
        self.document = document
        self.records = records
        self._found: dict[tuple[str, str], Problem] = {}
        self._calls = 0

    def add(self, path: KeyPath, message: str, package: str | None = None, note: str = "") -> None:
        """Add a problem with the value at ``path``. A problem that several blocks inherit is kept once.

        ``package`` is what ``pip install`` needs to fix the problem. ``note`` may be that of
        several problems and is shown once.
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
        self._found[where, message] = Problem(origin.place, where, message + heir, origin.order, package, note)
        if len(self._found) >= MAX_PROBLEMS:  # the rest would be of the same kind
            self.raise_any()

    def plugin_error(self, path: KeyPath, message: str) -> PluginError:
        """A PluginError with the place of ``path`` in the file: the plugin is wrong, not the file."""
        origin = self.document.origin(path)
        return PluginError(str(Problem(origin.place, dotted(origin.path), message)))

    def raise_any(self) -> None:
        """Raise :class:`ConfigErrors` if there is a problem."""
        if self._found:
            raise self.errors()

    def errors(self) -> ConfigErrors:
        """Return the error that has every problem, of which there must be one."""
        return ConfigErrors(self._found.values())


@contextmanager
def located(document: Document) -> Iterator[None]:
    """Raise a ConfigError of the block again, with the place of its ``key`` in ``document``.

    For errors that are found after the configuration was read, such as those of an environment. An error without a key
    stays as it is.
    """
    try:
        yield
    except ConfigError as error:
        if not error.key:
            raise
        problems = Problems(_with_behavior(document, error.key))
        problems.add(error.key, error.message, error.package if isinstance(error, NotInstalled) else None)
        placed = problems.errors()
        placed.repeats_cause = error.repeats_cause
        raise placed from error


def _with_behavior(document: Document, key: KeyPath) -> Document:
    """The document with the behavior that ``key`` is about, if only the environment names it."""
    behaviors = document.data.get("behaviors", Block())
    if len(key) < 2 or key[0] != "behaviors" or not isinstance(behaviors, Block) or key[1] in behaviors:
        return document
    complete = behaviors.with_entry(str(key[1]), Block(), None)
    data = document.data.with_entry("behaviors", complete, document.data.origins.get("behaviors"))
    return inherit_defaults(attrs.evolve(document, data=data))


class OwnedProblems(Problems):
    """Adds to other problems, and names the plugin of ``record`` in each: a section's name does not say whose it is."""

    def __init__(self, problems: Problems, record: Record) -> None:
        super().__init__(problems.document, problems.records)
        self._problems = problems
        self._owner = record.described if record.plugin is None else record.plugin.described

    def add(self, path: KeyPath, message: str, package: str | None = None, note: str = "") -> None:
        self._problems.add(path, f"{message}; section of {self._owner}", package, note)
