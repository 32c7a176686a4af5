"""Blocks that take over what another block says: a behavior from ``default_settings``, and the like.

What is taken over keeps its origin, so that an error points to where it is written.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import attrs

from rlcore.config.document import Document
from rlcore.config.problems import KeyPath
from rlcore.settings import EnvironmentSettings


def inherit_defaults(document: Document) -> Document:
    """The document with ``default_settings`` merged under each behavior, as deep as both are mappings."""
    defaults, behaviors = document.data.get("default_settings"), document.data.get("behaviors")
    if not isinstance(defaults, Mapping) or not isinstance(behaviors, Mapping):
        return document
    taken = dict(document.taken)
    merged = {
        name: _merge(own, defaults, ("behaviors", name), ("default_settings",), taken) if isinstance(own, dict) else own
        for name, own in behaviors.items()
    }
    return attrs.evolve(document, data={**document.data, "behaviors": merged}, taken=taken)


def with_evaluation_origins(document: Document) -> Document:
    """The document that also knows where the keys are from that ``evaluation.environment`` takes over.

    The block itself is left as it is: its settings are the overrides, which the run's own record keeps apart.
    """
    evaluation, base = document.data.get("evaluation"), document.data.get("environment")
    own = evaluation.get("environment") if isinstance(evaluation, Mapping) else None
    if not isinstance(own, dict) or not isinstance(base, Mapping):
        return document
    taken = dict(document.taken)
    _merge(own, base, ("evaluation", "environment"), ("environment",), taken)
    return attrs.evolve(document, taken=taken)


def evaluation_block(base: Mapping[str, Any] | None, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The environment block of evaluations: ``overrides`` merged into ``environment``.

    Not its number of copies, which training is tuned to; and nothing of another kind of environment.
    """
    default = attrs.fields(EnvironmentSettings).type.default
    kind = None if base is None else base.get("type", default)
    if base is None or overrides.get("type", kind) != kind:
        base = {}
    return _deep(overrides, {key: value for key, value in base.items() if key != "num_envs"})


def _deep(own: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    merged = copy.deepcopy(dict(base))
    for key, value in own.items():
        below = base.get(key)
        merged[key] = _deep(value, below) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return merged


def _merge(
    own: dict[str, Any],
    base: Mapping[str, Any],
    path: KeyPath,
    base_path: KeyPath,
    taken: dict[KeyPath, KeyPath],
) -> dict[str, Any]:
    """``base``, written at ``base_path``, merged under ``own`` at ``path``; notes in ``taken`` what is taken over."""
    merged = dict(own)
    for key, value in base.items():
        inner, base_inner = (*path, key), (*base_path, key)
        if key not in own:
            merged[key] = value
            taken[inner] = base_inner
        elif isinstance(own[key], dict) and isinstance(value, Mapping):
            merged[key] = _merge(own[key], value, inner, base_inner, taken)
    return merged
