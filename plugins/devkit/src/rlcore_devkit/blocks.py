"""Check a plugin's block of the configuration without the rest of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore import ConfigError, Record, dotted, read_settings


def checked_block(record: Record, block: Mapping[str, Any], attribute: str = "settings") -> Any:
    """Return the settings of ``record`` from ``block``, as in a file. Raises :class:`rlcore.ConfigError`.

    ``attribute`` of the record names the class of the settings.
    """
    settings, problems = read_settings(record.resolve(attribute), dict(block))
    if problems:
        raise ConfigError("; ".join(f"{dotted((record.name, *path))}: {text}" for path, text in problems))
    return settings
