"""The keys of a configuration that differ from the defaults of the installed plugins."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlcore import (
    RlcoreError,
    RunData,
    config_from_mapping,
    dotted,
    dump_config,
    load_plugins_for,
    read_document,
)
from rlcore_study.documents import at_path
from rlcore_study.groups import flat, without_start

KeyPath = tuple[str, ...]


def chosen_values(data: RunData) -> dict[str, tuple[Any, Any]]:
    """The dotted keys of a run without which its complete configuration would be another one: value and default.

    A default is None where the key is required, or appears only with its block. A complete configuration does not say
    which of its values were chosen. A key is at its default if the configuration without the key is complete with an
    equal result. Local plugins are not imported. Raises an RlcoreError if the configuration cannot be completed here,
    for example because the plugin of its trainer is not installed.
    """
    document = read_document(data.directory / "configuration.yaml")
    plugins = load_plugins_for(document, allow_local=False, lenient=True)
    configuration = without_start(data.configuration)
    complete = dump_config(config_from_mapping(configuration, plugins))

    def without(path: KeyPath) -> dict[str, Any] | None:
        """The complete configuration without ``path``; None if the key is required."""
        changed = copy.deepcopy(configuration)
        block = at_path(changed, *path[:-1])
        del block[path[-1]]
        try:
            return dump_config(config_from_mapping(changed, plugins))
        except RlcoreError:
            return None

    blocks = list(_blocks(configuration))
    unchosen = [block for block in blocks if without(block) == complete]
    chosen: dict[KeyPath, tuple[Any, Any]] = {}
    for path, value in flat(configuration).items():
        if _within(path, unchosen) or path == ("preset",):  # whose values are in the other keys
            continue
        other = without(path)
        if other != complete:
            chosen[path] = (value, at_path(other, *path))
    # A block that is chosen as it is: none of its values differs, but without it the configuration does.
    for block in reversed(blocks):
        has_chosen = any(_within(path, [block]) for path in chosen)
        if not has_chosen and not _within(block, unchosen):
            chosen[block] = (at_path(configuration, *block), None)
    return {dotted(path): values for path, values in chosen.items()}


def _within(path: KeyPath, blocks: Iterable[KeyPath]) -> bool:
    return any(path[: len(block)] == block for block in blocks)


def _blocks(configuration: Mapping[str, Any], path: KeyPath = ()) -> Iterator[KeyPath]:
    """The paths of all mappings in a configuration that are not empty."""
    for key, value in configuration.items():
        if isinstance(value, Mapping) and value:
            block = (*path, key)
            yield block
            yield from _blocks(value, block)
