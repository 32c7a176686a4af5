"""Docstrings stand alone in ``help()``, code and pages avoid mannerisms that are hard to read, spelling is American.

PATHS lists the files that are checked.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from workspace import ROOT

pytestmark = pytest.mark.lint

PATHS = ("README.md", "SECURITY.md", "docs", "examples", "benchmarks", "builtin_trainers", "core", "plugins", "tests")

# A docstring that begins so needs the object before it to be understood.
UNCLEAR_STARTS = re.compile(
    r"(The same|Those|These|It|Its|So do|So does|Of|They|That|One that|What|Which|Likewise|Also)\b"
)

MANNERISMS = re.compile(
    r"\b(mend(s|ed|ing)?|anew|nobody|somebody|anybody|for ever|misspelt"
    r"|(go|goes|going|went|gone) on (with|from|where)|(take|takes|took|taken|taking) up"
    r"|(tell|tells|told|hear|hears|heard) of|(?<!there )is no (?!longer\b)(?!more\b))\b",
    re.IGNORECASE,
)


# In names of code too, because settings and PyTorch have "optimizer" and "normalize"; but ``Curriculum.summarised``.
BRITISH = re.compile(
    r"((normal|initial|standard|vector|summar|general|priorit|random|optim|minim|maxim|serial|recogn|organ)is(?=e|ation|ing)"
    r"|behaviour|colour|favour|neighbour|honour|labelled|licence|grey)",
    re.IGNORECASE,
)


def files(suffix: str) -> list[Path]:
    paths = [ROOT / path for path in PATHS]
    found = {file for path in paths for file in ([path] if path.is_file() else path.rglob(f"*{suffix}"))}
    return sorted(file for file in found if file.suffix == suffix and file != Path(__file__))  # which quotes


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of the docstrings of the module and of its public classes, functions and methods."""
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name.startswith("_"):
            continue
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text
        if isinstance(node, (ast.Module, ast.ClassDef)):
            pending.extend(node.body)


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of all comments and strings."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if tokenize.tok_name[token.type] in ("COMMENT", "STRING", "FSTRING_MIDDLE"):  # the last one from Python 3.12 on
            yield token.start[0], token.string


def unclear(source: str) -> list[str]:
    return [f"line {line}: {text.splitlines()[0]}" for line, text in docstrings(source) if UNCLEAR_STARTS.match(text)]


def mannered(texts: Iterator[tuple[int, str]]) -> list[str]:
    found = []
    for first, text in texts:
        for match in MANNERISMS.finditer(re.sub(r"\s", " ", text)):
            found.append(f"line {first + text.count(chr(10), 0, match.start())}: {match[0]!r}")
    return found


def found_in(suffixes: Iterable[str], check: Callable[[Path, str], list[str]]) -> str:
    """The findings of all files, each with its file: one test for all, because a test costs more than a file."""
    found = [(file, each) for suffix in suffixes for file in files(suffix) for each in check(file, read(file))]
    return "\n".join(f"{name_of(file)}: {each}" for file, each in found)


@cache
def read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def test_docstrings_are_understood_without_their_surroundings() -> None:
    assert found_in([".py"], lambda file, text: unclear(text)) == ""


def test_prose_has_no_mannerisms() -> None:
    def check(file: Path, text: str) -> list[str]:
        return mannered(prose_of(text) if file.suffix == ".py" else iter([(1, text)]))

    assert found_in([".py", ".md"], check) == ""


def british(text: str) -> list[str]:
    return [match[0] for match in BRITISH.finditer(text.replace("summarised", ""))]


def test_spelling_is_american() -> None:
    assert found_in([".py", ".md"], lambda file, text: british(text)) == ""
