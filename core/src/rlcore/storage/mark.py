"""The mark of a run, ``rlcore_run.json``, which says whose the files in its directory are.

A directory is a run if it has the mark, which only rlcore writes. The mark also names the files that plugins write into
the directory, and the exported policies.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath

import attrs

from rlcore.contracts.saved_values import COUNT, EACH, TEXT, Kind, has_form
from rlcore.files.lock import LOCK
from rlcore.files.paths import is_file_name, pattern_problem
from rlcore.files.reading import DamagedFile, read_object
from rlcore.files.writing import is_leftover, write_atomically
from rlcore.storage.checkpoint import CONFIGURATION
from rlcore.storage.checkpoints import BEST, CHECKPOINTS

MARK = "rlcore_run.json"
LOGS = "run_logs"
TIMERS = "timers.json"
RESULT = "result.json"
STATUS = "training_status.json"
HOLDS = "held_checkpoints.json"  # while a process of the run holds some
FORMAT = 1

OWN_FILES = frozenset({LOCK, MARK, CONFIGURATION, RESULT, f"{LOGS}/{STATUS}", f"{LOGS}/{TIMERS}", f"{LOGS}/{HOLDS}"})
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
        folders = [str(parent) for each in (*self.files, *self.exports) for parent in PurePosixPath(each).parents]
        return Patterns((*_FOLDERS, *folders))

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
        names = Patterns(name.casefold() for name in (*OWN_FILES, *self.files, *self.exports))
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
        if relative in self._names:
            return True
        parts = PurePosixPath(relative).parts
        alike = (pattern for pattern in self._patterns if len(pattern) == len(parts))
        return any(all(map(fnmatchcase, parts, pattern)) for pattern in alike)


def read_mark(directory: Path) -> Mark | None:
    """The mark of the run in ``directory``; None if it is missing, damaged or not written by rlcore."""
    try:
        found = read_object(directory / MARK)
    except (OSError, DamagedFile):
        return None
    if not has_form(found, _MARK):
        return None
    # A mark that was edited must not reach beyond its run.
    files = [pattern for pattern in found["files"] if pattern_problem(pattern) is None]
    exports = {name: step for name, step in found["exports"].items() if _is_export(name)}
    replaces = {name: run for name, run in found["replaces"].items() if is_file_name(name)}
    return Mark(found["run"], tuple(files), exports, replaces, found["job"])


def _is_export(name: str) -> bool:
    """Whether ``name`` is FILE or BEHAVIOR/FILE."""
    parts = name.split("/")
    return len(parts) <= 2 and all(map(is_file_name, parts))


def write_mark(directory: Path, mark: Mark) -> None:
    """Writes the mark of a run. Raises OSError."""
    from rlcore import __version__

    content = {"format": FORMAT, "rlcore_version": __version__, **attrs.asdict(mark)}
    write_atomically(directory / MARK, (json.dumps(content, indent=4) + "\n").encode())
