"""The keys of a configuration that differ from the defaults of the installed plugins."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from rlcore import (
    Plugins,
    RlcoreError,
    RunData,
    config_from_mapping,
    dotted,
    dump_config,
    load_plugins_for,
    read_document,
)
from rlcore_report.groups import flat, without_start
from rlcore_report.runs import at_path

__all__ = ["ChosenValue", "chosen_values"]


@attrs.frozen
class ChosenValue:
    """A key whose value differs from the default.

    Attributes:
        key: The dotted key.
        value: The value.
        default: The value without the key; None where the key is required, or appears only with its block.
    """

    key: str
    value: Any
    default: Any


def chosen_values(data: RunData) -> list[ChosenValue]:
    """The keys of a run without which its complete configuration would be another one.

    A complete configuration does not say which of its values were chosen. A key is at its default if the configuration
    without the key is complete with an equal result. Local plugins are not imported. Raises an RlcoreError if the
    configuration cannot be completed here, for example because the plugin of its trainer is not installed.
    """
    plugins = load_plugins_for(read_document(data.directory / "configuration.yaml"), allow_local=False, lenient=True)
    configuration = without_start(data.configuration)
    complete = _Completion(configuration, plugins)
    found: list[tuple[tuple[str, ...], ChosenValue]] = []
    for path, value in flat(configuration).items():
        if any(path[: len(block)] == block for block in complete.unchosen):
            continue
        without = complete.without(path)
        if without != complete.whole:
            found.append((path, ChosenValue(dotted(path), value, at_path(without, *path))))
    # A block that is chosen as it is: none of its values differs, but without it the configuration does.
    chosen = [path for path, _ in found]
    for block in reversed(list(_blocks(configuration))):
        inside = any(path[: len(block)] == block for path in chosen)
        if not inside and not any(block[: len(each)] == each for each in complete.unchosen):
            chosen.append(block)
            found.append((block, ChosenValue(dotted(block), at_path(configuration, *block), None)))
    return [value for _, value in found]


class _Completion:
    """Completes a configuration again and again, each time without one key."""

    def __init__(self, configuration: dict[str, Any], plugins: Plugins) -> None:
        self._configuration = configuration
        self._plugins = plugins
        self.whole = self._complete(configuration)
        self.unchosen: list[tuple[str, ...]] = [
            path for path in _blocks(configuration) if self.without(path) == self.whole
        ]

    def without(self, path: tuple[str, ...]) -> dict[str, Any] | None:
        """The complete configuration without ``path``; None if the key is required."""
        changed = copy.deepcopy(self._configuration)
        block = changed
        for key in path[:-1]:
            block = block[key]
        del block[path[-1]]
        try:
            return self._complete(changed)
        except RlcoreError:
            return None

    def _complete(self, configuration: dict[str, Any]) -> dict[str, Any]:
        return dump_config(config_from_mapping(configuration, self._plugins))


def _blocks(configuration: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all mappings in a configuration that are not empty."""
    for key, value in configuration.items():
        if isinstance(value, Mapping) and value:
            yield (*path, key)
            yield from _blocks(value, (*path, key))
