"""The table of PPO's 37 details in the README names functions, classes and settings that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

MEMBER = Path(__file__).parents[1]
ROW = re.compile(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
LINK = re.compile(r"\[`([\w.]+)`\]\(([^)]+\.py)\)")


def names_in(file: Path) -> set[str]:
    """The functions, classes and fields that ``file`` defines, those of classes with the class in front too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def test_each_of_the_37_details_names_what_there_is() -> None:
    rows = ROW.findall((MEMBER / "README.md").read_text(encoding="utf-8"))
    assert [int(number) for number, _ in rows] == list(range(1, 38))
    for number, where in rows:
        links = LINK.findall(where)
        assert links or "ale-py's vectorized form" in where or "not done" in where, number
        for name, file in links:
            assert name in names_in(MEMBER / file), (number, name, file)
