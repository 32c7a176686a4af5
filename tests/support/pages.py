"""The fenced blocks of the README and the pages: commands, configurations and Python."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
from workspace import ROOT

RunPage = Callable[[str], Path]
PAGES = sorted([ROOT / "README.md", ROOT / "core/README.md", *(ROOT / "docs").rglob("*.md")])


@attrs.frozen
class Block:
    """A fenced block: its language, its title if it has one, whether it shows a mistake, and its position."""

    page: str
    line: int
    language: str
    title: str
    invalid: bool
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    opened: int | None = None
    for number, line in enumerate(lines, start=1):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = number
            continue
        info = lines[opened - 1].removeprefix("```")
        title = re.search(r'title="([^"]+)"', info)
        yield Block(
            str(page.relative_to(ROOT)),
            opened,
            info.split()[0] if info.split() else "",
            title[1] if title else "",
            lines[opened - 2] == "<!-- invalid -->",
            "\n".join(lines[opened : number - 1]) + "\n",
        )
        opened = None
    assert opened is None, f"{page}:{opened}: the block is not closed"


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def blocks(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def commands_of(block: Block) -> Iterator[list[str]]:
    for line in block.text.splitlines():
        for part in line.split(" && "):
            words = shlex.split(part.split(" > ")[0], comments=True)
            if words[:1] == ["rlcore"]:
                yield words[1:]


def names_of(page: str, word: str) -> dict[str, Any]:
    """Return the names that the only Python block with ``word`` on a page defines."""
    (block,) = (block for block in blocks("python") if block.page == page and word in block.text)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(block.text, str(block), "exec"), names)
    return names


def run_python_of(page: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks("python"):
        if block.page == page:
            exec(compile(block.text, str(block), "exec"), names)
    return names


def lines_of_code(code: str) -> int:
    """The lines that are neither empty nor a comment nor part of a docstring."""
    texts = [each for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Expr)]
    texts = [each for each in texts if isinstance(each.value, ast.Constant)]
    prose = {line for each in texts for line in range(each.lineno, (each.end_lineno or each.lineno) + 1)}
    written = [n for n, text in enumerate(code.splitlines(), 1) if text.strip() and not text.strip().startswith("#")]
    return len(set(written) - prose)
