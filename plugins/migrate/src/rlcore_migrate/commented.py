"""Writing a configuration whose lines say where their values come from."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from rlcore import cells, yaml_text

WIDTH = 120  # of a line of the file


@attrs.frozen
class Line:
    """A value with the comment behind it."""

    value: Any
    comment: str


@attrs.define
class CommentedFile:
    """A configuration with a comment on each value, in the order in which values are added.

    Attributes:
        entries: Values with their comments, and blocks, by key.
    """

    entries: dict[str, Any] = attrs.field(factory=dict)

    def put(self, path: Iterable[str], value: Any, comment: str) -> None:
        """Add a value: a number, a text, a list or a mapping, which is written in one line, or a list of mappings."""
        *blocks, key = path
        node = self.entries
        for name in blocks:
            node = node.setdefault(name, {})
        node[key] = Line(value, _safe(comment))

    def data(self) -> dict[str, Any]:
        """Return the values without comments."""
        return _plain(self.entries)

    def text(self, origin: str, lists: Mapping[str, Iterable[str]]) -> str:
        """Return the file as text: ``origin`` and ``lists``, by their titles, as a comment, then the values.

        A list without items is left out with its title.
        """
        paragraphs = [origin]
        for title, items in lists.items():
            points = [f"- {item}" for item in items]
            if points:
                paragraphs += [title, *points]
        lines = [f"# {line}" for paragraph in paragraphs for line in _wrapped(paragraph)]
        return "\n".join([*lines, *_lines(self.entries, 0)]) + "\n"


def _safe(comment: str) -> str:
    """A comment of one line, whatever the texts of the other file contain."""
    (line,) = cells(comment)
    return line


def _wrapped(paragraph: str) -> list[str]:
    paragraph = _safe(paragraph)
    indent = "  " if paragraph.startswith("- ") else ""
    width = WIDTH - len("# ")
    # Neither names of keys nor options with hyphens are split: they are searched for.
    return textwrap.wrap(paragraph, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _plain(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry.value if isinstance(entry, Line) else _plain(entry) for key, entry in entries.items()}


def _lines(entries: Mapping[str, Any], depth: int) -> Iterable[str]:
    indent = "  " * depth
    for key, entry in entries.items():
        start = f"{indent}{scalar(key)}:"
        if not isinstance(entry, Line):
            yield start
            yield from _lines(entry, depth + 1)
            continue
        value = entry.value
        if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            yield _with_comment(start, entry.comment, indent)
            for item in value:
                yield f"{indent}  - {flow(item)}"
        else:
            yield _with_comment(f"{start} {flow(value)}", entry.comment, indent)


def _with_comment(line: str, comment: str, indent: str) -> str:
    """The line with the comment behind it, or above it where both are too long for one line."""
    if not comment:
        return line
    together = f"{line}  # {comment}"
    if len(together) <= WIDTH:
        return together
    return f"{indent}# {comment}\n{line}"


def flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    if isinstance(value, Mapping):
        entries = ", ".join(f"{scalar(key)}: {flow(inner)}" for key, inner in value.items())
        return f"{{{entries}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow, value))}]"
    return scalar(value)


def scalar(value: Any) -> str:
    """Return a number or text as every reader of YAML reads it back, 1.0e-05 and not 1e-05, a text for some."""
    if isinstance(value, float) and math.isfinite(value):
        digits, exponent, power = repr(value).partition("e")
        if exponent and "." not in digits:  # YAML 1.1 reads 1e-05 as a text
            digits += ".0"
        return f"{digits}{exponent}{power}"
    text = yaml_text(value, default_flow_style=True, width=math.inf, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("...").removesuffix("\n")
