"""A configuration before it is checked: mappings and lists that know where each of their entries was written.

A node is a dict or a list with an :class:`Origin` for each entry. Moving, merging or copying a node moves the origins
with it, so an error about a value that ended up elsewhere still points to where the user wrote it. Nodes are not
changed once they are part of a document: a step that rewrites a document makes new nodes.

:mod:`rlcore.config.problems` collects the errors of a document, each with its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from rlcore.errors import KeyPath

AFTER_THE_FILE = 1 << 30  # the order of overrides among errors: after every line


@attrs.frozen
class Origin:
    """Where a value was written."""

    place: str  # "cartpole.yaml:12", "--set env_settings.seed", "--seed", or "" for data made in Python
    order: int  # the line; overrides come after every line
    path: KeyPath  # as written there: a value that a behavior inherits keeps the path in default_settings

    def below(self, rest: KeyPath) -> Origin:
        """Return the origin of the entry at the path ``rest`` within this value."""
        return attrs.evolve(self, path=(*self.path, *rest)) if rest else self


class Block(dict[str, Any]):
    """A mapping that knows the origin of each key. A key that no user wrote, such as a default, has none."""

    __slots__ = ("origins",)

    def __init__(self, entries: Iterable[tuple[str, Any, Origin | None]] = ()) -> None:
        super().__init__()
        self.origins: dict[str, Origin] = {}
        for key, value, origin in entries:
            self.put(key, value, origin)

    def put(self, key: str, value: Any, origin: Origin | None) -> None:
        """Adds or replaces a key."""
        self[key] = value
        if origin is None:
            self.origins.pop(key, None)
        else:
            self.origins[key] = origin

    def entries(self) -> Iterable[tuple[str, Any, Origin | None]]:
        """Each key with its value and origin."""
        return ((key, value, self.origins.get(key)) for key, value in self.items())

    def with_entry(self, key: str, value: Any, origin: Origin | None) -> Block:
        """A copy with one key added or replaced."""
        block = Block(self.entries())
        block.put(key, value, origin)
        return block

    def without(self, key: str) -> Block:
        """A copy without one key."""
        return Block(entry for entry in self.entries() if entry[0] != key)


class Items(list[Any]):
    """A list that knows the origin of each element."""

    __slots__ = ("origins",)

    def __init__(self, entries: Iterable[tuple[Any, Origin | None]] = ()) -> None:
        super().__init__()
        self.origins: list[Origin | None] = []
        for value, origin in entries:
            self.append(value)
            self.origins.append(origin)


def placed(value: Any, origin: Origin) -> Any:
    """Return plain data as nodes whose entries all have the origin ``origin``."""
    if isinstance(value, Mapping):
        return Block((key, placed(each, at := origin.below((key,))), at) for key, each in value.items())
    if isinstance(value, list):
        return Items((placed(each, at := origin.below((index,))), at) for index, each in enumerate(value))
    return value


def placed_like(data: Mapping[str, Any], written: Mapping[str, Any], at: Origin | None = None) -> Block:
    """Return plain data as a block. Keys that ``written`` has too keep their origins; other keys have none.

    With ``at``, values that differ from those in ``written``, and other keys, have the origin ``at``.
    """
    origins = written.origins if isinstance(written, Block) else {}
    block = Block()
    for key, value in data.items():
        inner = written.get(key)
        origin = origins.get(key)
        below = None if at is None else at.below((key,))
        if isinstance(value, Mapping) and isinstance(inner, Mapping | None):
            block.put(key, placed_like(value, inner or {}, below), origin or below)
        elif below is not None and (key not in written or repr(value) != repr(inner)):  # not ==: 1 equals true
            block.put(key, placed(value, below), below)
        else:
            block.put(key, value if below is None else inner, origin)
    return block


def merged(own: Block, base: Block) -> Block:
    """Return ``base`` overridden by ``own``, recursively where both are mappings. Keys only in ``base`` come last."""
    block = Block(own.entries())
    for key, value, origin in base.entries():
        if key not in own:
            block.put(key, value, origin)
        elif isinstance(own[key], Block) and isinstance(value, Block):
            block[key] = merged(own[key], value)
    return block


def without_origins(value: Any) -> Any:
    """A copy of the data in ordinary dicts and lists."""
    if isinstance(value, Mapping):
        return {key: without_origins(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_origins(each) for each in value]
    return value


def value_at(node: Any, path: Iterable[str]) -> Any:
    """The value at ``path`` below ``node``; None if there is none."""
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def with_value(block: Block, path: Sequence[str], change: Callable[[Any], Any]) -> Block:
    """Return a copy of ``block`` with ``change(value)`` at ``path``; ``block`` itself if there is no value there."""
    key, *rest = path
    if key not in block or (rest and not isinstance(block[key], Block)):
        return block
    value = with_value(block[key], rest, change) if rest else change(block[key])
    return block.with_entry(key, value, block.origins.get(key))


@attrs.frozen
class Document:
    """A configuration before it is checked.

    Attributes:
        path: The path of the file; None if there is no file.
        data: The data: mappings, lists and scalars that know their line. A list of exporters is a mapping.
        preset: The place of values that come from a preset; None without one, and before it was read.
    """

    path: str | None
    data: Block = attrs.field(factory=Block)
    preset: str | None = None

    def origin(self, path: KeyPath) -> Origin:
        """The origin of the value at ``path``, or of the nearest block around it."""
        node: Any = self.data
        found = Origin(self.path or "", 0, ())
        depth = 0
        for index, key in enumerate(path, start=1):
            origin = None
            if isinstance(node, Block) and isinstance(key, str):
                origin = node.origins.get(key)
                node = node.get(key)
            elif isinstance(node, Items) and isinstance(key, int) and key < len(node):
                origin = node.origins[key]
                node = node[key]
            else:
                node = node[key] if isinstance(node, list) and isinstance(key, int) and key < len(node) else None
            if origin is not None:
                found = origin
                depth = index
        return found.below(path[depth:])

    def with_block(self, key: str, block: Block) -> Document:
        """The document with another block at ``key``, which stands where the old one did."""
        return attrs.evolve(self, data=self.data.with_entry(key, block, self.data.origins.get(key)))

    def where(self, path: KeyPath) -> str:
        """``"file:line"`` (or ``"--set a.b"``) of the value at ``path``."""
        return self.origin(path).place


def to_float(value: Any) -> float | None:
    """The finite number that a value of a file stands for, or None."""
    if isinstance(value, str):  # a number in quotes, or of a program or a plugin
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def to_int(value: Any) -> int | None:
    """The whole number that a value of a file stands for, or None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = to_float(value)
    return int(number) if isinstance(number, float) and number.is_integer() else None


def with_export_block(data: Block) -> Block:
    """The data of a document with a list of exporters rewritten as a mapping. Other lists stay as they are."""
    return with_value(data, ("export",), _mapping_of_exporters)


def _mapping_of_exporters(block: Any) -> Any:
    if not isinstance(block, Items) or not all(isinstance(name, str) for name in block):
        return block
    return Block((name, Block(), origin) for name, origin in zip(block, block.origins, strict=True))
