"""Shorter ways to write a block, which become one: inheritance, lists of exporters, ML-Agents' shapes of parameters.

``environment_parameters`` gets one shape, ``{NAME: {curriculum: {type: ..., ...}}}``. ML-Agents has three more, which
all mean lessons: a number, a sampler, and ``{curriculum: [lessons]}``. ``export: [onnx]`` stands for
``export: {onnx: {}}``. Behaviors inherit from ``default_settings``, and the environment of evaluations from
``environment``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rlcore.config.document import Block, Document, Items, Origin, merged, with_value
from rlcore.config.structure import INVALID, to_float
from rlcore.plugins.known import LESSONS
from rlcore.settings import EnvironmentSettings

# Training is tuned to its number of environments; evaluations choose their own, and step them in one process.
NOT_INHERITED = ("num_envs", "workers")
EXPORT = "export"
NUM_ENVS = ("environment", "num_envs")
ALIAS = ("env_settings", "num_envs")
PLACES: tuple[tuple[str, ...], ...] = (("environment_parameters",), ("evaluation", "environment_parameters"))


def inherit_defaults(document: Document) -> Document:
    """The document with ``default_settings`` merged under each behavior, as deep as both are mappings."""
    defaults, behaviors = document.data.get("default_settings"), document.data.get("behaviors")
    if not isinstance(defaults, Block) or not isinstance(behaviors, Block):
        return document
    complete = Block(
        (name, merged(own, defaults) if isinstance(own, Block) else own, origin)
        for name, own, origin in behaviors.entries()
    )
    origin = document.data.origins.get("behaviors")
    return attrs.evolve(document, data=document.data.with_entry("behaviors", complete, origin))


def evaluation_block(own: Block, base: Block | None) -> Block:
    """The environment block of evaluations: ``own`` over ``environment``, unless ``own`` is of another type."""
    if base is None or not _same_type(own, base):
        return own
    for key in NOT_INHERITED:
        base = base.without(key)
    return merged(own, base)


def own_entries(complete: Mapping[str, Any], base: Mapping[str, Any] | None) -> dict[str, Any]:
    """The part of a complete evaluation environment that :func:`evaluation_block` does not take from ``base``."""
    if base is None or not _same_type(complete, base):
        return dict(complete)
    inherited = {key: value for key, value in base.items() if key not in NOT_INHERITED}
    own = _differences(complete, inherited)
    return {key: value for key, value in own.items() if key not in NOT_INHERITED or value is not None}


def _same_type(own: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    kind = base.get("type", attrs.fields(EnvironmentSettings).type.default)
    return bool(own.get("type", kind) == kind)


def _differences(own: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of ``own``, which has every key of ``base``, that are not the same in ``base``."""
    differences: dict[str, Any] = {}
    for key, value in own.items():
        below = base.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            inner = _differences(value, below)
            if inner:
                differences[key] = inner
        elif key not in base or repr(value) != repr(below):  # not ==: 1, 1.0 and true are equal in Python
            differences[key] = value
    return differences


def with_export_block(data: Block) -> Block:
    """The data of a document with a list of exporters rewritten as a mapping. A wrong list stays as it is."""
    return with_value(data, (EXPORT,), _mapping_of_exporters)


def _mapping_of_exporters(block: Any) -> Any:
    if not isinstance(block, Items) or not all(isinstance(name, str) for name in block):
        return block
    if len(set(block)) < len(block):
        return block
    return Block((name, Block(), origin) for name, origin in zip(block, block.origins, strict=True))


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
