"""The configuration of a run, read back from its directory, and what a resumed run changed in it.

``configuration.yaml`` is sealed with its checksum, and every checkpoint has a verified copy. A file whose checksum does
not match was edited or damaged, which no program can distinguish: then the copy is used.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from rlcore.config import Document
from rlcore.config.dump import content_sha256, is_sealed
from rlcore.config.problems import shown
from rlcore.config.reading import MAX_BYTES, parse_document, read_document
from rlcore.errors import ConfigError, KeyPath, RunStateError, dotted
from rlcore.storage.checkpoint import CONFIGURATION, NewerFormat
from rlcore.storage.checkpoint_directory import find_checkpoints, is_intact
from rlcore.storage.files.json_files import DamagedFile, read_regular
from rlcore.storage.run_files import CHECKPOINTS

log = logging.getLogger(__name__)

MISSING = "nothing"
# These say how a run was started, not what it does.
_START = ("checkpoint_settings",)


@attrs.frozen
class Change:
    """A key of a configuration whose value changed; both values are texts for messages."""

    key: str
    before: str
    now: str


def read_saved_configuration(directory: Path) -> Document:
    """The configuration of the run in ``directory``.

    Warns, with the keys that differ, if a checkpoint's copy is used because the file is missing, edited or damaged.
    Raises ConfigError if there is neither.
    """
    path = directory / CONFIGURATION
    text, problem = _text(path)
    if text is not None and is_sealed(text):
        return parse_document(text, str(path))
    copy = _newest_copy(directory / CHECKPOINTS)
    if copy is None:
        return read_document(path)
    document = read_document(copy)
    if text is not None:
        found = _changes_of_text(document, text, str(path))
        if found == []:
            return document
        problem = "was edited or is damaged" + ("" if found is None else f" ({described(found)})")
    log.warning(
        "%s: %s; the configuration in checkpoint %s is used (to use another, give a file as CONFIG or keys with --set)",
        path, problem, copy.parent.name,
    )  # fmt: skip
    return document


def configuration_sha256(checkpoint: Path) -> str:
    """The checksum of the configuration that the ``checkpoint``, a directory, was trained with.

    Raises RunStateError if it has none.
    """
    path = checkpoint / CONFIGURATION
    text, problem = _text(path)
    if text is None:
        raise RunStateError(f"{path}: {problem}; an exported policy states the checksum of its configuration")
    return content_sha256(text)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """The keys whose values differ, without those that only say how the run is started."""
    left, right = dict(_flat(before, ())), dict(_flat(now, ()))
    keys = [key for key in {**left, **right} if key[:1] != _START and left.get(key) != right.get(key)]
    return [Change(dotted(key), _shown(left, key), _shown(right, key)) for key in keys]


def described(found: list[Change], most: int = 5) -> str:
    """``a.b is 2 instead of 1`` for each change, up to ``most`` of them."""
    texts = [f"{change.key} is {change.now} instead of {change.before}" for change in found[:most]]
    return ", ".join(texts) + (f" and {len(found) - most} more" if len(found) > most else "")


def _text(path: Path) -> tuple[str | None, str]:
    """The content of the file, or None and what is wrong with the file."""
    try:
        return read_regular(path, MAX_BYTES).decode(), ""
    except FileNotFoundError:
        return None, "is missing"
    except (DamagedFile, UnicodeDecodeError):
        return None, "cannot be read"


def _newest_copy(checkpoints: Path) -> Path | None:
    for checkpoint in reversed(find_checkpoints(checkpoints)):
        copy = checkpoint.path / CONFIGURATION
        with suppress(NewerFormat):
            if copy.is_file() and is_intact(checkpoint):
                return copy
    return None


def _changes_of_text(document: Document, text: str, name: str) -> list[Change] | None:
    """The keys in which ``text`` differs from ``document``; None if the text is not a configuration."""
    try:
        return changes(document.data, parse_document(text, name).data)
    except ConfigError:
        return None


def _shown(values: Mapping[KeyPath, Any], key: KeyPath) -> str:
    return shown(values[key]) if key in values else MISSING


def _flat(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _flat(each, (*path, str(key)))
    else:
        yield path, value
