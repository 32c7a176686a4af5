"""Changes of plugins in a document before it is checked, and shorter ways to write a block, which become one.

``environment_parameters`` gets the shape ``{NAME: {curriculum: {type: ..., ...}}}``. A number, a sampler, and
``{curriculum: [lessons]}`` all mean lessons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.document import (
    AFTER_THE_FILE,
    OF_PRESETS,
    Block,
    Document,
    Items,
    Origin,
    placed_like,
    to_float,
    value_at,
    with_value,
    without_origins,
)
from rlcore.config.problems import UNKNOWN_KEY, Problems, short_repr
from rlcore.config.reading import document_from_mapping
from rlcore.config.structure import unknown_key
from rlcore.errors import ConfigError, KeyPath, PluginError
from rlcore.plugins.failures import blamed, failure
from rlcore.plugins.known import LESSONS
from rlcore.records import KeyHints

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins
    from rlcore.plugins.discover import Plugin

PLACES: tuple[tuple[str, ...], ...] = (
    ("environment_parameters",),
    ("evaluation", "environment_parameters"),
)
OF_PLUGINS = 2 * AFTER_THE_FILE
HOOK = "rlcore_modify_config"


def modified_by_plugins(document: Document, plugins: Plugins) -> Document:
    """The document as the ``rlcore_modify_config`` of each plugin leaves it. Raises PluginError for unusable data."""
    current = document

    def changed(owner: Plugin, data: dict[str, Any]) -> None:
        nonlocal current
        try:
            plain = document_from_mapping(data).data
        except (ConfigError, RecursionError) as error:
            raise failure(owner.described, f"in {HOOK}", error) from error
        if plain.get("plugins") != current.data.get("plugins"):
            raise PluginError(
                f"{owner.described}: {HOOK} changed the plugins block, but plugins are chosen before the hook is "
                "called; name plugins in the environment variable RLCORE_PLUGINS instead"
            )
        origin = Origin(owner.described, OF_PLUGINS, ())
        current = attrs.evolve(current, data=placed_like(plain, current.data, origin))

    plugins.modify_config(lambda: without_origins(current.data), changed)
    return current


# ---------------------------------------------------------------- keys of other programs


class Rewriting:
    """A document in which a plugin rewrites keys of another program; see :class:`rlcore.KeyHints`.

    Values that are moved keep the file and the line where they were written.
    """

    def __init__(self, document: Document, problems: Problems) -> None:
        self._document = document
        self._problems = problems

    @property
    def document(self) -> Document:
        """The document with the changes so far."""
        return self._document

    def get(self, path: KeyPath) -> Any:
        """Return the value at ``path``; None if there is none."""
        return value_at(self._document.data, map(str, path))

    def strength(self, path: KeyPath) -> int:
        """Return 2 for a value of the command line, 0 for one of a preset, and 1 for all others."""
        order = self._document.origin(path).order
        if order == OF_PRESETS:
            return 0
        return 2 if AFTER_THE_FILE <= order < OF_PLUGINS else 1

    def remove(self, path: KeyPath) -> None:
        """Remove the key at ``path``, if it is there."""
        *above, key = map(str, path)
        self._change(above, lambda block: block.without(key))

    def move(self, path: KeyPath, to: KeyPath) -> None:
        """Move the value at ``path`` to the key ``to``, if there is a block for it."""
        value = self.get(path)
        origin = self._document.origin(path)
        *above, key = map(str, to)
        self.remove(path)
        self._change(above, lambda block: block.with_entry(key, value, origin))

    def _change(self, path: Sequence[str], change: Callable[[Block], Block]) -> None:
        """Change the block at ``path``, if there is one."""
        data = self._document.data
        if path:
            data = with_value(data, path, lambda block: change(block) if isinstance(block, Block) else block)
        else:
            data = change(data)
        self._document = attrs.evolve(self._document, data=data)

    def refuse(self, path: KeyPath, message: str) -> None:
        """Add an error about the value at ``path``, which is reported with its file and line."""
        self._problems.add(path, message)

    def refuse_unknown(self, path: KeyPath, allowed: Iterable[str]) -> None:
        """Add the error about a key that its block does not have, and that is none of ``allowed``."""
        message = unknown_key(str(path[-1]), list(allowed))
        self._problems.add(path, message, code=UNKNOWN_KEY)

    def shown(self, value: Any) -> str:
        """Return a value as messages show it."""
        return short_repr(value)


def rewritten_by_plugins(document: Document, plugins: Plugins, problems: Problems) -> Document:
    """The document as the ``rewrites`` of each :class:`rlcore.KeyHints` leaves it."""
    for record in plugins.records(KeyHints.kind):
        if isinstance(record, KeyHints) and record.rewrites is not None:
            rewriting = Rewriting(document, problems)
            rewrite = record.resolve("rewrites")
            with blamed(record.described, "in its rewrites"):
                rewrite(rewriting)
            document = rewriting.document
    return document


# ---------------------------------------------------------------- environment parameters


def with_parameter_blocks(document: Document) -> Document:
    """The document with every block of ``environment_parameters`` in the one shape, if the block has a known shape."""
    data = document.data
    for place in PLACES:
        data = with_value(data, place, _blocks)
    return attrs.evolve(document, data=data)


def _blocks(blocks: Any) -> Any:
    if not isinstance(blocks, Block):
        return blocks
    entries = blocks.entries()
    return Block((name, _with_curriculum(name, block, origin), origin) for name, block, origin in entries)


def _with_curriculum(name: str, block: Any, origin: Origin | None) -> Any:
    """An entry of ``environment_parameters`` as a block with a curriculum; any other value as it is."""
    lessons = block.get("curriculum") if isinstance(block, Block) else None
    if isinstance(lessons, list):
        origin = block.origins.get("curriculum")
        return block.with_entry("curriculum", _lessons(lessons, origin), origin)
    is_sampler = isinstance(block, Block) and block.keys() & {"sampler_type", "sampler_parameters"}
    if not is_sampler and to_float(block) is None:
        return block
    lesson = Block([("name", name, origin), ("value", block, origin)])
    return Block([("curriculum", _lessons(Items([(lesson, origin)]), origin), origin)])


def _lessons(lessons: Any, origin: Origin | None) -> Block:
    return Block([("type", LESSONS, origin), ("lessons", lessons, origin)])
