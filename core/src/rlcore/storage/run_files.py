"""Separate the files in a run directory that rlcore and plugins wrote from those of others.

A directory is a run if it has the mark, ``rlcore_run.json``, which only rlcore writes. The mark also names the files
that plugins write into the directory, and the exported policies. Nothing else in a run directory is ever deleted, and
a command writes no output to the place of a run's file.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath

import attrs

from rlcore.contracts.saved_values import COUNT, EACH, TEXT, Kind, has_form
from rlcore.errors import ConfigError, RunStateError
from rlcore.files.lock import LOCK
from rlcore.files.paths import is_file_name, pattern_problem
from rlcore.files.reading import DamagedFile, failing_as, read_object
from rlcore.files.writing import is_leftover, remove, write_atomically
from rlcore.storage.checkpoint import CONFIGURATION
from rlcore.storage.checkpoints import BEST, CHECKPOINTS, find_checkpoints, foreign_entries, is_step, remove_checkpoint

__all__ = ["require_output"]

MARK = "rlcore_run.json"
LOGS = "run_logs"
TIMERS = "timers.json"
RESULT = "result.json"
STATUS = "training_status.json"
HOLDS = "held_checkpoints.json"  # while a process of the run holds some
FORMAT = 1

_FILES = frozenset({LOCK, MARK, CONFIGURATION, RESULT, f"{LOGS}/{STATUS}", f"{LOGS}/{TIMERS}", f"{LOGS}/{HOLDS}"})
_PLAIN = re.compile(r"[^*?\[]*", re.DOTALL)  # a pattern that matches its own text alone
_OF_CHECKPOINTS = (CHECKPOINTS, f"{CHECKPOINTS}/{BEST}")
_FOLDERS = frozenset({LOGS, *_OF_CHECKPOINTS})
_MARK = {
    "run": TEXT,
    "files": [TEXT],
    "exports": {EACH: Kind("null or a step", lambda value: value is None or COUNT.fits(value))},
    "replaces": {EACH: TEXT},
    "job": TEXT,
}


@attrs.frozen(slots=False)
class Mark:
    """The content of a run's mark, which says whose the files in its directory are."""

    run: str = attrs.field(factory=lambda: uuid.uuid4().hex)  # two runs of one name differ in it
    files: tuple[str, ...] = ()  # patterns of what plugins write, relative to the directory
    # Exported policies, relative to the directory: BEHAVIOR/FILE with the step of its checkpoint, FILE with the step at
    # the end of the run, or None while it is written and after that has failed.
    exports: Mapping[str, int | None] = attrs.field(factory=dict)
    replaces: Mapping[str, str] = attrs.field(factory=dict)  # `run` by directory; see replaced_runs.py
    job: str = ""  # of torchrun, if it started the process that wrote here last

    @cached_property
    def _declared(self) -> Patterns:
        return Patterns((*_FILES, *self.files))

    @cached_property
    def _folders(self) -> Patterns:
        written = (*self.files, *self.exports)
        return Patterns((*_FOLDERS, *(str(parent) for each in written for parent in PurePosixPath(each).parents)))

    def declares(self, relative: str) -> bool:
        """Whether rlcore itself, or a plugin that declared its files, writes a file of that name; no export counts."""
        return self._declared.match(relative)

    def is_folder(self, relative: str) -> bool:
        """Whether rlcore, a plugin or an export has files in a folder of that name."""
        return self._folders.match(relative)

    def has_name(self, relative: str) -> bool:
        """Whether the run may write a file or a folder of that name."""
        return self.declares(relative) or relative in self.exports or self.is_folder(relative)

    def may_become(self, relative: str) -> bool:
        """Whether the run may write a file or a folder of that name on a file system that ignores case."""
        names = Patterns(name.casefold() for name in (*_FILES, *self.files, *self.exports))
        path = PurePosixPath(relative.casefold())
        # A pattern may match a folder.
        inside = any(names.match(str(part)) or is_leftover(part.name) for part in (path, *path.parents))
        return inside or str(path) in _FOLDERS


class Patterns:
    """Patterns of relative paths, in which ``*`` does not match a slash. A run may have thousands of plain names."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._names = frozenset(patterns)
        self._patterns = [PurePosixPath(each).parts for each in self._names if not _PLAIN.fullmatch(each)]

    def match(self, relative: str) -> bool:
        """Whether ``relative`` matches a pattern part by part."""
        parts = PurePosixPath(relative).parts
        return relative in self._names or any(
            len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern)) for pattern in self._patterns
        )


def read_mark(directory: Path) -> Mark | None:
    """The mark of the run in ``directory``; None if it is missing, damaged or not written by rlcore."""
    try:
        found = read_object(directory / MARK)
    except (OSError, DamagedFile):
        return None
    if not has_form(found, _MARK):
        return None
    # A mark that was edited must not reach beyond its run.
    return Mark(
        found["run"],
        tuple(pattern for pattern in found["files"] if pattern_problem(pattern) is None),
        {
            name: step
            for name, step in found["exports"].items()
            if name.count("/") <= 1 and all(map(is_file_name, name.split("/")))
        },
        {name: run for name, run in found["replaces"].items() if is_file_name(name)},
        found["job"],
    )


def write_mark(directory: Path, mark: Mark) -> None:
    """Writes the mark of a run. Raises OSError."""
    from rlcore import __version__

    content = {"format": FORMAT, "rlcore_version": __version__, **attrs.asdict(mark)}
    write_atomically(directory / MARK, (json.dumps(content, indent=4) + "\n").encode())


def without_exports(directory: Path, mark: Mark, gone: Callable[[int | None], bool]) -> Mark:
    """Deletes the exported policies beside checkpoints of whose steps ``gone`` is true.

    Returns the mark without them. Raises RunStateError if a file cannot be deleted; a later call tries again.
    """
    names = [name for name, step in mark.exports.items() if "/" in name and gone(step)]
    for path in map(directory.joinpath, names):
        with failing_as(f"{path}: cannot be deleted"):
            if not path.is_dir():
                path.unlink(missing_ok=True)
    return attrs.evolve(mark, exports={name: step for name, step in mark.exports.items() if name not in names})


def exports_in(directory: Path) -> dict[str, int | None]:
    """The exported policies that are there, relative to the run directory, with the step of the policy in each.

    The step of a file whose export was not finished is None.
    """
    mark = read_mark(directory) or Mark()
    return {name: step for name, step in mark.exports.items() if (directory / name).is_file()}


def outcome_in(directory: Path) -> str | None:
    """The outcome in the run's result; None if there is no result, ``unknown`` if it cannot be read."""
    try:
        outcome = read_object(directory / RESULT).get("outcome")
    except FileNotFoundError:
        return None
    except (OSError, DamagedFile):
        return "unknown"
    return outcome if isinstance(outcome, str) else "unknown"


# ---------------------------------------------------------------- whose files these are


def entries(directory: Path, mark: Mark) -> Iterator[tuple[Path, bool]]:
    """Every file, link, checkpoint and unknown folder in the directory, and whether rlcore or a plugin wrote it."""
    open_folders = [directory]
    while open_folders:
        for path in sorted(open_folders.pop().iterdir()):
            relative = _relative(directory, path)
            if path.is_symlink():  # rlcore makes no links
                yield path, False
            elif is_step(path) and _relative(directory, path.parent) in _OF_CHECKPOINTS:
                yield path, True
                yield from ((entry, False) for entry in foreign_entries(path))
            elif path.is_dir() and mark.is_folder(relative):
                open_folders.append(path)
            elif path.is_dir() and relative in _FILES | mark.exports.keys():
                yield path, False
            else:
                yield path, mark.declares(relative) or relative in mark.exports or is_leftover(path.name)


def foreign_files(directory: Path, mark: Mark) -> list[Path]:
    """The files and links in the run directory that neither rlcore nor a plugin that declared them wrote."""
    return [path for path, own in entries(directory, mark) if not own]


def is_link_of_run(directory: Path, path: Path, mark: Mark) -> bool:
    """Whether ``path`` is a symbolic link with the name of a file or a folder that the run writes."""
    return path.is_symlink() and mark.has_name(_relative(directory, path))


def require_no_links(directory: Path, mark: Mark) -> None:
    """Raises RunStateError if a symbolic link stands where the run writes: it may lead to the files of another run."""
    for path in foreign_files(directory, mark):
        if is_link_of_run(directory, path, mark):
            raise RunStateError(
                f"{path}: is a symbolic link, and a run writes and deletes only in its own directory; move what it "
                "leads to here, or link the whole results directory"
            )


def remove_own(directory: Path, mark: Mark, keep: tuple[str, ...] = ()) -> None:
    """Deletes what rlcore and plugins wrote, then the folders that are empty, and the mark last.

    Files of others stay, and so do the lock and the mark if ``keep`` names them. Raises OSError. An interrupted
    deletion can be repeated.
    """
    last = [directory / LOCK, directory / MARK]
    for path in [path for path, own in entries(directory, mark) if own and path not in last]:
        if is_step(path):
            remove_checkpoint(path)
        else:
            remove(path)
    for folder in [path for path in sorted(directory.rglob("*"), reverse=True) if path.is_dir()]:
        if mark.is_folder(_relative(directory, folder)):
            remove_if_empty(folder)
    for path in last:
        if path.name not in keep:
            path.unlink(missing_ok=True)
    remove_if_empty(directory)


def remove_if_empty(folder: Path) -> None:
    """Deletes a folder if it is empty."""
    with suppress(OSError):
        folder.rmdir()


def _relative(directory: Path, path: Path) -> str:
    return path.relative_to(directory).as_posix()


# ---------------------------------------------------------------- output of commands


def require_output(
    path: Path, force: bool, place: str | None = None, existing: str = "exists", new_directory: bool = False
) -> None:
    """Raise ConfigError unless a command may write a file at ``path``; call it before the work.

    Never allowed are a run's own files and what lies in its checkpoints, whatever way leads there, a symbolic link, and
    anything that is not a regular file. A file that exists needs ``force``. ``place`` is ``path`` in
    messages, with the option that has it; ``existing`` says why a file that exists stays. With ``new_directory``, the
    command makes the directory of ``path`` if nothing has its name.

    Write the file with ``write_atomically``, which replaces one name of a file that has several.
    """
    place = place or str(path)
    require_outside_runs(path, place)
    if path.is_symlink():
        raise ConfigError(f"{place}: is a symbolic link; name the file that it leads to, {os.path.realpath(path)}")
    if path.is_dir():
        raise ConfigError(f"{place}: is a directory; name a file")
    if new_directory and not os.path.lexists(path.parent):
        return
    if not path.parent.is_dir():
        raise ConfigError(f"{place}: there is no directory {path.parent}; create it first")
    if not path.exists():
        return
    if not path.is_file():
        raise ConfigError(f"{place}: is not a regular file")
    if not force:
        raise ConfigError(f"{place}: {existing}; replace it with --force, or name another file")


def require_outside_runs(path: Path, place: str) -> None:
    """Raise ConfigError if ``path`` is, or would be, one of a run's own files or lies in its checkpoints.

    Links and ``..`` on the way are followed. Names that differ in case alone count as equal, because they are on some
    file systems.
    """
    real = Path(os.path.realpath(path))
    for directory in real.parents:
        problem = _problem(real.relative_to(directory), directory)
        if problem:
            raise ConfigError(f"{place}: {problem}; name another place")


def _problem(relative: Path, directory: Path) -> str | None:
    """Why nothing may be written at ``relative`` in ``directory``; None if ``directory`` does not forbid it."""
    if is_step(directory):
        return f"lies in the checkpoint {directory}, which never changes"
    marked = os.path.lexists(directory / MARK)
    mark = read_mark(directory)
    if marked and mark is None:
        return f"lies in the run {directory}, whose {MARK} cannot be read"
    try:  # a run that was copied without its mark has checkpoints
        if mark is None and not find_checkpoints(directory / CHECKPOINTS):
            return None
    except OSError:
        return None
    if relative.parts[0].casefold() == CHECKPOINTS:
        return f"lies among the checkpoints of the run {directory}"
    return f"is a file of the run {directory}" if (mark or Mark()).may_become(relative.as_posix()) else None
