"""One event file. TensorBoard reads a directory's event files in the order of their names, one after another.

A file of a resumed run begins with a mark that has readers forget what earlier files say of later steps. The mark is
wrong in any other place, so the name of a new file sorts after the names that are there, whatever the clock says.
"""

from __future__ import annotations

import math
import os
import re
import socket
import struct
import time
from collections.abc import Collection
from pathlib import Path
from typing import IO

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

PREFIX = "events.out.tfevents."
MARK = "tfevents"  # what TensorBoard knows event files by
_HEADER = struct.Struct("<Q4x")  # of a record: the length of what follows, and a checksum
_CHECKSUM = 4  # bytes after a record


class EventFile:
    """A new event file in ``directory``, flushed at every summary.

    Readers forget points of earlier files from ``first_step`` on: the run takes these steps again.
    """

    def __init__(self, directory: Path, first_step: int) -> None:
        earlier = [path for path in directory.iterdir() if MARK in path.name]
        self._wall_time = max([time.time(), *map(last_wall_time, earlier)])
        self.path = directory / new_name([path.name for path in earlier], self._wall_time)
        self.stream: IO[bytes] = self.path.open("xb")
        self._records = RecordWriter(self.stream)
        self._write(Event(wall_time=self._wall_time, file_version="brain.Event:2"))
        start = SessionLog(status=SessionLog.START)
        self._write(Event(wall_time=self._wall_time, step=first_step, session_log=start))
        self._records.flush()

    def write(self, step: int, summary: Summary) -> None:
        """Writes what was summarised at ``step``, not earlier than anything before: a clock may be set back."""
        self._wall_time = max(self._wall_time, time.time())
        self._write(Event(wall_time=self._wall_time, step=step, summary=summary))
        self._records.flush()

    def close(self) -> None:
        self._records.close()

    def _write(self, event: Event) -> None:
        self._records.write(event.SerializeToString())


def new_name(earlier: Collection[str], wall_time: float) -> str:
    """The name of a file that begins at ``wall_time``; it sorts after the names of ``earlier`` files."""
    newest = max(earlier, default="")
    name = _name(int(wall_time * 1e9))
    if name <= newest:
        found = re.match(rf"{re.escape(PREFIX)}(\d+)", newest)
        name = _name((int(found[1]) + 1) * 10**9) if found else name
    # Seconds of another width, or another program's name: what begins with a name sorts after it.
    return name if name > newest else f"{newest}.{os.getpid()}"


def _name(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{PREFIX}{seconds:010d}.{rest:09d}.{socket.gethostname()}.{os.getpid()}"


def last_wall_time(path: Path) -> float:
    """Seconds since 1970 of the latest event of a file, as far as the file is whole; 0.0 without one."""
    latest = 0.0
    with path.open("rb") as stream:
        left = os.fstat(stream.fileno()).st_size
        while len(header := stream.read(_HEADER.size)) == _HEADER.size:
            (length,) = _HEADER.unpack(header)
            left -= _HEADER.size + length + _CHECKSUM
            if left < 0:  # cut short by a crash, or damaged
                break
            try:
                wall_time = Event.FromString(stream.read(length)).wall_time
            except DecodeError:
                break
            if math.isfinite(wall_time):
                latest = max(latest, wall_time)
            stream.seek(_CHECKSUM, os.SEEK_CUR)
    return latest
