"""``environment_parameters`` rewritten to one shape: ``{NAME: {curriculum: {type: ..., ...}}}``.

ML-Agents has three more shapes, which all mean lessons: a number, a sampler, and ``{curriculum: [lessons]}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rlcore.config.collected import INVALID
from rlcore.config.document import Document
from rlcore.config.nodes import Block, Items, Origin, with_value
from rlcore.config.scalars import to_float
from rlcore.plugins.known import LESSONS

PLACES: tuple[tuple[str, ...], ...] = (("environment_parameters",), ("evaluation", "environment_parameters"))


def with_parameter_blocks(document: Document) -> Document:
    """The document with every block of ``environment_parameters`` in the one shape, if the block has a known shape."""
    data = document.data
    for place in PLACES:
        data = with_value(data, place, _blocks)
    return attrs.evolve(document, data=data)


def _blocks(blocks: Any) -> Any:
    if not isinstance(blocks, Block):
        return blocks
    return Block((name, _one_shape(name, block, origin), origin) for name, block, origin in blocks.entries())


def _one_shape(name: str, block: Any, origin: Origin | None) -> Any:
    if isinstance(block, Block) and isinstance(block.get("curriculum"), list):
        at = block.origins.get("curriculum")
        curriculum = Block([("type", LESSONS, at), ("lessons", block["curriculum"], at)])
        return block.with_entry("curriculum", curriculum, at)
    is_sampler = isinstance(block, Mapping) and not {"sampler_type", "sampler_parameters"}.isdisjoint(block)
    if is_sampler or to_float(block) is not INVALID:
        lesson = Block([("name", name, origin), ("value", block, origin)])
        curriculum = Block([("type", LESSONS, origin), ("lessons", Items([(lesson, origin)]), origin)])
        return Block([("curriculum", curriculum, origin)])
    return block
