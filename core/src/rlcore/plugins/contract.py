"""The contract between rlcore and plugins: its number, and what each number changed.

The distribution of a plugin declares the contracts that it was written for by keywords in its metadata, such as
``rlcore-plugin-contract-1``, so that they can be compared before anything of the plugin is imported. A distribution
that declares none is tried, and an error about a name of an earlier contract says what became of it.

``contracts.toml`` is the dated list of what moved; messages and ``rlcore plugins doctor`` are made from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs

import rlcore

if TYPE_CHECKING:
    import datetime

CONTRACT = 1
"""The number of the contract between this rlcore and plugins; it is raised when public names move."""
KEYWORD = "rlcore-plugin-contract-"
# Packages from before 0.1 declare `rlcore-contract-N`. The new keyword has another form, so that none of their numbers
# is taken for one of today; all of them count as contract 0.
OLD_KEYWORD = "rlcore-contract-"
BEFORE = 0
PORTING = "the page 'Porting a plugin' has the steps"

_NAME_IN_MODULE = re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'")
_ARGUMENT = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


@attrs.frozen
class Contract:
    """A part of ``contracts.toml``, which explains the entries."""

    number: int
    date: datetime.date
    moved: dict[str, str] = attrs.field(factory=dict)
    flat: dict[str, list[str]] = attrs.field(factory=dict)
    names: dict[str, list[str]] = attrs.field(factory=dict)
    removed: dict[str, str] = attrs.field(factory=dict)
    added: dict[str, str] = attrs.field(factory=dict)

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
    import tomllib

    text = (Path(__file__).parent / "contracts.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text).get("contract", ())
    return tuple(Contract(**entry) for entry in entries)


def declared(keywords: str) -> tuple[int, ...]:
    """The contracts among the keywords of a distribution, however its build backend separates them."""

    def numbers(keyword: str) -> list[str]:
        return re.findall(rf"(?<![\w-]){keyword}(\d+)(?![\w-])", keywords)

    contracts_declared = tuple(map(int, numbers(KEYWORD)))
    if not contracts_declared and numbers(OLD_KEYWORD):
        return (BEFORE,)
    return contracts_declared


def contract_problem(numbers: Sequence[int], distribution: str, version: str) -> str:
    """Why a distribution that declares the contracts ``numbers``, and not this one, does not fit."""
    from rlcore.plugins.installing import pip_install

    newest = max(numbers)
    base = f"contract {' and '.join(map(str, numbers))} of rlcore"
    if newest == BEFORE:
        base = "rlcore before 0.1"
    problem = f"{distribution} {version} is written for {base}, and this rlcore has contract {CONTRACT}"
    if newest > CONTRACT:
        return f"{problem}; {pip_install('rlcore', upgrade=True)}"
    return f"{problem}; {pip_install(distribution, upgrade=True)}, or port it: {PORTING}"


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


def added(name: str) -> str | None:
    """Since which contract an object of a plugin must have ``Class.member``; None if it always had to."""
    for contract in contracts():
        if name in contract.added:
            return f"{name} is new in contract {contract.number}"
    return None


def renamed(error: BaseException) -> str:
    """Return the end of a message about an error of a plugin that uses names of earlier contracts; empty for others."""
    answers = list(filter(None, map(successor, _missing(error))))
    if not answers:
        return ""
    return f"; {'; '.join(answers)}; {PORTING}"


def _missing(error: BaseException) -> Iterator[str]:
    """The names whose absence ``error`` may report."""
    if isinstance(error, ModuleNotFoundError):
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
