"""The files of a run that an upload has: its configuration, results and curves, chosen checkpoints and exports.

Nothing else in a run directory is uploaded: neither ``run_logs``, nor the run's mark and lock, nor event files, nor a
file that rlcore did not write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from rlcore import (
    Checkpoint,
    ConfigError,
    DamagedFile,
    KeyPath,
    RunData,
    RunStateError,
    did_you_mean,
    dotted,
    find_checkpoints,
    open_regular,
    read_document,
    read_object,
    read_regular,
)

# the hub plays a file of the last name beside the card
CARD = "README.md"
CURVE = "curve.png"
FILM = "replay.mp4"
CONFIGURATION = "configuration.yaml"
RESULT = "result.json"
METRICS = "metrics.jsonl"
_SECRET = re.compile(r"token|secret|passw|api_?key|credential", re.IGNORECASE)
# NAME:PASSWORD@ or TOKEN@ before the host of a URL, and parameters such as ?api_key=...
_LOGIN = re.compile(
    r"://[^/\s@\"']+@|[?&;][^=&\s]*(?:token|secret|passw|pwd|key|credential|signature)[^=&\s]*=[^&\s]", re.IGNORECASE
)
_PLACE = re.compile(r"~|/[^/]|[A-Za-z]:[\\/]|\\\\")  # the beginning of an absolute path


@attrs.frozen
class Entry:
    """A file of an upload.

    Attributes:
        name: Its path in the repository, with slashes.
        source: The file on this machine, or its content.
    """

    name: str
    source: Path | bytes = attrs.field(repr=False)

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size


def chosen_checkpoints(directory: Path, chosen: Sequence[str]) -> list[Checkpoint]:
    """The checkpoints ``last``, ``best``, ``all`` or of a step; without ``chosen``, the last one and the best one.

    Raises RunStateError if a chosen checkpoint does not exist or is damaged, or if there is none at all.
    """
    regular = find_checkpoints(directory / "checkpoints")
    best = find_checkpoints(directory / "checkpoints" / "best")
    intact = [checkpoint for checkpoint in regular if not checkpoint.problems()]
    by_name = {"last": intact[-1:], "best": best[-1:], "all": intact}
    if len(best) > 1:  # earlier ones stay until a regular checkpoint knows of the new one
        by_name["best"] = [max(best, key=_score)]
    for checkpoint in regular:
        by_name[str(checkpoint.step)] = [checkpoint]
    wanted = chosen or ("last", "best")
    for name in wanted:
        if name not in by_name:
            names = [name for name, checkpoints in by_name.items() if checkpoints]
            raise RunStateError(
                f"{directory}: there is no checkpoint {name!r}{did_you_mean(name, names)}; "
                f"there are: {', '.join(names) or 'none'}"
            )
    for name in chosen:
        if not by_name[name]:
            raise RunStateError(f"{directory}: there is no intact checkpoint for --checkpoint {name}")
    by_path = {checkpoint.path: checkpoint for name in wanted for checkpoint in by_name[name]}
    for path, checkpoint in by_path.items():
        if problems := checkpoint.problems():
            raise RunStateError(f"{path}: is damaged: {problems[0]}; choose another one with --checkpoint")
    if not by_path:
        raise RunStateError(f"{directory}: has no intact checkpoint, so there is nothing to share")
    return list(by_path.values())


def _score(checkpoint: Checkpoint) -> float:
    try:
        return float(checkpoint.values()["run"]["score"])
    except (RunStateError, KeyError, TypeError, ValueError):
        return float("-inf")


def run_files(data: RunData, checkpoints: Sequence[Checkpoint], added: Sequence[Path] = ()) -> list[Entry]:
    """The files of a run that are uploaded, and those that the user ``added``, which go to ``files/``.

    Raises RunStateError for a run that is training, and ConfigError for a file that cannot be uploaded.
    """
    if data.running:
        raise RunStateError(f"{data.directory}: a process trains this run; push it when the process has ended")
    written = [name for name in (RESULT, METRICS) if (data.directory / name).is_file()]
    names = [CONFIGURATION, *written, *exported(data.directory)]
    paths = {name: data.directory / name for name in names}
    for checkpoint in checkpoints:
        folder = "checkpoints/best" if checkpoint.best else "checkpoints"
        for file in checkpoint.files():
            paths[f"{folder}/{checkpoint.step}/{file.name}"] = file
    for path in added:
        name = f"files/{path.name}"
        if name in paths:
            raise ConfigError(f"--add {path}: another file has the name {path.name}; rename one of them")
        paths[name] = path
    for path in paths.values():
        if path.is_symlink():
            raise ConfigError(f"{path}: is a symbolic link, which is not uploaded; put the file itself there")
        try:
            open_regular(path).close()
        except (FileNotFoundError, DamagedFile) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{path}: cannot be uploaded: {reason}") from None
    return [Entry(name, path) for name, path in paths.items()]


def exported(directory: Path) -> list[str]:
    """The policies that the run exported at its end, such as ``CartPole.onnx``, by the mark of the run."""
    try:
        exports = read_object(directory / "rlcore_run.json").get("exports")
    except (FileNotFoundError, DamagedFile):
        return []
    if not isinstance(exports, Mapping):
        return []
    # A damaged mark must not name files elsewhere, or hidden ones such as the lock.
    plain = [name for name in exports if Path(name).name == name and not name.startswith(".")]
    return [name for name in plain if (directory / name).is_file()]


# ---------------------------------------------------------------- what others must not read


def require_nothing_private(data: RunData, entries: Sequence[Entry]) -> None:
    """Raise ConfigError if a file of the run names a place of this machine, or has a value that looks like a secret."""
    problems = [f"{CONFIGURATION}: {text}" for text in private_values(data.configuration)]
    problems += [f"{RESULT}: {text}" for text in private_values(data.result or {})]
    directories = (Path.home(), Path.cwd(), data.directory.absolute().parent)
    places = {str(directory).encode() for directory in directories} - {b"/"}
    for entry in entries:
        if not isinstance(entry.source, Path):
            continue
        if entry.name.endswith(f"/{CONFIGURATION}"):  # of a checkpoint
            configuration = read_document(entry.source).data
            problems += [f"{entry.name}: {text}" for text in private_values(configuration)]
        if entry.name.endswith((".json", ".jsonl")) and entry.name != RESULT:
            content = read_regular(entry.source, MAX_METRICS)
            if _LOGIN.search(content.decode("utf-8", "replace")):
                problems.append(f"{entry.name}: a URL with a password")
            named = [place.decode(errors="replace") for place in places if place + b"/" in content]
            problems += [f"{entry.name}: {place}" for place in named]
    if problems:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise ConfigError(
            f"{data.directory}: has values that others should not read: {'; '.join(problems[:5])}{more}; "
            "--allow-private uploads them"
        )


MAX_METRICS = 2_000_000_000  # bytes; what rlcore itself reads of metrics is less


def private_values(block: Any) -> Iterator[str]:
    """Yield the key of each absolute path, with the path, and of each text that looks like a secret, without it."""
    for path, value in _texts(block):
        keys = [part for part in path if isinstance(part, str)]  # the others are indices of lists
        secret_key = bool(keys) and _SECRET.search(keys[-1])
        if (secret_key and value) or _LOGIN.search(value):
            yield f"{dotted(path)} (looks like a secret)"
        elif _PLACE.match(value):
            yield f"{dotted(path)} ({value})"


def _texts(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    entries: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, below in entries:
        yield from _texts(below, (*path, key))
