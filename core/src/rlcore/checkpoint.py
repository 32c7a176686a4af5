"""Checkpoints: one directory each, written whole or not at all, verified before anything older is deleted.

A checkpoint holds a tree of mappings whose leaves are numpy arrays and JSON values. Arrays go into safetensors files
(one per top-level entry), the rest into ``state.json``; ``manifest.json`` lists every file with its size and SHA-256,
because safetensors itself does not notice a flipped bit. Nothing is pickled.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rlcore.errors import RunStateError

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
STATE = "state.json"
_ARRAY = "$array"  # {"$array": "name"} stands in state.json where an array was
_STEP_NAME = re.compile(r"\d+")


@attrs.frozen
class Checkpoint:
    """A checkpoint directory that was found, not necessarily a good one."""

    step: int
    path: Path


def find_checkpoints(directory: Path) -> list[Checkpoint]:
    """All checkpoints under ``directory``, oldest first; unfinished ones have other names and are not seen."""
    if not directory.is_dir():
        return []
    found = [Checkpoint(int(p.name), p) for p in directory.iterdir() if _STEP_NAME.fullmatch(p.name) and p.is_dir()]
    return sorted(found, key=lambda checkpoint: checkpoint.step)


def save_checkpoint(directory: Path, step: int, state: Mapping[str, Any]) -> Path:
    """Writes ``state`` as the checkpoint of ``step`` and returns its path.

    Written beside its place, flushed to disk, then renamed: a reader, or a crash, never meets half of one. Raises
    RunStateError if it cannot be written; what was written so far is removed.
    """
    final = directory / str(step)
    temporary = directory / f".tmp-{step}-{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        _write_files(temporary, state)
        if final.exists():  # a run that went on from an older checkpoint reached this step again
            replaced = directory / f".old-{step}-{os.getpid()}"
            final.rename(replaced)
            temporary.rename(final)
            shutil.rmtree(replaced)
        else:
            temporary.rename(final)
        fsync_directory(directory)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise RunStateError(_cannot_write(directory, step, error)) from error
    verify_checkpoint(final)
    return final


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state of a checkpoint. Raises RunStateError, naming the file, unless everything in it is as written."""
    verify_checkpoint(path)
    try:
        tree = json.loads((path / STATE).read_text(encoding="utf-8"))
        return {
            name: _join(entry, load_file(path / file_name(name)) if (path / file_name(name)).exists() else {})
            for name, entry in tree.items()
        }
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise RunStateError(f"checkpoint {path}: cannot be read: {error}") from error


def verify_checkpoint(path: Path) -> None:
    """Raises RunStateError, naming the file, if the checkpoint is not exactly what was written."""
    manifest_path = path / MANIFEST
    try:
        manifest = json.loads(manifest_path.read_text(encoding="utf-8"))
        version, files = manifest["format_version"], manifest["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunStateError(f"checkpoint {path}: {MANIFEST} is missing or damaged") from error
    if version != FORMAT_VERSION:
        raise RunStateError(
            f"checkpoint {path}: format version {version}, this rlcore reads {FORMAT_VERSION}; "
            "use the rlcore release that wrote it"
        )
    for name, expected in files.items():
        file = path / name
        if not file.is_file():
            raise RunStateError(f"checkpoint {path}: {name} is missing")
        size = file.stat().st_size
        if size != expected["size"]:
            raise RunStateError(f"checkpoint {path}: {name} has {size} bytes instead of {expected['size']}")
        if sha256(file) != expected["sha256"]:
            raise RunStateError(f"checkpoint {path}: {name} is damaged (its SHA-256 differs from the manifest)")


def newest_good(directory: Path) -> Iterator[tuple[Checkpoint, dict[str, Any] | None, str]]:
    """Checkpoints from the newest on, each ``(checkpoint, state, "")``, or ``(checkpoint, None, what is wrong)``."""
    for checkpoint in reversed(find_checkpoints(directory)):
        try:
            yield checkpoint, load_checkpoint(checkpoint.path), ""
        except RunStateError as error:
            yield checkpoint, None, str(error)


def rotate(directory: Path, keep: int) -> list[Checkpoint]:
    """Deletes the oldest checkpoints beyond ``keep`` (0 or less keeps all); returns those that stay, oldest first."""
    found = find_checkpoints(directory)
    if keep <= 0:
        return found
    for checkpoint in found[:-keep]:
        # Renamed first: a deletion that is cut short must not leave a checkpoint with files missing.
        doomed = directory / f".old-{checkpoint.step}-{os.getpid()}"
        checkpoint.path.rename(doomed)
        shutil.rmtree(doomed)
    return found[-keep:]


def sweep(directory: Path) -> None:
    """Removes what killed processes left half-written or half-deleted. Only for the holder of the run's lock."""
    if directory.is_dir():
        for leftover in [*directory.glob(".tmp-*"), *directory.glob(".old-*")]:
            shutil.rmtree(leftover)


def file_name(name: str) -> str:
    """The safetensors file of a top-level entry."""
    return f"{name}.safetensors"


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file so that readers see the old content or the new, also after a crash."""
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def fsync_directory(path: Path) -> None:
    """Makes renames in ``path`` last."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write_files(directory: Path, state: Mapping[str, Any]) -> None:
    tree = {}
    for name, entry in state.items():
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        tree[name] = _split(entry, "", arrays)
        if arrays:
            save_file(arrays, directory / file_name(name))
    (directory / STATE).write_text(json.dumps(tree, indent=1), encoding="utf-8")
    written = sorted(directory.iterdir())
    files = {file.name: {"size": file.stat().st_size, "sha256": sha256(file)} for file in written}
    manifest = {"format_version": FORMAT_VERSION, "files": files}
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    for file in [*written, directory / MANIFEST]:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
    fsync_directory(directory)


def _split(value: Any, path: str, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """The value with arrays taken out into ``arrays`` under their path."""
    if isinstance(value, Mapping):
        return {str(key): _split(item, f"{path}/{key}" if path else str(key), arrays) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        arrays[path] = np.ascontiguousarray(value).reshape(value.shape)  # ascontiguousarray makes a scalar 1-d
        return {_ARRAY: path}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_split(item, f"{path}/{index}", arrays) for index, item in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"state entry {path!r}: {type(value).__name__} is neither an array nor a JSON value")


def _join(value: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            return arrays[value[_ARRAY]]
        return {key: _join(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_join(item, arrays) for item in value]
    return value


def _cannot_write(directory: Path, step: int, error: OSError | SafetensorError) -> str:
    good = find_checkpoints(directory)
    last = f"the last good one is of step {good[-1].step}" if good else "there is no earlier one"
    fix = {
        errno.ENOSPC: "free some space",
        errno.EDQUOT: "free some space",
        errno.EACCES: "give this user permission to write there",
        errno.EROFS: "make the file system writable",
    }
    code, cause = (error.errno, error.strerror) if isinstance(error, OSError) else _safetensors_cause(str(error))
    return (
        f"checkpoint of step {step} in {directory} cannot be written: {cause or error}; {last}; "
        f"{fix.get(code or 0, 'mend the cause')} and go on with --resume"
    )


def _safetensors_cause(message: str) -> tuple[int | None, str]:
    """safetensors reports the operating system's errors as text that ends in ``(os error 28)``."""
    found = re.search(r"os error (\d+)", message)
    code = int(found.group(1)) if found else None
    return code, os.strerror(code) if code else message
