"""Lets plugins change a document before it is checked; what they changed has their names as its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.document import Document, document_from_mapping
from rlcore.config.nodes import Block, Origin, placed, without_origins
from rlcore.errors import ConfigError, PluginError
from rlcore.plugins.failures import failure

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins
    from rlcore.plugins.discover import Plugin

HOOK = "rlcore_modify_config"
_AFTER_OVERRIDES = 1 << 31  # the order of these values among errors


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
        data_with_origins = _with_origins(plain, current.data, Origin(owner.described, _AFTER_OVERRIDES, ()))
        current = attrs.evolve(current, data=data_with_origins)

    plugins.modify_config(lambda: without_origins(current.data), changed)
    return current


def _with_origins(now: Mapping[str, Any], before: Block, at: Origin) -> Block:
    """``now`` as a block: entries that equal those of ``before`` keep their origins, others have the origin ``at``."""
    block = Block()
    for key, value in now.items():
        old, origin = before.get(key), at.below((key,))
        if isinstance(value, Mapping) and isinstance(old, Block):
            block.put(key, _with_origins(value, old, origin), before.origins.get(key))
        elif key in before and repr(value) == repr(old):  # not ==: 1, 1.0 and true are equal in Python
            block.put(key, old, before.origins.get(key))
        else:
            block.put(key, placed(value, origin), origin)
    return block
