"""The module ``plugin`` of a package with several kinds: the hooks of all, with their imports together."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Sequence

LINE_LENGTH = 120
_IMPORT = re.compile(r"( *)from (\S+) import ([^(\n]+)")


def merged(sources: Sequence[str]) -> str:
    """Return one module with the hooks of all ``sources``, which have a docstring, imports and functions."""
    trees = [ast.parse(source) for source in sources]
    plain = _imports(node for tree in trees for node in tree.body)
    typing = _imports(node for tree in trees for each in tree.body if isinstance(each, ast.If) for node in each.body)
    parts = [_docstring(sources[0], trees[0]), _block(plain)]
    if typing:
        parts.append("if TYPE_CHECKING:\n" + "".join(f"    {line}\n" for line in _block(typing).splitlines() if line))
    header = "\n".join(parts)
    bodies = [_after_imports(source, tree) for source, tree in zip(sources, trees, strict=True)]
    return "\n\n".join([header, *bodies])


def wrapped(text: str) -> str:
    """Return the source with imports that do not fit in a line split as ``ruff format`` splits them."""
    lines = []
    for line in text.splitlines(keepends=True):
        found = _IMPORT.fullmatch(line.rstrip("\n"))
        lines.append(line if found is None or len(line) <= LINE_LENGTH + 1 else _split(*found.groups()))
    return "".join(lines)


def _split(indent: str, module: str, names: str) -> str:
    inside = f"{indent}    {names}"
    if len(inside) > LINE_LENGTH or "," in names:  # one name a line
        inside = "\n".join(f"{indent}    {name.strip()}," for name in names.split(","))
    else:
        inside += ","
    return f"{indent}from {module} import (\n{inside}\n{indent})\n"


def _docstring(source: str, tree: ast.Module) -> str:
    end = tree.body[0].end_lineno
    return "".join(source.splitlines(keepends=True)[:end])


def _imports(nodes: Iterable[ast.stmt]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            found.setdefault(node.module, set()).update(alias.name for alias in node.names)
    return found


def _block(imports: dict[str, set[str]]) -> str:
    """The imports in the order of isort: __future__, the standard library, the rest."""
    groups: dict[int, list[str]] = {}
    for module in sorted(imports):
        top = module.partition(".")[0]
        place = 0 if top == "__future__" else 1 if top in sys.stdlib_module_names else 2
        names = ", ".join(sorted(imports[module], key=_place_in_line))
        groups.setdefault(place, []).append(wrapped(f"from {module} import {names}\n"))
    return "\n".join("".join(groups[place]) for place in sorted(groups))


def _place_in_line(name: str) -> tuple[int, str]:
    """Constants, classes, functions: the order of isort within a line."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def _after_imports(source: str, tree: ast.Module) -> str:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign)]
    first = functions[0]
    decorators = first.decorator_list if isinstance(first, ast.FunctionDef | ast.ClassDef) else []
    start = min(node.lineno for node in (first, *decorators)) - 1
    return "".join(source.splitlines(keepends=True)[start:])
