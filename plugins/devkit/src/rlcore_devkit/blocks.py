"""Check a plugin's block of the configuration without the rest of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore import Problems, Record, document_from_mapping
from rlcore.config.structure import build


def checked_block(record: Record, block: Mapping[str, Any], attribute: str = "settings") -> Any:
    """Return the settings of ``record`` from ``block``, as in a file. Raises :class:`rlcore.ConfigErrors`.

    ``attribute`` of the record names the class of the settings.
    """
    problems = Problems(document_from_mapping({record.name: dict(block)}))
    settings = build(record.resolve(attribute), block, (record.name,), problems)
    problems.raise_any()
    return settings
