"""The problems of a document: each with its place, its path and what to do; and all of them in one exception."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from rlcore.config.document import Document
from rlcore.errors import ConfigError, KeyPath, PluginError, dotted

MAX_PROBLEMS = 1_000  # collected before reading stops
MAX_CALLS = 10 * MAX_PROBLEMS
# Blocks that inherit, by the block they inherit from.
_HEIRS = {"default_settings": "behaviors", "environment": "evaluation"}
# The codes of problems, for programs; docs/reference/json.md explains each.
INVALID = "invalid-value"
UNKNOWN_KEY = "unknown-key"
UNKNOWN_NAME = "unknown-name"
MISSING_KEY = "missing-key"
NOT_INSTALLED = "not-installed"
UNREADABLE = "unreadable-file"
_LONG = 100  # letters of a text that messages show


def short_repr(value: Any) -> str:
    """A value as an error message shows it: as YAML writes it, and short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 256:
        return "a whole number of many digits"  # Python writes out none of more than 4,300 digits
    if isinstance(value, Mapping | list | tuple) and len(value) > _LONG:
        kind = "mapping" if isinstance(value, Mapping) else "list"
        return f"a {kind} of {len(value)} entries"
    if isinstance(value, str):
        value = value[:_LONG]
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@attrs.frozen
class Problem:
    """One error: where the value was written, which value it is, and what to do."""

    place: str
    path: str
    message: str
    order: int = 0
    package: str | None = None  # installing it with pip would fix this
    note: str = ""  # what may be the cause of several problems, such as plugins that are off
    code: str = INVALID

    def __str__(self) -> str:
        parts = [self.place, self.path, self.message]
        if self.place.endswith(f" {self.path}"):  # the place "--set a.b" contains the path
            parts.remove(self.path)
        return ": ".join(filter(None, parts))


class ConfigErrors(ConfigError):
    """Every error of a configuration. The text is the first; :attr:`problems` holds all, in the file's order.

    ``notes`` are about all of them; the text ends with them and with the notes of the problems.
    """

    def __init__(self, problems: Iterable[Problem], notes: Iterable[str] = ()) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.order))
        self.notes = tuple(notes)
        first, *more = self.problems
        text = str(first)
        if more:
            text += f" (and {len(more)} more; rlcore validate shows all)"
        notes_of_problems = dict.fromkeys(problem.note for problem in self.problems if problem.note)
        text = "; ".join((text, *notes_of_problems, *self.notes))
        packages = dict.fromkeys(problem.package for problem in self.problems if problem.package)
        if len(packages) > 1:  # rlcore without plugins lacks several: one line says what to install
            from rlcore.plugins.installing import pip_install

            text += f"; for all of it: {pip_install(*packages)}"
        super().__init__(text)

    @property
    def messages(self) -> tuple[str, ...]:
        """Each error on one line: ``FILE:LINE: PATH: what is wrong``.

        A note of several problems is at the end of the last of them; what concerns all, at the end of the last line.
        """
        last: dict[str, int] = {}  # the index of the last problem with a note, by the note
        for index, problem in enumerate(self.problems):
            last[problem.note] = index
        lines = []
        for index, problem in enumerate(self.problems):
            line = str(problem)
            if problem.note and last[problem.note] == index:
                line += f"; {problem.note}"
            lines.append(line)
        lines[-1] = "; ".join((lines[-1], *self.notes))
        return tuple(lines)


class Problems:
    """Collects the problems of one document.

    A step that rewrites the document while it is checked replaces :attr:`document`, which says where values were
    written.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self._problems: dict[tuple[str, str], Problem] = {}  # by path and message
        self._calls = 0

    def add(self, path: KeyPath, message: str, package: str | None = None, note: str = "", code: str = INVALID) -> None:
        """Add a problem with the value at ``path``. A problem that several blocks inherit is kept once.

        ``package`` is what ``pip install`` needs to fix the problem. ``note`` may be that of
        several problems and is shown once.
        """
        self._calls += 1
        if self._calls > MAX_CALLS:  # those that are kept once count too: each takes time
            self.raise_any()
        origin = self.document.origin(path)
        place = dotted(origin.path)
        message = " ".join(message.split())
        is_inherited = False
        if origin.path and path:
            is_inherited = _HEIRS.get(str(origin.path[0])) == path[0]
        if is_inherited:
            if (place, message) in self._problems:
                return
            heir = f" (inherited by {dotted(path[:2])})"
        else:
            heir = ""
        problem = Problem(origin.place, place, message + heir, origin.order, package, note, code)
        self._problems[place, message] = problem
        if len(self._problems) >= MAX_PROBLEMS:  # the rest would be of the same kind
            self.raise_any()

    def plugin_error(self, path: KeyPath, message: str) -> PluginError:
        """A PluginError with the place of ``path`` in the file: the plugin is wrong, not the file."""
        origin = self.document.origin(path)
        problem = Problem(origin.place, dotted(origin.path), message)
        return PluginError(str(problem))

    def raise_any(self) -> None:
        """Raise :class:`ConfigErrors` if there is a problem."""
        if self._problems:
            raise self.errors()

    def errors(self) -> ConfigErrors:
        """Return the error that has every problem, of which there must be one."""
        return ConfigErrors(self._problems.values())
