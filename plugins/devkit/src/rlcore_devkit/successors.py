"""Successors of the names in earlier contracts between rlcore and plugins.

``contracts.toml`` is the dated list of what moved; ``rlcore plugins doctor`` answers from it.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

import rlcore
from rlcore import PluginError

PORTING = "the page 'Porting a plugin' has the steps"

_NAME_IN_MODULE = re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'")
_ARGUMENT = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_UNKNOWN_HOOK = re.compile(r"unknown hook '(\w+)'")


@attrs.frozen
class Contract:
    """A part of ``contracts.toml``, which explains the entries."""

    number: int
    date: datetime.date
    moved: dict[str, str] = attrs.field(factory=dict)
    flat: dict[str, list[str]] = attrs.field(factory=dict)
    names: dict[str, list[str]] = attrs.field(factory=dict)
    removed: dict[str, str] = attrs.field(factory=dict)

    def answer(self, name: str) -> tuple[str, str] | None:
        """Return what became of ``name``: ``("moved", its new name)``, ``("removed", what to do instead)``, or None."""
        parts = name.split(".")
        for count in range(len(parts), 0, -1):  # the name, else the modules that it is in
            prefix = ".".join(parts[:count])
            rest = parts[count:]
            if prefix in self.removed:
                return "removed", self.removed[prefix]
            if prefix in self.moved:
                return "moved", ".".join([self.moved[prefix], *rest])
            if parts[0] == "rlcore" and not rest:
                for package, names in self.names.items():
                    if parts[-1] in names:
                        return "moved", f"{package}.{parts[-1]}"
            siblings = f"{'.'.join(parts[: count - 1])}.*"
            for package, modules in self.flat.items():
                is_flat = prefix in modules or siblings in modules
                if is_flat and _is_in(package, rest):
                    return "moved", ".".join([package, *rest])
        return None


def _is_in(package: str, rest: Sequence[str]) -> bool:
    """Whether ``rest``, a name in a module or nothing, can be imported from a package."""
    if len(rest) > 1:
        return False
    # Only the list of the core's own names is at hand: other packages may be absent.
    return package != "rlcore" or all(name in dir(rlcore) for name in rest)


@cache
def contracts() -> tuple[Contract, ...]:
    """All contracts, the first one first."""
    text = (Path(__file__).parent / "contracts.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text).get("contract", ())
    return tuple(Contract(**entry) for entry in entries)


def successor(name: str) -> str | None:
    """Return the sentence about a name that an earlier contract had; None for any other name."""
    current = name
    since = 0
    for contract in contracts():
        kind, text = contract.answer(current) or ("", "")
        if kind == "removed":
            return f"{name} was removed in contract {contract.number}: {text}"
        if kind == "moved":
            current = text
            since = contract.number
    return f"{name} was renamed to {current} in contract {since}" if since else None


def renamed(error: BaseException) -> str:
    """Return the end of a message about an error of a plugin that uses names of earlier contracts; empty for others."""
    missing = [name for each in _chain(error) for name in _missing(each)]
    answers = dict.fromkeys(filter(None, map(successor, missing)))
    if not answers:
        return ""
    return f"; {'; '.join(answers)}; {PORTING}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those that it was raised for."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _missing(error: BaseException) -> Iterator[str]:
    """The names whose absence ``error`` may report."""
    if isinstance(error, PluginError):
        yield from _UNKNOWN_HOOK.findall(str(error))
    elif isinstance(error, ModuleNotFoundError):
        yield error.name or ""
    elif isinstance(error, ImportError):
        match = _NAME_IN_MODULE.search(str(error))
        if match:
            yield f"{match[2]}.{match[1]}"
    elif isinstance(error, TypeError):
        match = _ARGUMENT.search(str(error))
        if match:
            yield f"{match[1]}.{match[2]}"
    elif isinstance(error, AttributeError) and error.name is not None:
        owner: Any = error.obj
        if isinstance(owner, ModuleType):
            yield f"{owner.__name__}.{error.name}"
            return
        cls = owner if isinstance(owner, type) else type(owner)
        for base in cls.__mro__:
            if base.__module__.startswith("rlcore"):
                yield f"{base.__name__}.{error.name}"
