"""Values that RL Zoo writes as Python, such as ``"dict(net_arch=[64, 64], activation_fn=nn.ReLU)"``.

RL Zoo evaluates such a text. Here it is parsed, and only plain data is accepted: no code of a file is run.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import attrs

__all__ = ["NotPlain", "Reference", "literal"]


@attrs.frozen
class Reference:
    """A class that a text names, such as ``nn.ReLU``. Nothing is imported."""

    name: str


class NotPlain(ValueError):
    """A text is not plain data."""


class _Plain(ast.NodeTransformer):
    """Makes literals of what :func:`ast.literal_eval` does not know; the rest it refuses."""

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        return self.visit(ast.List(node.elts))

    def visit_Call(self, node: ast.Call) -> Any:
        if ast.unparse(node.func) != "dict" or node.args:
            raise NotPlain
        return self.visit(
            ast.Dict([ast.Constant(each.arg) for each in node.keywords], [each.value for each in node.keywords])
        )

    def visit_Dict(self, node: ast.Dict) -> Any:
        if not all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in node.keys):
            raise NotPlain
        return self.generic_visit(node)

    def visit_Name(self, node: ast.expr) -> Any:
        name = ast.unparse(node)
        if re.fullmatch(r"[\w.]+", name) is None:
            raise NotPlain
        reference: Any = Reference(name)
        return ast.Constant(reference)

    visit_Attribute = visit_Name


def literal(text: str) -> Any:
    """Return the value that ``text`` stands for: numbers, texts, lists, mappings, ``dict(...)`` and references.

    Tuples become lists. Raises NotPlain for everything else.
    """
    try:
        return ast.literal_eval(_Plain().visit(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise NotPlain("is not plain data, such as dict(net_arch=[64]); code in a file is never run") from None
