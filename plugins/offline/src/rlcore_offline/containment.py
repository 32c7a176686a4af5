"""Whether a foreign recording stays within its own files and within bounds, looked at before it is read.

HDF5 files may refer to other files (external links, external storage, virtual datasets): reading one would read those,
whatever they are. They may also declare arrays far larger than what they store.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcore import ConfigError, DamagedFile, is_whole, open_regular, parse_json

# The most numbers of one observation or action: a video frame of 4,096 by 4,096 pixels has 50 million.
MAX_SIZE = 100_000_000
MAX_OPTIONS = 1_000_000
# What a file may hold beside its episodes and their steps: objects, and bytes from one that is stored.
MORE_OBJECTS = 1_000
OBJECTS_OF_EPISODE = 1_000
MORE_BYTES = 1_000_000_000
BYTES_FROM_FILE = 100
# No compression that HDF5 has by itself makes more of a byte.
MOST_FROM_A_BYTE = 1_100
_SLACK = 1_000_000  # bytes, which files may spare


def require_contained(path: Path, where: str, episodes: int, transitions: int) -> None:
    """ConfigError unless the HDF5 file at ``path``, if there is one, holds all of its data itself.

    The file may not have more than its ``episodes`` and ``transitions`` explain, or than its size does.
    """
    import h5py

    try:
        open_regular(path).close()
    except FileNotFoundError:  # of another format
        return
    except DamagedFile as error:
        raise ConfigError(f"{where}: {error}") from error
    with h5py.File(path, "r") as file:
        if len(file) > MORE_OBJECTS + episodes:
            raise ConfigError(f"{where}: it holds {len(file):,} groups and {episodes:,} episodes; it is damaged")
        most = MORE_OBJECTS + OBJECTS_OF_EPISODE * episodes
        left = MORE_BYTES + BYTES_FROM_FILE * path.stat().st_size
        for number, (name, found) in enumerate(_objects(file, where)):
            if number == most:
                raise ConfigError(f"{where}: it holds more than {most:,} objects; it is damaged")
            if isinstance(found, h5py.Dataset):
                _require_own_data(name, found, where)
                rows = (found.shape or (1,))[0]
                left = left - found.nbytes
                if left < 0 or rows > transitions + episodes:
                    raise ConfigError(
                        f"{where}: {name} declares {found.nbytes:,} bytes in {rows:,} rows, more than "
                        f"{transitions:,} transitions in {path.stat().st_size:,} bytes of file have; it is damaged"
                    )


def _objects(group: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Everything in a file, each object once: hard links may go in circles."""
    import h5py

    seen: set[int] = set()
    groups = [group]
    while groups:
        current = groups.pop()
        for key in current:
            if not isinstance(current.get(key, getlink=True), h5py.HardLink):
                raise ConfigError(
                    f"{where}: {current.name.rstrip('/')}/{key} is a link to somewhere else, which is not followed"
                )
            found = current[key]
            address = h5py.h5o.get_info(found.id).addr
            if address in seen:
                continue
            seen.add(address)
            if isinstance(found, h5py.Group):
                groups.append(found)
            yield found.name, found


def _require_own_data(name: str, dataset: Any, where: str) -> None:
    if dataset.external or dataset.is_virtual:
        raise ConfigError(f"{where}: {name} has its data in another file, which is not read")
    if dataset.dtype.hasobject:  # of variable length: as long as what is stored
        return
    stored = dataset.id.get_storage_size()
    declared = dataset.nbytes
    if declared > MOST_FROM_A_BYTE * stored + _SLACK:
        raise ConfigError(f"{where}: {name} declares {declared:,} bytes and stores {stored:,}; it is damaged")


def require_small_space(text: str, where: str) -> None:
    """ConfigError for the JSON text of a space whose arrays, or options, are more than any environment has."""
    try:
        pending = [parse_json(text)]
    except ValueError as error:
        raise ConfigError(f"{where} {error}") from error
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            _require_small(value, where)
            pending += value.values()
        elif isinstance(value, list):
            pending += [each for each in value if isinstance(each, Mapping | list)]


def _require_small(space: Mapping[str, Any], where: str) -> None:
    shape = space.get("shape", ())
    if not isinstance(shape, list | tuple) or not all(map(is_whole, shape)) or math.prod(shape) > MAX_SIZE:
        raise ConfigError(f"{where} has an invalid shape, or one of more than {MAX_SIZE:,} numbers")
    options = space.get("n", 0)
    if isinstance(options, int) and not 0 <= options <= MAX_OPTIONS:
        raise ConfigError(f"{where} has {'too many' if options > 0 else 'negative'} options")
