"""The public names with their signatures, one line each, as tests/docs/data/public_names.txt records them.

``python docs/generate.py public-names`` prints them. griffe reads the sources; hooks are those of loaded plugins.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator

import api_reference
import griffe

from rlcore import load_plugins

KEPT = ("__init__", "__call__", "__enter__", "__exit__", "__iter__", "__len__", "__getitem__")  # of special methods


def public_names() -> list[str]:
    """Return one line for each hook, public name, and public member of a public class, in order of their paths."""
    found = {f"hook {name}{inspect.signature(spec)}" for name, spec in load_plugins().specifications.items()}
    names = [name for page in api_reference.reference().values() for name in page]
    public = {api_reference.definition(name).path for name in names}
    for name in names:
        found |= set(_lines(api_reference.definition(name), name.path, public))
        found |= {f"{module}.{name.label} is {name.path}" for module in name.imports[1:]}
    return sorted(found)


def _lines(item: griffe.Object, path: str, public: Collection[str]) -> Iterator[str]:
    """Yield the line of an object, and those of the members of a class that no public base has."""
    if isinstance(item, griffe.Class):
        bases = ", ".join(map(str, item.bases))
        yield f"class {path}({bases})" if bases else f"class {path}"
        for name, member in item.all_members.items():
            own = member.final_target if isinstance(member, griffe.Alias) else member
            inherited = name in item.inherited_members and own.parent is not None and own.parent.path in public
            if not inherited and (not name.startswith("_") or name in KEPT):
                yield from _lines(own, f"{path}.{name}", public)
    elif isinstance(item, griffe.Function):
        yield f"{path}{_parameters(item)}{_returned(item)}"
    elif isinstance(item, griffe.Attribute):
        kind = "" if item.annotation is None else f": {item.annotation}"
        default = "" if item.value is None else " = ..."
        yield f"{path}{kind}{default}"
    else:
        yield path


def _parameters(function: griffe.Function) -> str:
    """Return the parameters as in the code; only whether one has a default counts, not which."""
    written = []
    named = False
    parameters = list(function.parameters)
    if function.parent is not None and function.parent.is_class and "staticmethod" not in function.labels:
        parameters = parameters[1:]  # self or cls
    for parameter in parameters:
        star = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(
            parameter.kind, ""
        )
        if parameter.kind is griffe.ParameterKind.keyword_only and not named:
            written.append("*")
        named = named or star == "*" or parameter.kind is griffe.ParameterKind.keyword_only
        kind = "" if parameter.annotation is None else f": {parameter.annotation}"
        default = "" if parameter.default is None or star else " = ..."
        written.append(f"{star}{parameter.name}{kind}{default}")
    return f"({', '.join(written)})"


def _returned(function: griffe.Function) -> str:
    return "" if function.returns is None else f" -> {function.returns}"
