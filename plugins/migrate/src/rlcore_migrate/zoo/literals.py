"""Values that RL Zoo writes as Python, such as ``"dict(net_arch=[64, 64], activation_fn=nn.ReLU)"``.

RL Zoo evaluates such a text. Here it is parsed, and only plain data is accepted: no code of a file is run.
"""

from __future__ import annotations

import ast
from typing import Any

import attrs

__all__ = ["NotPlain", "Reference", "literal"]


@attrs.frozen
class Reference:
    """A class that a text names, such as ``nn.ReLU``. Nothing is imported."""

    name: str


class NotPlain(ValueError):
    """A text is not plain data; the message says which part."""


def literal(text: str) -> Any:
    """Return the value that ``text`` stands for: numbers, texts, lists, mappings, ``dict(...)`` and references.

    Tuples become lists. Raises NotPlain for everything else.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return _value(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, NotPlain):
            raise
        raise NotPlain("is not an expression of Python") from None


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)) if number is not True:
            return -number
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(element) for element in elements]
        case ast.Dict(keys=keys, values=values):
            names = [key.value if isinstance(key, ast.Constant) else None for key in keys]
            if all(isinstance(name, str) for name in names):
                return {name: _value(value) for name, value in zip(names, values, strict=True)}
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            if all(keyword.arg is not None for keyword in keywords):
                return {keyword.arg: _value(keyword.value) for keyword in keywords}
        case ast.Name() | ast.Attribute():
            return Reference(_dotted(node))
    raise NotPlain(f"contains {ast.unparse(node)[:60]!r}, which is not plain data; code in a file is never run")


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            return f"{_dotted(value)}.{attribute}"
    raise NotPlain(f"contains {ast.unparse(node)[:60]!r}, which is not plain data; code in a file is never run")
