"""Blocks that inherit from another block: behaviors from ``default_settings``, evaluations from ``environment``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rlcore.config.document import Document
from rlcore.config.nodes import Block, merged
from rlcore.settings import EnvironmentSettings

# Training is tuned to its number of environments; evaluations choose their own, and step them in one process.
NOT_INHERITED = ("num_envs", "workers")


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
