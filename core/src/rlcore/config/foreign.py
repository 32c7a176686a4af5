"""Find the programs, files and addresses that a configuration of a stranger names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlcore.config.problems import short_repr
from rlcore.config.rules import environment_blocks
from rlcore.errors import KeyPath, dotted
from rlcore.plugins.call import Plugins
from rlcore.records import EnvironmentSpec, StatsWriterSpec
from rlcore.settings import RunConfig
from rlcore.settings.foreign import foreign_values, is_plain_name


def named_by_a_stranger(config: RunConfig, plugins: Plugins) -> list[str]:
    """List the entries of a configuration that a stranger must not choose.

    Nothing of it is harmful by itself: it names a program, a file, an address or code, which may be any, or its plugin
    does not say that it does not. Whoever trusts the configuration may allow it all.
    """
    entries = [f"{dotted(path)}: {short_repr(value)}" for path, value in _values(config, plugins)]
    for name, settings in config.stats.items():
        is_off = settings is False
        if not is_off and not plugins.record(StatsWriterSpec, name).foreign:
            entries.append(f"stats.{name}: a statistics writer that may send them somewhere")
    return entries


def _values(config: RunConfig, plugins: Plugins) -> Iterator[tuple[KeyPath, Any]]:
    blocks = []
    for block, settings in environment_blocks(config).items():
        if plugins.record(EnvironmentSpec, settings.type).foreign:
            blocks.append(block)
    entries = list(foreign_values(config))
    entries.sort(key=lambda entry: entry[0][0] == "evaluation")  # last
    reported: set[tuple[KeyPath, str]] = set()
    for path, value in entries:
        if path[0] == "stats":  # writers are listed by name
            continue
        within = [path[len(block) :] for block in blocks if path[: len(block)] == block]
        if within and _is_of_installed_code(within[0], value):
            continue
        entry = (path[1:] if path[0] == "evaluation" else path, repr(value))
        if entry in reported:
            continue  # an environment for evaluations inherits the keys of that for training
        reported.add(entry)
        yield path, value


def _is_of_installed_code(within: KeyPath, value: Any) -> bool:
    """Whether a key inside the block of an environment, whose ids name installed code only, has a name and no place."""
    key = within[0] if within else ""
    if within == ("id",):
        return is_plain_name(value)
    if key not in ("options", "parameters", "wrappers") or not is_plain_name(value):
        return False
    # A word of an option could also be a file in the working directory, where a download may have put one.
    return "/" not in value and not Path(value).exists()
