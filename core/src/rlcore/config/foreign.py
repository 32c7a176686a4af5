"""Find the programs, files and addresses that a configuration of a stranger names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlcore.config.problems import shown
from rlcore.errors import KeyPath, dotted
from rlcore.plugins.call import Plugins
from rlcore.records import EnvironmentSpec, StatsWriterSpec
from rlcore.settings import EnvironmentSettings, RunConfig
from rlcore.settings.foreign import foreign_values, is_plain_name


def named_by_a_stranger(config: RunConfig, plugins: Plugins) -> list[str]:
    """List the entries of a configuration that a stranger must not choose.

    Nothing of it is harmful by itself: it names a program, a file, an address or code, which may be any, or its plugin
    does not say that it does not. Whoever trusts the configuration may allow it all.
    """
    found = [f"{dotted(path)}: {shown(value)}" for path, value in _values(config, plugins)]
    for name, settings in config.stats.items():
        if settings is not False and not plugins.record(StatsWriterSpec, name).foreign:
            found.append(f"stats.{name}: a statistics writer that may send them somewhere")
    return found


def _values(config: RunConfig, plugins: Plugins) -> Iterator[tuple[KeyPath, Any]]:
    blocks = [
        block for block, settings in _environments(config) if plugins.record(EnvironmentSpec, settings.type).foreign
    ]
    named: set[tuple[KeyPath, str]] = set()
    for path, value in sorted(foreign_values(config), key=lambda each: each[0][0] == "evaluation"):
        within = [path[len(block) :] for block in blocks if path[: len(block)] == block]
        if path[0] == "stats" or (within and _is_of_installed_code(within[0], value)):
            continue
        if path[0] == "evaluation" and (path[1:], repr(value)) in named:
            continue  # an environment for evaluations inherits the keys of that for training
        named.add((path, repr(value)))
        yield path, value


def _environments(config: RunConfig) -> Iterator[tuple[KeyPath, EnvironmentSettings]]:
    if config.environment is not None:
        yield ("environment",), config.environment
    if config.evaluation is not None and config.evaluation.environment is not None:
        yield ("evaluation", "environment"), config.evaluation.environment


def _is_of_installed_code(within: KeyPath, value: Any) -> bool:
    """Whether a key inside the block of an environment, whose ids name installed code only, has a name and no place."""
    if within == ("id",):
        return is_plain_name(value)
    words = within[:1] in (("options",), ("parameters",), ("wrappers",)) and is_plain_name(value)
    return words and "/" not in value and not Path(value).exists()
