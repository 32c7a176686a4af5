"""Values that RL Zoo writes as texts: ``lin_0.001``, ``auto_0.1``, and Python.

RL Zoo evaluates a text such as ``"dict(net_arch=[64, 64], activation_fn=nn.ReLU)"``. Here it is parsed, and only plain
data is accepted: no code of a file is run.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import attrs

LINEAR = re.compile(r"lin_(?P<initial>\d[\d.]*(?:e[+-]?\d+)?)")
"""A number that falls to 0 over the run, such as ``lin_0.001``."""
AUTO = re.compile(r"auto(?:_(?P<initial>\d[\d.]*(?:e[+-]?\d+)?))?")
"""A temperature that SAC learns, from 1 or from a number, such as ``auto_0.1``."""


@attrs.frozen
class Reference:
    """A class that a text names, such as ``nn.ReLU``. Nothing is imported."""

    name: str


class NotPlain(ValueError):
    """A text is not plain data."""


def literal(text: str) -> Any:
    """Return the value that ``text`` stands for: numbers, texts, lists, mappings, ``dict(...)`` and references.

    Tuples become lists. Raises NotPlain for everything else.
    """
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise NotPlain("is not plain data, such as dict(net_arch=[64]); code in a file is never run") from None


def _value(node: ast.AST) -> Any:
    match node:
        case ast.List(elements) | ast.Tuple(elements):
            return [_value(each) for each in elements]
        case ast.Dict(keys, values):
            names = [_name(key) for key in keys]
            return dict(zip(names, map(_value, values), strict=True))
        case ast.Call(ast.Name("dict"), [], keywords):
            return {_name(ast.Constant(each.arg)): _value(each.value) for each in keywords}
        case ast.Name() | ast.Attribute():
            return _reference(node)
    return ast.literal_eval(node)


def _name(key: ast.AST | None) -> str:
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        return key.value
    raise NotPlain


def _reference(node: ast.Name | ast.Attribute) -> Reference:
    name = ast.unparse(node)
    if not name.replace(".", "").isidentifier():
        raise NotPlain
    return Reference(name)
