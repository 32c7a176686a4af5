"""One event file. TensorBoard reads the event files of a directory in the order of their names.

The file of a resumed run starts with a mark that makes readers drop later steps of earlier files. The mark is
wrong at any other position, so the name of a new file sorts after existing names, regardless of the clock.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from rlcore import fsync_directory

PREFIX = "events.out.tfevents."
MARK = "tfevents"  # TensorBoard finds event files by this part of the name


class EventFile:
    """A new event file in ``directory``, flushed at every summary.

    Readers drop points of earlier files from ``first_step`` on, because the run repeats these steps.
    """

    def __init__(self, directory: Path, first_step: int, declare: Callable[[Path], None] = lambda path: None) -> None:
        """``declare`` is called with the path before the file is made."""
        earlier = []
        if directory.is_dir():
            earlier = [path for path in directory.iterdir() if MARK in path.name]
        # TensorBoard orders points by their times: those of a resumed run must not lie before what it continues.
        self._wall_time = max([time.time(), *map(last_written, earlier)])
        names = [path.name for path in earlier]
        self.path = directory / new_name(names, self._wall_time)
        declare(self.path)
        directory.mkdir(exist_ok=True)
        self.stream: IO[bytes] = self.path.open("xb")
        self._new_name = True  # which is not on disk yet
        self._records = RecordWriter(self.stream)
        self._write(Event(wall_time=self._wall_time, file_version="brain.Event:2"))
        start = SessionLog(status=SessionLog.START)
        self._write(Event(wall_time=self._wall_time, step=first_step, session_log=start))
        self._records.flush()

    def write(self, step: int, summary: Summary) -> None:
        """Write a summary of ``step``. Its time is not earlier than previous times, even if the clock was set back."""
        self._wall_time = max(self._wall_time, time.time())
        self._write(Event(wall_time=self._wall_time, step=step, summary=summary))
        self._records.flush()

    def sync(self) -> None:
        """Have the disk store all events, and the name of the file."""
        os.fsync(self.stream.fileno())
        if self._new_name:
            fsync_directory(self.path.parent)
            fsync_directory(self.path.parent.parent)
            self._new_name = False

    def close(self) -> None:
        self._records.close()

    def _write(self, event: Event) -> None:
        self._records.write(event.SerializeToString())


def new_name(earlier: Collection[str], wall_time: float) -> str:
    """Return the name of a file that starts at ``wall_time``; it sorts after the names of ``earlier`` files."""
    newest = max(earlier, default="")
    name = _name(int(wall_time * 1e9))
    if name > newest:
        return name
    match = re.match(rf"{re.escape(PREFIX)}(\d+)", newest)
    if match:
        next_second = int(match[1]) + 1
        name = _name(next_second * 10**9)
    if name > newest:
        return name
    # Seconds with another number of digits, or the name of another program. A longer name sorts after its prefix.
    return f"{newest}.{os.getpid()}"


def _name(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{PREFIX}{seconds:010d}.{rest:09d}.{socket.gethostname()}.{os.getpid()}"


def last_written(path: Path) -> float:
    """Return the time of the latest change of a file in seconds since 1970; 0.0 if it was deleted meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
