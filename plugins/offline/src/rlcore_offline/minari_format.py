"""The format ``minari``: datasets of the Minari library (https://minari.farama.org) as recordings.

A dataset is a directory with ``data/metadata.json`` and the episodes beside it. Minari is imported when one is read or
written, and its way of storing episodes is left to it, so that whatever it stores (HDF5, Arrow, JPEG) is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcore import BehaviorSpec, ConfigError, DamagedFile, Recording, RecordingAbout, is_whole, one_line, read_object
from rlcore_offline.containment import require_small_space
from rlcore_offline.formats import RecordingWriter
from rlcore_offline.layout import RLCORE, Layout

METADATA = Path("data/metadata.json")
DATASETS_PATH = "MINARI_DATASETS_PATH"  # where Minari keeps datasets, if not in the user's home


class MinariFormat:
    """Reads any Minari dataset whose spaces make a behavior, and writes new ones."""

    def reads(self, path: Path) -> bool:
        """Return whether ``path`` is a Minari dataset."""
        try:
            return (path / METADATA).is_file()
        except OSError:  # a name that the file system cannot have, such as one that is too long
            return False

    def stored(self) -> dict[str, Path]:
        """The datasets in Minari's own place, by their ids; nothing is downloaded."""
        root = datasets_root()
        return {path.relative_to(root).as_posix(): path for path in _datasets_in(root)}

    def behavior(self, path: Path, name: str) -> BehaviorSpec:
        """Return the behavior of the dataset, called ``name``. Raises ConfigError if its spaces make none."""
        return layout_of(path, metadata_of(path), name).behavior

    def read(self, path: Path, name: str) -> Recording:
        """Return all episodes of the dataset. Raises ConfigError if it is unsound."""
        from rlcore_offline.minari_reader import read_episodes

        metadata = metadata_of(path)
        return read_episodes(path, metadata, layout_of(path, metadata, name))

    def writer(self, path: Path, behavior: BehaviorSpec, about: RecordingAbout) -> RecordingWriter:
        """Return a writer of a new dataset at ``path``. Raises ConfigError if the path exists."""
        from rlcore_offline.minari_writer import MinariWriter

        return MinariWriter(path, behavior, about)


def datasets_root() -> Path:
    """Where Minari keeps datasets. Minari's own function would make the directory."""
    given = os.environ.get(DATASETS_PATH)
    return Path(given) if given else Path.home() / ".minari" / "datasets"


def metadata_of(path: Path) -> dict[str, Any]:
    try:
        metadata = read_object(path / METADATA)
    except (OSError, DamagedFile) as error:
        raise ConfigError(f"Minari dataset {error}") from error
    missing = [key for key in ("total_episodes", "total_steps", "data_format") if key not in metadata]
    if missing:
        raise ConfigError(f"Minari dataset {path}: {METADATA} lacks {', '.join(missing)}")
    for key in ("total_episodes", "total_steps"):
        if not is_whole(metadata[key]):
            raise ConfigError(f"Minari dataset {path}: {METADATA}: {key} must be a whole number")
    return metadata


def layout_of(path: Path, metadata: Mapping[str, Any], name: str) -> Layout:
    """Return the behavior that the dataset's metadata describes; the environment that it names is not made."""
    where = f"Minari dataset {path}"
    found = []
    for key in ("observation_space", "action_space"):
        if key not in metadata:
            raise ConfigError(
                f"{where}: {METADATA} says nothing of its {key}; make it again with Minari, with its spaces"
            )
        require_small_space(str(metadata[key]), f"{where}: its {key}")
        try:
            found.append(_space(metadata[key]))
        except Exception as error:  # Minari raises errors of many kinds for what it does not know
            shown = str(metadata[key])[:200]
            raise ConfigError(f"{where}: Minari cannot read its {key} {shown}: {one_line(error)}") from error
    return Layout.of(found[0], found[1], metadata.get(RLCORE), name, where)


def _space(text: str) -> Any:
    from gymnasium import spaces
    from minari.serialization import deserialize_space

    space = deserialize_space(text)
    if isinstance(space, spaces.Dict):  # Minari sorts the keys; the environment's own order is in the text
        return spaces.Dict([(key, space[key]) for key in json.loads(text)["subspaces"]])
    return space


def _datasets_in(directory: Path) -> Iterator[Path]:
    """Namespaces are directories; a dataset is one that holds ``data``."""
    if not directory.is_dir():
        return
    for child in sorted(directory.iterdir()):
        if child.is_dir() and not child.name.startswith("."):
            if (child / METADATA).is_file():
                yield child
            else:
                yield from _datasets_in(child)
