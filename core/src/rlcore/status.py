"""``training_status.json``: what must survive beside the weights, in ML-Agents' shape plus a section per plugin."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.checkpoint import write_atomically
from rlcore.errors import RunStateError

if TYPE_CHECKING:
    from rlcore.plugins.calls import Plugins

log = logging.getLogger(__name__)

FILE_NAME = "training_status.json"
# ML-Agents' number for this shape of the file.
STATS_FORMAT_VERSION = "0.3.0"


def write_status_file(status: Mapping[str, Any], directory: Path) -> bool:
    """Core's own ``rlcore_write_status``."""
    text = json.dumps(status, indent=4) + "\n"
    try:
        write_atomically(directory / FILE_NAME, text.encode())
    except OSError as error:
        raise RunStateError(f"{directory / FILE_NAME}: {error.strerror or error}") from error
    return True


def read_status_file(directory: Path) -> Mapping[str, Any] | None:
    """Core's own ``rlcore_read_status``: None if there is no file. Raises RunStateError for one that is damaged."""
    path = directory / FILE_NAME
    try:
        status = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunStateError(f"{path}: cannot be read: {error}") from error
    if not isinstance(status, dict):
        raise RunStateError(f"{path}: holds a {type(status).__name__} instead of an object")
    return status


def check_metadata(status: Mapping[str, Any], origin: str) -> None:
    """Warns of a status in another version of the shape; RunStateError for one that does not say which it is in."""
    about = status.get("metadata")
    version_of_it = about.get("stats_format_version") if isinstance(about, Mapping) else None
    if version_of_it is None:
        raise RunStateError(f"{origin}: its training status has no metadata.stats_format_version")
    if version_of_it != STATS_FORMAT_VERSION:
        log.warning(
            "%s: its training status is in version %s of the format, rlcore reads %s",
            origin, version_of_it, STATS_FORMAT_VERSION,
        )  # fmt: skip


def metadata(plugins: Mapping[str, str]) -> dict[str, Any]:
    """The ``metadata`` section; ``plugins`` maps a plugin's name to its distribution and version."""
    import rlcore

    section: dict[str, Any] = {"stats_format_version": STATS_FORMAT_VERSION, "rlcore_version": rlcore.__version__}
    for library in ("torch", "numpy"):
        try:
            section[f"{library}_version"] = version(library)
        except PackageNotFoundError:
            continue
    section["plugins"] = dict(plugins)
    return section


def plugin_versions(plugins: Plugins) -> dict[str, str]:
    """Distribution and version of every loaded plugin, by name."""
    return {each.name: f"{each.distribution} {each.version}".strip() for each in plugins.loaded}
