"""Turns a configuration file into a :class:`rlcore.RunConfig`, with errors that say what to fix.

In reading order: :mod:`~rlcore.config.document` (reads YAML, with the line of every key),
:mod:`~rlcore.config.nodes` (mappings and lists that know these lines), :mod:`~rlcore.config.overrides` (``--set`` and
flags), :mod:`~rlcore.config.plugins_block` (the ``plugins`` block, before plugins are imported),
:mod:`~rlcore.config.load` (all steps in order),
:mod:`~rlcore.config.modify` (changes by plugins), :mod:`~rlcore.config.inherit`, :mod:`~rlcore.config.num_envs` and
:mod:`~rlcore.config.parameter_blocks` (several ways to write a block become one), :mod:`~rlcore.config.blocks` (each
block with its settings class), :mod:`~rlcore.config.structure` (unknown keys, wrong types; its neighbors
:mod:`~rlcore.config.classes` and :mod:`~rlcore.config.scalars`) and :mod:`~rlcore.config.rules` (rules between blocks).
:mod:`~rlcore.config.collected` and :mod:`~rlcore.config.problems` report all errors at once;
:mod:`~rlcore.config.dump`, :mod:`~rlcore.config.seal` and :mod:`~rlcore.config.schema` write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore.config.document import Document, read_document
    from rlcore.config.dump import dump_config, write_config
    from rlcore.config.load import config_from_mapping, load_config
    from rlcore.config.names import name_problem
    from rlcore.config.nested import read_settings
    from rlcore.config.overrides import apply_overrides
    from rlcore.config.plugins_block import load_plugins_for
    from rlcore.config.problems import ConfigErrors
    from rlcore.config.schema import json_schema

# Imported on first use, so that a plugin's light module does not import the reader.
_LAZY = {
    "ConfigErrors": "rlcore.config.problems",
    "Document": "rlcore.config.document",
    "apply_overrides": "rlcore.config.overrides",
    "config_from_mapping": "rlcore.config.load",
    "dump_config": "rlcore.config.dump",
    "json_schema": "rlcore.config.schema",
    "load_config": "rlcore.config.load",
    "load_plugins_for": "rlcore.config.plugins_block",
    "name_problem": "rlcore.config.names",
    "read_document": "rlcore.config.document",
    "read_settings": "rlcore.config.nested",
    "write_config": "rlcore.config.dump",
}

__all__ = [
    "ConfigErrors",
    "Document",
    "apply_overrides",
    "config_from_mapping",
    "dump_config",
    "json_schema",
    "load_config",
    "load_plugins_for",
    "name_problem",
    "read_document",
    "read_settings",
    "write_config",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'rlcore.config' has no attribute {name!r}")
