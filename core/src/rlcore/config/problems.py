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
_LONG = 100  # letters of a text that messages show


def shown(value: Any) -> str:
    """A value as an error message shows it: as YAML writes it, and short."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str) and len(value) > _LONG:
        value = value[:_LONG]
    elif isinstance(value, int) and value.bit_length() > 256:
        return "a whole number of many digits"
    elif isinstance(value, Mapping | list | tuple) and len(value) > _LONG:
        return f"a {'mapping' if isinstance(value, Mapping) else 'list'} of {len(value)} entries"
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

    def __str__(self) -> str:
        path = "" if self.place.endswith(f" {self.path}") else self.path  # the place "--set a.b" contains the path
        return ": ".join(part for part in (self.place, path, self.message) if part)


class ConfigErrors(ConfigError):
    """Every error of a configuration. The text is the first; :attr:`problems` holds all, in the file's order.

    ``notes`` are about all of them; the text ends with them and with the notes of the problems.
    """

    def __init__(self, problems: Iterable[Problem], notes: Iterable[str] = ()) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.order))
        self.notes = tuple(notes)
        first, *more = self.problems
        text = f"{first} (and {len(more)} more; rlcore validate shows all)" if more else str(first)
        text = "; ".join((text, *dict.fromkeys(each.note for each in self.problems if each.note), *self.notes))
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
        last = {problem.note: index for index, problem in enumerate(self.problems) if problem.note}
        lines = [
            f"{problem}; {problem.note}" if last.get(problem.note) == index else f"{problem}"
            for index, problem in enumerate(self.problems)
        ]
        return (*lines[:-1], "; ".join((*lines[-1:], *self.notes)))


class Problems:
    """Collects the problems of one document.

    A step that rewrites the document while it is checked replaces :attr:`document`, which says where values were
    written.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
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
        inherits = bool(origin.path and path and _HEIRS.get(str(origin.path[0])) == path[0])
        if inherits and (where, message) in self._found:
            return
        heir = f" (inherited by {dotted(path[:2])})" if inherits else ""
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
