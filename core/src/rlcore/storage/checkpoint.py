"""Checkpoints: one directory each, written whole or not at all, verified before anything older is deleted.

A checkpoint holds a tree of mappings whose leaves are numpy arrays and JSON values. Arrays go into safetensors files
(one per top-level entry), the rest into ``state.json``, the run's configuration into ``configuration.yaml``;
``manifest.json`` lists every file with its size and SHA-256, because safetensors itself does not notice a flipped bit.
Nothing is pickled.

Only what rlcore wrote is ever deleted: a directory counts as a checkpoint by the files in it, not by its name, and
temporary files have names that begin with ``.rlcore-tmp-``.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rlcore.errors import RunStateError, one_line
from rlcore.files.atomic import TEMPORARY, free_name, fsync_directory
from rlcore.files.json_files import (
    MAX_BYTES,
    DamagedFile,
    is_file_name,
    is_whole,
    open_regular,
    parse_json,
    read_object,
)

log = logging.getLogger(__name__)

FORMAT_VERSION = 2
MANIFEST = "manifest.json"
STATE = "state.json"
CONFIGURATION = "configuration.yaml"
_ARRAYS = ".safetensors"
MAX_MANIFEST = 1_000_000  # bytes
MAX_HEADER = 16_000_000  # bytes, of a safetensors file
_ARRAY = "$array"  # {"$array": "name"} stands in state.json where an array was
_STEP_NAME = re.compile(r"[0-9]{1,18}")
# What safetensors keeps; numpy has more (texts, dates, objects).
_DTYPES = frozenset(np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)) | {
    np.dtype(name) for name in ("bool", "float16", "float32", "float64")
}


@attrs.frozen
class Checkpoint:
    """A checkpoint directory that was found, not necessarily a good one."""

    step: int
    path: Path


class NewerFormat(RunStateError):
    """A checkpoint in a format of a later rlcore: nothing is wrong with it, so nothing may take its place."""


def find_checkpoints(directory: Path) -> list[Checkpoint]:
    """All checkpoints under ``directory``, oldest first, damaged ones included.

    A directory with a number for a name is a checkpoint if it has a manifest or a state; another one is a user's.
    """
    if not directory.is_dir():
        return []
    found = [Checkpoint(int(p.name), p) for p in directory.iterdir() if _STEP_NAME.fullmatch(p.name)]
    return sorted((each for each in found if _is_checkpoint(each.path)), key=lambda checkpoint: checkpoint.step)


def _is_checkpoint(path: Path) -> bool:
    return path.is_dir() and any(os.path.lexists(path / name) for name in (MANIFEST, STATE))


def foreign_entries(path: Path) -> list[Path]:
    """What is in a checkpoint and was not put there by rlcore."""
    own = _own_files(path)
    return [entry for entry in path.iterdir() if entry not in own]


def _own_files(path: Path) -> set[Path]:
    """The files of a checkpoint: those that its manifest lists, or, if that is damaged, those with names of such."""
    files = [entry for entry in path.iterdir() if entry.is_file() and not entry.is_symlink()]
    try:
        listed = _listed(read_object(path / MANIFEST, MAX_MANIFEST).get("files"))
    except (OSError, DamagedFile):
        listed = None
    if listed is None:
        return {file for file in files if file.name in (MANIFEST, STATE, CONFIGURATION) or file.suffix == _ARRAYS}
    return {file for file in files if file.name in (MANIFEST, *listed)}


def save_checkpoint(directory: Path, step: int, state: Mapping[str, Any], configuration: str | None = None) -> Path:
    """Writes ``state`` as the checkpoint of ``step`` and returns its path.

    Written beside its place, flushed to disk, then renamed: a reader, or a crash, never meets half of one.
    ``configuration`` is kept as ``configuration.yaml``. Files of others that stand in its place move beside it. Raises
    RunStateError if the checkpoint cannot be written, TypeError for a state that is not arrays and JSON; what was
    written so far is removed.
    """
    final = directory / str(step)
    temporary = directory / f"{TEMPORARY}{step}-{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        _write_files(temporary, step, state, configuration)
        replaced = None
        if os.path.lexists(final):  # a run that was resumed from an older checkpoint reached this step again
            replaced = _make_room(final)
        temporary.rename(final)
        if replaced is not None:
            shutil.rmtree(replaced)
        fsync_directory(directory)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise RunStateError(_cannot_write(directory, step, error)) from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    verify_checkpoint(final)
    return final


def remove_checkpoint(path: Path) -> None:
    """Deletes a checkpoint. Files in it that rlcore did not write stay, in a directory that is no checkpoint then.

    A link to a checkpoint stays too: rlcore makes none.
    """
    if path.is_symlink():
        return
    if foreign_entries(path):
        # The manifest and the state first: without them a deletion that is cut short leaves no checkpoint.
        for file in sorted(_own_files(path), key=lambda file: file.name not in (MANIFEST, STATE)):
            file.unlink()
        return
    shutil.rmtree(_set_aside(path))


def _make_room(path: Path) -> Path | None:
    """Frees the place of a checkpoint. Returns the old checkpoint, to be deleted, if nothing else was there.

    Files of others, or a directory that is no checkpoint, move to ``STEP.replaced`` and stay.
    """
    ours = not path.is_symlink() and _is_checkpoint(path)
    if ours and not foreign_entries(path):
        return _set_aside(path)
    place = path.rename(free_name(path))
    if ours:
        remove_checkpoint(place)
    log.warning("%s: a checkpoint needs this name; what rlcore did not write there is in %s", path, place)
    return None


def _set_aside(path: Path) -> Path:
    """Renames what is to be deleted: a deletion that is cut short must not leave a checkpoint with files missing."""
    return path.rename(path.with_name(f"{TEMPORARY}deleted-{path.name}-{os.getpid()}"))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state of a checkpoint. Raises RunStateError, naming the file, unless everything in it is as written."""
    verified = verify_checkpoint(path)
    state = load_without_arrays(path)
    for name, entry in state.items():
        file = path / file_name(name)
        try:
            state[name] = _join(entry, _load_arrays(file) if file.name in verified else {})
        except DamagedFile as error:
            raise RunStateError(f"checkpoint {path}: {error}") from error
        except KeyError as error:
            raise RunStateError(f"checkpoint {path}: {file.name} has no array {error.args[0]!r}") from error
    return state


def load_without_arrays(path: Path) -> dict[str, Any]:
    """The same of the JSON values alone, of a checkpoint that was verified; a mark stands where an array was."""
    try:
        state = read_object(path / STATE)
    except (OSError, DamagedFile) as error:
        raise RunStateError(f"checkpoint {path}: cannot be read: {error}") from error
    for name in state:
        if not is_file_name(file_name(name)):
            raise RunStateError(f"checkpoint {path}: {STATE} has an entry {name[:60]!r}, which names no file")
    return state


def verify_checkpoint(path: Path) -> tuple[str, ...]:
    """The names of its files. Raises RunStateError, naming the file, unless all are exactly what was written."""
    try:
        manifest = read_object(path / MANIFEST, MAX_MANIFEST)
    except (OSError, DamagedFile) as error:
        what = "missing" if isinstance(error, FileNotFoundError) else f"damaged: {error}"
        raise RunStateError(f"checkpoint {path}: {MANIFEST} is {what}") from error
    version, step, files = manifest.get("format_version"), manifest.get("step"), _listed(manifest.get("files"))
    _require_format(path, manifest)
    if files is None or not is_whole(version) or not is_whole(step):
        raise RunStateError(f"checkpoint {path}: {MANIFEST} is damaged: it is no list of a checkpoint's files")
    if version != FORMAT_VERSION:
        raise RunStateError(
            f"checkpoint {path}: format version {version}, this rlcore reads {FORMAT_VERSION}; "
            "use the rlcore release that wrote it"
        )
    if str(step) != path.name:
        raise RunStateError(f"checkpoint {path}: {MANIFEST} is of step {step}")
    for name, (size, digest) in files.items():
        try:
            found, found_digest = _measured(path / name, size)
        except FileNotFoundError as error:
            raise RunStateError(f"checkpoint {path}: {name} is missing") from error
        except DamagedFile as error:
            raise RunStateError(f"checkpoint {path}: {error}") from error
        except OSError as error:
            raise RunStateError(f"checkpoint {path}: {name} cannot be read: {error.strerror or error}") from error
        if found != size:
            raise RunStateError(f"checkpoint {path}: {name} has {found} bytes instead of {size}")
        if found_digest != digest:
            raise RunStateError(f"checkpoint {path}: {name} is damaged (its SHA-256 differs from the manifest)")
    return tuple(files)


def _require_format(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raises NewerFormat if the manifest of the checkpoint at ``path`` is of a newer rlcore."""
    version = manifest.get("format_version")
    if isinstance(version, int) and is_whole(version) and version > FORMAT_VERSION:
        raise NewerFormat(
            f"checkpoint {path}: format version {version} is of a newer rlcore; this one reads {FORMAT_VERSION}; "
            "upgrade rlcore"
        )


def newest_good(
    directory: Path,
    origin: str,
    advice: str = "",
    step: int | None = None,
    check: Callable[[Path, Mapping[str, Any]], None] | None = None,
) -> tuple[Checkpoint, dict[str, Any]]:
    """The newest checkpoint under ``directory`` that is whole, or the one of ``step``, and its state.

    One that is damaged is passed over with a warning; so is one that ``check``, called with its path and state, refuses
    with a RunStateError. Raises RunStateError if none is left: ``origin`` says in its message who asked for one,
    ``advice`` what to do; and NewerFormat, since what a newer rlcore wrote is not damaged.
    """
    problem = ""
    found = find_checkpoints(directory)
    for checkpoint in reversed(found):
        if step is not None and checkpoint.step != step:
            continue
        try:
            state = load_checkpoint(checkpoint.path)
            if check is not None:
                check(checkpoint.path, state)
            return checkpoint, state
        except NewerFormat:
            raise
        except RunStateError as error:
            older = step is None and checkpoint != found[0]
            log.warning("%s; going on from an older checkpoint" if older else "%s", error)
            problem = problem or f" ({error})"
    if find_checkpoints(directory) != found:  # the run is training, and has replaced what was found
        return newest_good(directory, origin, advice, step, check)
    raise RunStateError(f"{origin}: there is no usable checkpoint in {directory}{problem}{advice}")


def rotate(directory: Path, keep: int, newest: int, is_good: Callable[[Checkpoint], bool]) -> list[Checkpoint]:
    """Deletes the checkpoints older than the ``keep`` newest good ones (0 or less keeps all).

    Returns the good ones that stay, oldest first. ``newest`` is the step just saved: a checkpoint that claims to be
    newer is damaged, as the run was resumed from an older one, and stays until the run saves that step again. A damaged
    checkpoint pushes out no good one.
    """
    found = [checkpoint for checkpoint in find_checkpoints(directory) if checkpoint.step <= newest]
    stay: list[Checkpoint] = []
    for checkpoint in reversed(found):
        if keep > 0 and len(stay) == keep:
            remove_checkpoints(directory, [each for each in found if each.step <= checkpoint.step])
            break
        if is_good(checkpoint):
            stay.append(checkpoint)
    return stay[::-1]


def remove_checkpoints(directory: Path, checkpoints: list[Checkpoint]) -> None:
    """Deletes ``checkpoints`` of ``directory``. Raises RunStateError if that fails."""
    try:
        for checkpoint in checkpoints:
            remove_checkpoint(checkpoint.path)
    except OSError as error:
        raise RunStateError(f"{directory}: cannot delete an old checkpoint: {error.strerror or error}") from error


def is_good(checkpoint: Checkpoint) -> bool:
    """Whether everything in a checkpoint is as it was written. Raises NewerFormat for one of a newer rlcore."""
    try:
        verify_checkpoint(checkpoint.path)
    except NewerFormat:
        raise
    except RunStateError:
        return False
    return True


def require_no_newer(directory: Path) -> None:
    """Raises NewerFormat if a checkpoint under ``directory`` is of a newer rlcore, which must not lose it."""
    for checkpoint in find_checkpoints(directory):
        try:
            _require_format(checkpoint.path, read_object(checkpoint.path / MANIFEST, MAX_MANIFEST))
        except NewerFormat:
            raise
        except (OSError, RunStateError):
            continue  # damaged


def file_name(name: str) -> str:
    """The safetensors file of a top-level entry."""
    return f"{name}{_ARRAYS}"


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _listed(files: Any) -> dict[str, tuple[int, str]] | None:
    """Size and checksum of each file that a manifest lists; None unless all are within the directory."""
    if not isinstance(files, dict) or STATE not in files:
        return None
    listed = {}
    for name, file in files.items():
        entry = file if isinstance(file, dict) else {}
        size, digest = entry.get("size", -1), entry.get("sha256")
        if not (is_file_name(name) and is_whole(size) and isinstance(digest, str)):
            return None
        listed[name] = (int(size), digest)
    return listed


def _measured(path: Path, size: int) -> tuple[int, str]:
    """The size of a regular file and its SHA-256, which is left out if the size is not the one that is expected."""
    with open_regular(path) as stream:
        found = os.fstat(stream.fileno()).st_size
        return found, hashlib.file_digest(stream, "sha256").hexdigest() if found == size else ""


def _load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a safetensors file whose types a checkpoint may hold. Raises DamagedFile."""
    try:
        with open_regular(path) as stream:
            header = int.from_bytes(stream.read(8), "little")
        if header > MAX_HEADER:
            raise DamagedFile(f"{path}: its header is larger than {MAX_HEADER:,} bytes")
        arrays = load_file(path)
    except FileNotFoundError as error:
        raise DamagedFile(f"{path}: is missing") from error
    except (OSError, SafetensorError, LookupError, TypeError, ValueError, AttributeError, MemoryError) as error:
        # Beside its own errors, safetensors raises whatever numpy does for types that numpy has not.
        raise DamagedFile(f"{path}: is no safetensors file: {one_line(error)}") from error
    for name, array in arrays.items():
        if array.dtype not in _DTYPES:
            raise DamagedFile(f"{path}: the array {name[:60]!r} is of {array.dtype}, which no checkpoint holds")
    return arrays


def _write_files(directory: Path, step: int, state: Mapping[str, Any], configuration: str | None) -> None:
    tree = {}
    for name, entry in state.items():
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        tree[name] = _split(entry, (name,), arrays)
        if arrays:
            save_file(arrays, directory / file_name(name))
    text = json.dumps(tree, indent=4)
    _require_readable(text)
    (directory / STATE).write_text(text, encoding="utf-8")
    if configuration is not None:
        (directory / CONFIGURATION).write_text(configuration, encoding="utf-8")
    written = sorted(directory.iterdir())
    permissions = (directory / STATE).stat().st_mode & 0o777
    for file in written:
        file.chmod(permissions)  # safetensors asks no umask
    files = {file.name: {"size": file.stat().st_size, "sha256": sha256(file)} for file in written}
    manifest = {"format_version": FORMAT_VERSION, "step": step, "files": files}
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=4), encoding="utf-8")
    for file in [*written, directory / MANIFEST]:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
    fsync_directory(directory)


def _require_readable(text: str) -> None:
    """TypeError for a state that :func:`load_checkpoint` would refuse: nothing is written that cannot be read."""
    try:
        if len(text) > MAX_BYTES:
            raise ValueError(f"is larger than {MAX_BYTES:,} bytes")
        parse_json(text)
    except ValueError as error:
        raise TypeError(f"{STATE} {error}; keep numbers in numpy arrays, which go into files of their own") from error


def _split(value: Any, path: tuple[str, ...], arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """The value with arrays taken out into ``arrays`` under their path."""
    if isinstance(value, Mapping):
        if _ARRAY in value:
            raise TypeError(f"state entry {'/'.join(path)!r}: the key {_ARRAY} is rlcore's own")
        return {str(key): _split(item, (*path, str(key)), arrays) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        if value.dtype not in _DTYPES:
            raise TypeError(f"state entry {'/'.join(path)!r}: an array of {value.dtype} cannot be saved")
        name = _array_name(path, arrays)
        arrays[name] = np.ascontiguousarray(value).reshape(value.shape)  # ascontiguousarray makes a scalar 1-d
        return {_ARRAY: name}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (list, tuple)):
        return [_split(item, (*path, str(index)), arrays) for index, item in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"state entry {'/'.join(path)!r}: {type(value).__name__} is neither an array nor a JSON value")


def _array_name(path: tuple[str, ...], taken: Container[str]) -> str:
    """The path within its file, made unique: keys may hold any text, slashes included."""
    name = "/".join(path[1:])
    if not name.isprintable() or name == "__metadata__":  # lone surrogates, and safetensors' own key
        name = "array"
    while name in taken:
        name += "'"
    return name


def _join(value: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            return arrays[str(value[_ARRAY])]
        return {key: _join(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_join(item, arrays) for item in value]
    return value


def _cannot_write(directory: Path, step: int, error: OSError | SafetensorError) -> str:
    # The best checkpoints are kept within the directory of those that a resumed run goes on from.
    places = [*find_checkpoints(directory.parent), *find_checkpoints(directory)]
    good = next((found.step for found in reversed(places) if is_good(found)), None)
    go_on = "start the run again" if good is None else "go on with --resume"
    last = "there is no earlier one" if good is None else f"the last good one is of step {good}"
    fix = {
        errno.ENOSPC: "free some space",
        errno.EDQUOT: "free some space",
        errno.EACCES: "give this user permission to write there",
        errno.EROFS: "make the file system writable",
    }
    code, cause = (error.errno, error.strerror) if isinstance(error, OSError) else _safetensors_cause(str(error))
    return (
        f"checkpoint of step {step} in {directory} cannot be written: {cause or error}; {last}; "
        f"{fix.get(code or 0, 'mend the cause')} and {go_on}"
    )


def _safetensors_cause(message: str) -> tuple[int | None, str]:
    """safetensors reports the operating system's errors as text that ends in ``(os error 28)``."""
    found = re.search(r"os error (\d+)", message)
    code = int(found.group(1)) if found else None
    return code, os.strerror(code) if code else message
