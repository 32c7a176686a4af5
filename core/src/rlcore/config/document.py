"""A configuration before it is checked: mappings and lists that know where each of their entries was written.

A node is a dict or a list with an :class:`Origin` for each entry. Moving, merging or copying a node moves the origins
with it, so an error about a value that ended up elsewhere still points to where the user wrote it. Nodes are not
changed once they are part of a document: a step that rewrites a document makes new nodes.

:mod:`rlcore.config.problems` collects the errors of a document, each with its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.errors import KeyPath

if TYPE_CHECKING:
    from rlcore.records import Preset

AFTER_THE_FILE = 1 << 30  # the order of overrides among errors: after every line
OF_PRESETS = AFTER_THE_FILE - 1  # the order of a preset's values among errors


@attrs.frozen
class Origin:
    """Where a value was written."""

    place: str  # "cartpole.yaml:12", "--set env_settings.seed", "--seed", or "" for data made in Python
    order: int  # the line; overrides come after every line
    path: KeyPath  # as written there: a value that a behavior inherits keeps the path in default_settings

    def below(self, rest: KeyPath) -> Origin:
        """Return the origin of the entry at the path ``rest`` within this value."""
        if not rest:
            return self
        return attrs.evolve(self, path=(*self.path, *rest))


Entry = tuple[str, Any, Origin | None]  # a key, its value, and the origin of the value


class Block(dict[str, Any]):
    """A mapping that knows the origin of each key. A key that no user wrote, such as a default, has none."""

    __slots__ = ("origins",)

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
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

    def entries(self) -> Iterator[Entry]:
        """Each key with its value and origin."""
        for key, value in self.items():
            yield key, value, self.origins.get(key)

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
        block = Block()
        for key, element in value.items():
            below = origin.below((key,))
            block.put(key, placed(element, below), below)
        return block
    if isinstance(value, list):
        entries = []
        for index, element in enumerate(value):
            below = origin.below((index,))
            entries.append((placed(element, below), below))
        return Items(entries)
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
            value = placed_like(value, inner or {}, below)
            block.put(key, value, origin or below)
        elif below is None:
            block.put(key, value, origin)
        elif key in written and repr(value) == repr(inner):  # not ==: 1 equals true
            block.put(key, inner, origin)
        else:
            block.put(key, placed(value, below), below)
    return block


def merged(block: Block, base: Block) -> Block:
    """Return ``base`` overridden by ``block``, recursively where both are mappings. Keys only in ``base`` come last."""
    result = Block(block.entries())
    for key, value, origin in base.entries():
        if key not in block:
            result.put(key, value, origin)
        elif isinstance(block[key], Block) and isinstance(value, Block):
            result[key] = merged(block[key], value)
    return result


def without_origins(value: Any) -> Any:
    """A copy of the data in ordinary dicts and lists."""
    if isinstance(value, Mapping):
        return {key: without_origins(element) for key, element in value.items()}
    if isinstance(value, list):
        return [without_origins(element) for element in value]
    return value


def value_at(node: Any, path: Iterable[str]) -> Any:
    """The value at ``path`` below ``node``; None if there is none."""
    for key in path:
        if not isinstance(node, Mapping):
            return None
        node = node.get(key)
    return node


def with_value(block: Block, path: Sequence[str], change: Callable[[Any], Any]) -> Block:
    """Return a copy of ``block`` with ``change(value)`` at ``path``; ``block`` itself if there is no value there."""
    key, *rest = path
    if key not in block:
        return block
    value = block[key]
    if not rest:
        value = change(value)
    elif isinstance(value, Block):
        value = with_value(value, rest, change)
    else:
        return block
    return block.with_entry(key, value, block.origins.get(key))


@attrs.frozen
class UsedPreset:
    """A preset whose values lie under those of a document.

    Attributes:
        record: The preset.
        behavior: The behavior that has its values; None: all of them.
        by_default: Whether no one named it.
    """

    record: Preset
    behavior: str | None = None
    by_default: bool = False

    @property
    def place(self) -> str:
        """The place of its values in messages: ``preset ppo-discrete (rlcore-ppo)``."""
        source = "" if self.record.plugin is None else self.record.plugin.source
        return f"preset {self.record.name} ({source})"

    @property
    def origin(self) -> Origin:
        """The origin of its values."""
        return Origin(self.place, OF_PRESETS, ())


@attrs.frozen
class Document:
    """A configuration before it is checked.

    Attributes:
        path: The path of the file; None if there is no file.
        data: The data: mappings, lists and scalars that know their line. A list of exporters is a mapping.
        presets: The presets whose values it has; none before they were read.
        kept: What no preset was chosen for, in words, where presets were to be chosen by default.
    """

    path: str | None
    data: Block = attrs.field(factory=Block)
    presets: tuple[UsedPreset, ...] = ()
    kept: tuple[str, ...] = ()

    def origin(self, path: KeyPath) -> Origin:
        """The origin of the value at ``path``, or of the nearest block around it."""
        nearest = Origin(self.path or "", 0, ())
        depth = 0
        node: Any = self.data
        for index, key in enumerate(path, start=1):
            origin = None
            if isinstance(node, Block) and isinstance(key, str):
                origin = node.origins.get(key)
                node = node.get(key)
            elif isinstance(node, list) and isinstance(key, int) and key < len(node):
                if isinstance(node, Items):
                    origin = node.origins[key]
                node = node[key]
            else:
                break  # an error about a key that is missing has the place of the block
            if origin is not None:
                nearest = origin
                depth = index
        return nearest.below(path[depth:])

    def with_block(self, key: str, block: Block) -> Document:
        """The document with another block at ``key``, which stands where the old one did."""
        origin = self.data.origins.get(key)
        return attrs.evolve(self, data=self.data.with_entry(key, block, origin))

    def where(self, path: KeyPath) -> str:
        """``"file:line"`` (or ``"--set a.b"``) of the value at ``path``."""
        return self.origin(path).place


def to_float(value: Any) -> float | None:
    """The finite number that a value of a file stands for, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)  # a text: a number in quotes, or of a program or a plugin
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def to_int(value: Any) -> int | None:
    """The whole number that a value of a file stands for, or None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value  # exactly: a float has 53 bits
    number = to_float(value)
    if number is None or not number.is_integer():
        return None
    return int(number)


def with_export_block(data: Block) -> Block:
    """The data of a document with a list of exporters rewritten as a mapping. Other lists stay as they are."""
    return with_value(data, ("export",), _mapping_of_exporters)


def _mapping_of_exporters(names: Any) -> Any:
    if not isinstance(names, Items) or not all(isinstance(name, str) for name in names):
        return names
    block = Block()
    for name, origin in zip(names, names.origins, strict=True):
        block.put(name, Block(), origin)
    return block
