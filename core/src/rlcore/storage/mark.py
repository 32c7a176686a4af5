"""The mark of a run, ``rlcore_run.json``, and which files in its directory rlcore and plugins wrote.

A directory is a run if it has the mark, which only rlcore writes. The mark also names the files that plugins write into
the directory, and the exported policies. What it does not name is of others, and is never deleted.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath

import attrs

from rlcore.contracts.saved_values import COUNT, EACH, TEXT, Kind, has_form
from rlcore.errors import RunStateError
from rlcore.files.lock import LOCK
from rlcore.files.paths import is_file_name, pattern_problem
from rlcore.files.reading import DamagedFile, failing_as, read_object
from rlcore.files.writing import is_leftover, remove, write_atomically
from rlcore.storage.checkpoint import CONFIGURATION
from rlcore.storage.checkpoints import BEST, CHECKPOINTS, foreign_entries, is_step, remove_checkpoint

MARK = "rlcore_run.json"
LOGS = "run_logs"
TIMERS = "timers.json"
RESULT = "result.json"
STATUS = "training_status.json"
HOLDS = "held_checkpoints.json"  # while a process of the run holds some
FORMAT = 1

_OF_LOGS = (f"{LOGS}/{STATUS}", f"{LOGS}/{TIMERS}", f"{LOGS}/{HOLDS}")
OWN_FILES = frozenset({LOCK, MARK, CONFIGURATION, RESULT, *_OF_LOGS})
OF_CHECKPOINTS = (CHECKPOINTS, f"{CHECKPOINTS}/{BEST}")
_PLAIN = re.compile(r"[^*?\[]*", re.DOTALL)  # a pattern that matches its own text alone
_FOLDERS = frozenset({LOGS, *OF_CHECKPOINTS})
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
        return Patterns((*OWN_FILES, *self.files))

    @cached_property
    def _folders(self) -> Patterns:
        folders = set(_FOLDERS)
        for path in (*self.files, *self.exports):
            folders |= {str(parent) for parent in PurePosixPath(path).parents}
        return Patterns(folders)

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
        names = (*OWN_FILES, *self.files, *self.exports)
        patterns = Patterns(name.casefold() for name in names)
        path = PurePosixPath(relative.casefold())
        if str(path) in _FOLDERS:
            return True
        places = (path, *path.parents)  # a pattern may match a folder
        return any(patterns.match(str(place)) or is_leftover(place.name) for place in places)


class Patterns:
    """Patterns of relative paths, in which ``*`` does not match a slash. A run may have thousands of plain names."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._names = frozenset(patterns)
        with_signs = [name for name in self._names if not _PLAIN.fullmatch(name)]
        self._patterns = [PurePosixPath(pattern).parts for pattern in with_signs]

    def match(self, relative: str) -> bool:
        """Whether ``relative`` matches a pattern part by part."""
        if relative in self._names:
            return True
        parts = PurePosixPath(relative).parts
        as_long = [pattern for pattern in self._patterns if len(pattern) == len(parts)]
        return any(all(map(fnmatchcase, parts, pattern)) for pattern in as_long)


def read_mark(directory: Path) -> Mark | None:
    """The mark of the run in ``directory``; None if it is missing, damaged or not written by rlcore."""
    try:
        content = read_object(directory / MARK)
    except (OSError, DamagedFile):
        return None
    if not has_form(content, _MARK):
        return None
    # A mark that was edited must not reach beyond its run.
    files = [pattern for pattern in content["files"] if pattern_problem(pattern) is None]
    exports = {}
    for name, step in content["exports"].items():
        if _is_export(name):
            exports[name] = step
    replaces = {}
    for name, run in content["replaces"].items():
        if is_file_name(name):
            replaces[name] = run
    return Mark(content["run"], tuple(files), exports, replaces, content["job"])


def _is_export(name: str) -> bool:
    """Whether ``name`` is FILE or BEHAVIOR/FILE."""
    parts = name.split("/")
    return len(parts) <= 2 and all(map(is_file_name, parts))


def write_mark(directory: Path, mark: Mark) -> None:
    """Writes the mark of a run. Raises OSError."""
    from rlcore import __version__

    content = {"format": FORMAT, "rlcore_version": __version__, **attrs.asdict(mark)}
    text = json.dumps(content, indent=4) + "\n"
    write_atomically(directory / MARK, text.encode())


# ---------------------------------------------------------------- the files of a run, and those of others


def without_exports(directory: Path, mark: Mark, gone: Callable[[int | None], bool]) -> Mark:
    """Deletes the exported policies beside checkpoints of whose steps ``gone`` is true.

    Returns the mark without them. Raises RunStateError if a file cannot be deleted; a later call tries again.
    """
    left = {}
    for name, step in mark.exports.items():
        path = directory / name
        if "/" not in name or not gone(step):
            left[name] = step
        elif not path.is_dir():
            with failing_as(f"{path}: cannot be deleted"):
                path.unlink(missing_ok=True)
    return attrs.evolve(mark, exports=left)


def exports_in(directory: Path) -> dict[str, int | None]:
    """The exported policies that are there, relative to the run directory, with the step of the policy in each.

    The step of a file whose export was not finished is None.
    """
    mark = read_mark(directory)
    exports: dict[str, int | None] = {}
    if mark is None:
        return exports
    for name, step in mark.exports.items():
        if (directory / name).is_file():
            exports[name] = step
    return exports


def outcome_in(directory: Path) -> str | None:
    """The outcome in the run's result; None if there is no result, ``unknown`` if it cannot be read."""
    try:
        outcome = read_object(directory / RESULT).get("outcome")
    except FileNotFoundError:
        return None
    except (OSError, DamagedFile):
        return "unknown"
    return outcome if isinstance(outcome, str) else "unknown"


def entries(directory: Path, mark: Mark) -> Iterator[tuple[Path, bool]]:
    """Every file, link, checkpoint and unknown folder in the directory, and whether rlcore or a plugin wrote it."""
    open_folders = [directory]
    while open_folders:
        for path in sorted(open_folders.pop().iterdir()):
            relative = _relative(directory, path)
            is_export = relative in mark.exports
            if path.is_symlink():  # rlcore makes no links
                yield path, False
            elif is_step(path) and _relative(directory, path.parent) in OF_CHECKPOINTS:
                yield path, True
                for entry in foreign_entries(path):
                    yield entry, False
            elif path.is_dir() and mark.is_folder(relative):
                open_folders.append(path)
            elif path.is_dir() and (is_export or relative in OWN_FILES):
                yield path, False  # rlcore writes a file of this name, so the folder is of others
            else:
                yield path, is_export or mark.declares(relative) or is_leftover(path.name)


def foreign_files(directory: Path, mark: Mark) -> list[Path]:
    """The files and links in the run directory that neither rlcore nor a plugin that declared them wrote."""
    return [path for path, of_run in entries(directory, mark) if not of_run]


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
    files = [path for path, of_run in entries(directory, mark) if of_run and path not in last]
    for path in files:
        if is_step(path):
            remove_checkpoint(path)
        else:
            remove(path)
    for path in sorted(directory.rglob("*"), reverse=True):  # a folder after what is in it
        if path.is_dir() and mark.is_folder(_relative(directory, path)):
            remove_if_empty(path)
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
