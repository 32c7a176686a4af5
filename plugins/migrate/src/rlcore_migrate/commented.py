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

    def text(self, head: Iterable[str]) -> str:
        """Return the file as text: the paragraphs of ``head`` as a comment, then the values."""
        lines = [f"# {line}" for paragraph in head for line in _wrapped(paragraph)]
        return "\n".join([*lines, *_lines(self.entries, 0)]) + "\n"


def _safe(comment: str) -> str:
    """A comment of one line, whatever the texts of the other file contain."""
    return cells(comment)[0]


def _wrapped(paragraph: str) -> list[str]:
    paragraph = _safe(paragraph)
    after = "  " if paragraph.startswith("- ") else ""
    return textwrap.wrap(paragraph, WIDTH - 2, subsequent_indent=after, break_long_words=False, break_on_hyphens=False)


def _plain(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {key: each.value if isinstance(each, Line) else _plain(each) for key, each in entries.items()}


def _lines(entries: Mapping[str, Any], depth: int) -> Iterable[str]:
    indent = "  " * depth
    for key, each in entries.items():
        name = scalar(key)
        if not isinstance(each, Line):
            yield f"{indent}{name}:"
            yield from _lines(each, depth + 1)
        elif isinstance(each.value, list) and any(isinstance(item, Mapping) for item in each.value):
            yield _with_comment(f"{indent}{name}:", each.comment, indent)
            yield from (f"{indent}  - {flow(item)}" for item in each.value)
        else:
            yield _with_comment(f"{indent}{name}: {flow(each.value)}", each.comment, indent)


def _with_comment(line: str, comment: str, indent: str) -> str:
    if not comment:
        return line
    behind = f"{line}  # {comment}"
    return behind if len(behind) <= WIDTH else f"{indent}# {comment}\n{line}"


def flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def scalar(value: Any) -> str:
    """Return a number or text as every reader of YAML reads it back, 1.0e-05 and not 1e-05, a text for some."""
    if isinstance(value, float) and math.isfinite(value):
        digits, exponent, power = repr(value).partition("e")
        point = "" if "." in digits or not exponent else ".0"
        return f"{digits}{point}{exponent}{power}"
    text = yaml_text(value, default_flow_style=True, width=math.inf, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("...").removesuffix("\n")
