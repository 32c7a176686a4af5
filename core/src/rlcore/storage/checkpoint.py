"""The format of a checkpoint: a tree of arrays and JSON values as files, and a manifest that verifies them.

A checkpoint is a directory. It holds a tree of mappings whose leaves are numpy arrays and JSON values. Arrays go into
safetensors files (one per top-level entry, and one per ``FrozenState``, which checkpoints share: see
:mod:`rlcore.storage.frozen_files`), the rest into ``state.json``, the run's configuration into ``configuration.yaml``.
``manifest.json`` lists every file with its size and SHA-256, because safetensors itself does not notice a flipped bit.
Nothing is pickled. :mod:`rlcore.storage.checkpoints` says where checkpoints stand.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Container, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rlcore.contracts.saved_values import COUNT, EACH, TEXT, Kind, has_form
from rlcore.contracts.states import STORED_DTYPES, FrozenState, StatePart, TreePath, mapped, storable
from rlcore.errors import RunStateError, repeating
from rlcore.files.paths import is_file_name
from rlcore.files.reading import MAX_BYTES, DamagedFile, is_whole, open_regular, parse_json, read_object
from rlcore.files.writing import fsync_directory, fsync_file
from rlcore.storage.frozen_files import FILE_MARK, Arrays, FrozenFiles, checksum_in, sha256

__all__ = ["load_checkpoint"]

FORMAT_VERSION = 1
FORMAT = "checkpoint_format"  # of a manifest
MANIFEST = "manifest.json"
STATE = "state.json"
CONFIGURATION = "configuration.yaml"
MAX_MANIFEST = 1_000_000  # bytes
MAX_HEADER = 16_000_000  # bytes, of a safetensors file
_FILE = {"size": COUNT, "sha256": TEXT}
_MANIFEST = {
    FORMAT: Kind("the format of this rlcore", lambda value: type(value) is int and value == FORMAT_VERSION),
    "step": COUNT,
    "files": {STATE: _FILE, EACH: _FILE},
}
_ARRAYS = ".safetensors"
_ARRAY = "$array"  # {"$array": "name"} stands in state.json where an array was
_CONTENT = "content"


class OtherFormat(RunStateError):
    """A checkpoint in a format of a newer rlcore: not damaged, so nothing may replace it."""


def file_name(entry: str) -> str:
    """The name of the safetensors file of a top-level entry."""
    return f"{entry}{_ARRAYS}"


# ---------------------------------------------------------------- writing


def split(state: Mapping[str, Any], frozen: FrozenFiles) -> tuple[dict[str, Any], dict[str, Arrays]]:
    """The JSON values of ``state``, with a mark in the place of each array, and its arrays by file.

    Arrays of a FrozenState or a SharedPart go to ``frozen``. Raises TypeError for what is neither an array nor JSON.
    """
    tree = {}
    files: dict[str, Arrays] = {}
    for name, entry in state.items():
        arrays: Arrays = {}
        tree[name] = _split(entry, (name,), arrays, frozen)
        if arrays:
            files[file_name(name)] = arrays
    return tree, files


def _split(tree: Any, path: TreePath, arrays: Arrays, frozen: FrozenFiles | None) -> Any:
    """The tree at ``path`` with a mark in the place of each array, which is put into ``arrays`` by its path.

    Without ``frozen``, the tree is a shared part itself: all its arrays are in one file.
    """

    def is_part(value: Any, path: TreePath) -> bool:
        if frozen is not None and isinstance(value, StatePart):
            return True
        for reserved in (_ARRAY, FILE_MARK):
            if reserved in value:
                raise TypeError(f"state entry {'/'.join(map(str, path))!r}: the key {reserved} is reserved for rlcore")
        return False

    def leaf(value: Any, path: TreePath) -> Any:
        if frozen is not None and isinstance(value, StatePart):
            place = "/".join(map(str, path))
            arrays_of_part: Arrays = {}
            content = _split(dict(value), (place,), arrays_of_part, None)
            mark = {_CONTENT: content}
            frozen.add(value, arrays_of_part, mark)
            return mark
        stored = storable(value, path)
        if not isinstance(stored, np.ndarray):
            return stored
        name = _array_name(path, arrays)
        contiguous = np.ascontiguousarray(stored)  # what safetensors writes; it makes a scalar 1-d
        arrays[name] = contiguous.reshape(stored.shape)
        return {_ARRAY: name}

    return mapped(tree, leaf, is_part, path)


def _array_name(path: TreePath, used: Container[str]) -> str:
    """The array's path within its file, made unique: keys may hold any text, slashes included."""
    name = "/".join(map(str, path[1:]))
    if not name.isprintable() or name == "__metadata__":  # lone surrogates, and safetensors' own key
        name = "array"
    while name in used:
        name += "'"
    return name


def write_checkpoint(
    step: int, tree: Mapping[str, Any], arrays: Mapping[str, Arrays], configuration: str | None, frozen: FrozenFiles
) -> Collection[str]:
    """Write the files of a checkpoint of what :func:`split` returned into the directory of ``frozen``; flush them.

    Returns the names of linked files, which are verified. Raises OSError or SafetensorError if a file cannot be
    written, TypeError for a state that is too large for JSON.
    """
    directory = frozen.directory
    frozen.write()
    for file, content in arrays.items():
        save_file(content, directory / file)
    text = json.dumps(tree, indent=4)
    try:  # what load_checkpoint would refuse
        if len(text) > MAX_BYTES:
            raise ValueError(f"is larger than {MAX_BYTES:,} bytes")
        parse_json(text)
    except ValueError as error:
        raise TypeError(f"{STATE} {error}; keep numbers in numpy arrays, which go into files of their own") from error
    (directory / STATE).write_bytes(text.encode())
    if configuration is not None:
        (directory / CONFIGURATION).write_bytes(configuration.encode())
    checksums = frozen.written | frozen.linked
    files = {}
    new = []
    for path in sorted(directory.iterdir()):
        size = path.stat().st_size
        checksum = checksums.get(path.name) or sha256(path)
        files[path.name] = {"size": size, "sha256": checksum}
        if path.name not in frozen.linked:
            new.append(path)
    manifest = json.dumps({FORMAT: FORMAT_VERSION, "step": step, "files": files}, indent=4)
    if len(manifest) > MAX_MANIFEST:
        raise TypeError(
            f"{MANIFEST} is larger than {MAX_MANIFEST:,} bytes: the state has {len(checksums):,} parts that are a "
            "FrozenState; freeze a few large parts instead"
        )
    (directory / MANIFEST).write_text(manifest, encoding="utf-8")
    permissions = (directory / STATE).stat().st_mode & 0o777
    for path in [*new, directory / MANIFEST]:
        path.chmod(permissions)  # safetensors does not apply the umask
        fsync_file(path)
    fsync_directory(directory)
    return frozen.linked.keys()


# ---------------------------------------------------------------- verifying


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of the checkpoint at ``path``. Raises RunStateError if it cannot be used.

    Raises OtherFormat, whatever else it has, if a newer rlcore wrote it.
    """
    try:
        manifest = read_object(path / MANIFEST, MAX_MANIFEST)
    except (OSError, DamagedFile) as error:
        what = "missing" if isinstance(error, FileNotFoundError) else f"damaged: {error}"
        raise RunStateError(f"checkpoint {path}: {MANIFEST} is {what}") from error
    version = manifest.get(FORMAT)
    if isinstance(version, int) and is_whole(version) and version > FORMAT_VERSION:
        raise OtherFormat(
            f"checkpoint {path}: format version {version} is of a newer rlcore; this one reads {FORMAT_VERSION}; "
            "upgrade rlcore"
        )
    # A manifest that was edited must not lead to files elsewhere.
    if not has_form(manifest, _MANIFEST) or not all(map(is_file_name, manifest["files"])):
        raise RunStateError(f"checkpoint {path}: {MANIFEST} is damaged: it does not list a checkpoint's files")
    if str(manifest["step"]) != path.name:
        raise RunStateError(f"checkpoint {path}: {MANIFEST} is of step {manifest['step']}")
    return manifest


def damages(path: Path, verified: Collection[str] = ()) -> Iterator[str]:
    """A line for each file of the checkpoint that differs from the manifest; none for an intact checkpoint.

    Files in ``verified`` were compared with their checksum already, and are not read. Raises RunStateError for a
    manifest that cannot be used.
    """
    files = read_manifest(path)["files"]
    for name, listed in files.items():
        if name in verified:
            continue
        try:
            with open_regular(path / name) as stream:
                size = os.fstat(stream.fileno()).st_size
                if size != listed["size"]:
                    yield f"checkpoint {path}: {name} has {size} bytes instead of {listed['size']}"
                elif hashlib.file_digest(stream, "sha256").hexdigest() != listed["sha256"]:
                    yield f"checkpoint {path}: {name} is damaged (its SHA-256 differs from the manifest)"
        except FileNotFoundError:
            yield f"checkpoint {path}: {name} is missing"
        except DamagedFile as error:
            yield f"checkpoint {path}: {error}"
        except OSError as error:
            yield f"checkpoint {path}: {name} cannot be read: {error.strerror or error}"


def verify_checkpoint(path: Path, verified: Collection[str] = ()) -> None:
    """Raises RunStateError, naming the file, if a file of the checkpoint differs from the manifest."""
    for problem in damages(path, verified):
        raise RunStateError(problem)


# ---------------------------------------------------------------- reading


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state of the checkpoint at ``path``. Raises RunStateError, naming the file, if any file was changed."""
    verify_checkpoint(path)
    verified = read_manifest(path)["files"]
    state = load_without_arrays(path)
    join = _Join(path, verified)
    try:
        for name, entry in state.items():
            file = file_name(name)
            arrays = _load_arrays(path / file) if file in verified else {}
            state[name] = join.value(entry, file, arrays)
    except DamagedFile as error:
        raise RunStateError(f"checkpoint {path}: {error}") from error
    return state


def load_without_arrays(path: Path) -> dict[str, Any]:
    """The JSON values of the checkpoint at ``path``, not verified; marks stand in the place of arrays and frozen parts.

    Raises RunStateError if they cannot be read.
    """
    try:
        state = read_object(path / STATE)
    except (OSError, DamagedFile) as error:
        raise RunStateError(f"checkpoint {path}: cannot be read: {error}") from error
    for name in state:
        if not is_file_name(file_name(name)):
            raise RunStateError(f"checkpoint {path}: {STATE} has an entry {name[:60]!r}, which names no file")
    return state


def _load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a safetensors file. Raises DamagedFile, also for an array of a type that rlcore does not save."""
    try:
        with open_regular(path) as stream:
            header = int.from_bytes(stream.read(8), "little")
        if header > MAX_HEADER:
            raise DamagedFile(f"{path}: its header is larger than {MAX_HEADER:,} bytes")
        arrays = load_file(path)
    except (OSError, SafetensorError, LookupError, TypeError, ValueError, AttributeError, MemoryError) as error:
        # Besides its own errors, safetensors raises whatever numpy does for types that numpy lacks.
        raise repeating(error, f"{path}: is not a safetensors file", DamagedFile) from error
    for name, array in arrays.items():
        if array.dtype not in STORED_DTYPES:
            raise DamagedFile(f"{path}: the array {name[:60]!r} is of {array.dtype}, which no checkpoint holds")
    return arrays


@attrs.frozen
class _Join:
    """Puts the arrays of a checkpoint in the place of their marks; undoes :func:`split`."""

    path: Path
    verified: Container[str]
    # By file: equal frozen parts share memory.
    frozen: dict[str, Mapping[str, np.ndarray[Any, Any]]] = attrs.field(factory=dict, init=False)

    def value(self, value: Any, file: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
        """``value`` with ``arrays``, which are those in ``file``. Raises DamagedFile for an array that is missing."""

        def leaf(value: Any, path: TreePath) -> Any:
            if not isinstance(value, dict):
                return value
            if FILE_MARK in value:
                return self._frozen_state(value[FILE_MARK], value[_CONTENT])
            name = str(value[_ARRAY])
            if name not in arrays:
                raise DamagedFile(f"{file} has no array {name!r}")
            return arrays[name]

        def is_mark(value: Mapping[str, Any], path: TreePath) -> bool:
            return value.keys() in ({_ARRAY}, {FILE_MARK, _CONTENT})

        return mapped(value, leaf, is_mark)

    def _frozen_state(self, file: Any, tree: Any) -> FrozenState:
        if not isinstance(tree, dict):
            raise DamagedFile(f"{STATE} has a frozen part that is not an object")
        if file is None:
            return FrozenState(self.value(tree, STATE, {}))
        if not isinstance(file, str) or file not in self.verified:
            raise DamagedFile(f"{STATE} has a frozen part with the file {str(file)[:90]!r}, which is not a file of it")
        if file not in self.frozen:
            self.frozen[file] = FrozenState(_load_arrays(self.path / file))
        state = FrozenState(self.value(tree, file, self.frozen[file]))
        state.checksum = checksum_in(file)
        return state


# ---------------------------------------------------------------- whose files these are


def is_checkpoint(path: Path) -> bool:
    """Whether ``path`` is a directory with a manifest or a state; the files may be damaged."""
    if not path.is_dir():
        return False
    return os.path.lexists(path / MANIFEST) or os.path.lexists(path / STATE)


def own_files(path: Path) -> set[Path]:
    """The files of the checkpoint at ``path`` that rlcore wrote: those that the manifest lists.

    Where the manifest cannot be used, the entries of the state name the files. Where both cannot, every file counts
    that has the name of a checkpoint's file.
    """
    files = [entry for entry in path.iterdir() if entry.is_file() and not entry.is_symlink()]
    try:
        names = {MANIFEST, *read_manifest(path)["files"]}
    except RunStateError:
        try:
            names = {file_name(name) for name in load_without_arrays(path)}
        except RunStateError:
            names = {file.name for file in files if file.suffix == _ARRAYS}
        names |= {MANIFEST, STATE, CONFIGURATION}
        names |= {file.name for file in files if checksum_in(file.name)}
    return {file for file in files if file.name in names}
