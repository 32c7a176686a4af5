"""No module of the core needs itself, also not by an import inside a function or one for type checkers alone."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter

import pytest
from workspace import ROOT

SOURCE = ROOT / "core/src"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (SOURCE / "rlcore").rglob("*.py")
}


def imported(module: str) -> set[str]:
    """The modules of rlcore that ``module`` imports anywhere in its file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports of this project are absolute"
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                found.add(inner if inner in MODULES else str(node.module))
    return found & MODULES.keys() - {module}


def test_there_is_no_circle_of_imports_in_the_core() -> None:
    try:
        TopologicalSorter({module: imported(module) for module in MODULES}).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]), pytrace=False)
