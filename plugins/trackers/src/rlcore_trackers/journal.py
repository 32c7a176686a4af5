"""The journal of a run for one tracker: ``trackers/NAME.jsonl``, one JSON object a line, appended and never changed.

It says what the store is to have. It does not say what the store has: the store is asked, because a note of what was
sent may be missing after a kill. Files beside it: ``NAME.json``, the name of the run in the store and the commit of its
code; ``NAME.lock``, the lock of the sender; ``NAME.files``, the artifacts that were sent; ``NAME.log``, what the
tracker's library printed.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import attrs

from rlcore import (
    DamagedFile,
    RunStateError,
    WatchedDirectory,
    free_name,
    fsync_directory,
    open_to_append,
    parse_json,
    read_object,
    read_regular,
    write_atomically,
)
from rlcore_trackers.git_state import GitState, read_git_state
from rlcore_trackers.study import study_member
from rlcore_trackers.tracker import SummaryKey, Task, Tracked

log = logging.getLogger("rlcore.plugin.trackers")

FOLDER = "trackers"
DAMAGED = ".damaged"  # added to the name of a journal that cannot be read
_ID = re.compile(r"[0-9a-f]{16}")
MAX_JOURNAL = 1_000_000_000  # bytes, as for metrics.jsonl


@attrs.frozen
class Places:
    """The files of one tracker in a run directory."""

    directory: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.directory / FOLDER

    def file(self, ending: str) -> Path:
        return self.folder / f"{self.name}.{ending}"

    @property
    def patterns(self) -> list[str]:
        """The patterns of ``RunContext.own_files``."""
        endings = ("json", "jsonl", f"jsonl{DAMAGED}", "lock", "files", "log")
        return [f"{FOLDER}/{self.name}", *(f"{FOLDER}/{self.name}.{ending}" for ending in endings)]

    def write_about(self, git: GitState | None) -> None:
        """Write what a later sender cannot know: the random name of the run in the store, and its code.

        A run that was tracked before keeps its name.
        """
        path = self.file("json")
        try:
            about = {"id": read_object(path).get("id")}
        except FileNotFoundError:
            about = {"id": secrets.token_hex(8)}
        except DamagedFile:
            return  # the sender says so, and the training goes on
        if git is not None:
            about |= attrs.asdict(git)
        write_atomically(path, json.dumps(about, indent=1).encode())

    def tracked(self, task: Task, process: int | None = None) -> Tracked:
        """Return the run of ``task`` as the tracker sees it. ``process`` is the process that trains it now.

        Raises RunStateError if the id is not one that rlcore wrote, and for links to places outside of the run.
        """
        path = self.file("json")
        about = read_object(path)
        name = about.get("id")
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise RunStateError(f"{path}: has no id of a tracked run, 16 hexadecimal digits; the run is not sent")
        place = self.folder / self.name
        for folder in (self.folder, place):
            if not self.inside(folder):
                raise RunStateError(f"{folder}: leads out of the run directory; put a folder there")
        member = study_member(self.directory)
        informs = task.settings["system_info"]
        return Tracked(
            id=name,
            name=member.name,
            group=task.settings["group"] or member.group,
            job_type=member.job_type,
            labels=member.labels,
            git=read_git_state(about) if informs else None,
            process=process if informs else None,
            directory=self.directory,
            place=place,
            settings=task.settings,
            configuration=task.configuration,
        )

    def inside(self, path: Path) -> bool:
        """Whether ``path`` is in the run directory once symbolic links are followed."""
        return path.resolve().is_relative_to(self.directory.resolve())


class Journal:
    """The journal, open for appending. Entries that cannot be written, as on a full disk, are written later.

    Attributes:
        keys: The summaries that the journal has.
        waiting: The number of entries that could not be written yet.
    """

    def __init__(self, places: Places) -> None:
        places.folder.mkdir(exist_ok=True)
        self._path = places.file("jsonl")
        self._directory = WatchedDirectory(places.folder)
        self.keys: set[SummaryKey] = set()
        self._waiting: list[bytes] = []
        complete = 0
        if os.path.lexists(self._path):
            content = self._readable()
            complete = content.rfind(b"\n") + 1
            for entry in entries(content[:complete]):
                name = entry.get("summary")
                step = entry.get("step")
                if isinstance(name, str) and isinstance(step, int):
                    self.keys.add((name, step))
        self._file: BinaryIO = open_to_append(self._path)
        self._new_name = True  # which is not on disk yet
        self._file.truncate(complete)  # a last line that was cut short by a kill

    def _readable(self) -> bytes:
        """The journal of an earlier process; empty if it cannot be read, which does not keep the run from continuing.

        It is moved aside then. The store knows what was sent, and summaries that this process repeats are sent again.
        """
        try:
            return read_regular(self._path, MAX_JOURNAL)
        except (DamagedFile, FileNotFoundError) as error:  # the second one of a link that leads nowhere
            aside = free_name(self._path, DAMAGED)
            self._path.rename(aside)
            log.warning("%s; moved to %s, and a new journal is begun", error, aside.name)
            return b""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def append(self, entry: Mapping[str, Any]) -> None:
        """Append one entry after those that wait. Raises OSError if it has to wait too; nothing is lost then."""
        line = json.dumps(entry, ensure_ascii=False, allow_nan=False)
        self._waiting.append(line.encode() + b"\n")
        self.flush()

    def flush(self) -> None:
        """Write the entries that wait. Raises OSError if they have to wait longer."""
        if self._directory.lost(self._path, self._file) or self._directory.linked(self._file):
            before = self._file
            self._file = open_to_append(self._path)
            self._new_name = True
            before.close()  # after the new file was made, which has another inode so: the sender looks at it
        descriptor = self._file.fileno()
        while self._waiting:
            size = os.fstat(descriptor).st_size
            line = self._waiting[0]
            try:
                written = os.write(descriptor, line)
            except OSError:
                self._file.truncate(size)
                raise
            if written < len(line):
                self._file.truncate(size)
                raise OSError("the disk is full")
            self._waiting.pop(0)

    def sync(self) -> None:
        """Have the disk store all entries that were written, and the name of a new journal."""
        os.fsync(self._file.fileno())
        if self._new_name:
            fsync_directory(self._path.parent)
            fsync_directory(self._path.parent.parent)
            self._new_name = False

    def close(self) -> None:
        self._file.close()


def entries(content: bytes) -> Iterator[dict[str, Any]]:
    """Return the entries of complete lines; unreadable lines are left out."""
    for line in content.split(b"\n"):
        if line.strip():
            try:
                entry = parse_json(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                yield entry
