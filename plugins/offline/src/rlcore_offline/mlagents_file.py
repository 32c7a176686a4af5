"""Demonstration files of ML-Agents byte by byte: which messages are where, and which files are damaged.

A message is preceded by its length, a varint. The metadata is the first; the second, which describes the behavior,
begins at byte 33 whatever the first's length, because Unity's recorder writes the metadata when the recording ends.
Then follows one message for each step. Behind the last step Unity leaves a second copy of the metadata.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn

from google.protobuf.message import DecodeError

from rlcore import ConfigError, DamagedFile, open_regular
from rlcore_offline.containment import MAX_SIZE
from rlcore_offline.mlagents_messages import BrainParameters, DemonstrationMeta, Pair

BRAIN_START = 33  # where the description of the behavior begins
VERSIONS = (0, 1)  # of the format, which ML-Agents has not changed since
MAX_MESSAGE = 4 * MAX_SIZE + 1_000_000  # bytes: the largest observation, and what is beside it

_VARINT_BYTES = 5  # of a length below 2 ** 32


class DemonstrationFile:
    """One open file: a context manager. Raises ConfigError for whatever is not a demonstration.

    Attributes:
        path: The file.
        steps: How many steps it holds.
        brain: The message that describes the behavior.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: IO[bytes] = open_regular(path)
        except (DamagedFile, FileNotFoundError) as error:
            raise ConfigError(f"demonstration {error}") from error
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self.brain, self._first, self.steps = self._header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> DemonstrationFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def pairs(self) -> Iterator[Any]:
        """The message of each step, in order."""
        self._file.seek(self._first)
        for step in range(self.steps):
            yield self._message(Pair, f"step {step}")

    def refuse(self, problem: str) -> NoReturn:
        raise ConfigError(f"demonstration {self.path}: {problem}")

    def _header(self) -> tuple[Any, int, int]:
        """The behavior's message, where the first step begins, and how many steps there are."""
        if not self._size:
            self.refuse("is empty; record it again")
        length = self._length("the metadata", most=BRAIN_START - 1)
        meta = self._parsed(DemonstrationMeta, length, "the metadata")
        if meta.api_version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            self.refuse(f"has version {meta.api_version} of the format; rlcore reads versions {known}")
        self._file.seek(BRAIN_START)
        brain = self._message(BrainParameters, "the description of the behavior")
        first = self._file.tell()
        return brain, first, self._counted(meta.number_steps)

    def _counted(self, promised: int) -> int:
        """The number of steps. A recorder that was not closed promised none: then all that follows are steps."""
        found = 0
        while self._file.tell() < self._size and (found < promised or promised == 0):
            length = self._length(f"step {found}")
            if not length:  # a file of zeros would have as many steps as bytes
                self.refuse(f"is damaged: step {found} is empty")
            self._file.seek(length, os.SEEK_CUR)
            found += 1
        if not found or found < promised:
            self.refuse(f"has {found} of the {promised} steps that its metadata promises; record or copy it again")
        return found

    def _message(self, kind: Any, what: str) -> Any:
        return self._parsed(kind, self._length(what), what)

    def _length(self, what: str, most: int = MAX_MESSAGE) -> int:
        """The varint at this place: the length of a message, which the file holds whole."""
        length = 0
        for place in range(_VARINT_BYTES):
            read = self._file.read(1)
            if not read:
                self.refuse(f"ends before {what}; it is damaged or was not written to its end")
            length |= (read[0] & 0x7F) << (7 * place)
            if read[0] < 0x80:
                break
        else:
            self.refuse(f"is damaged: the length of {what} cannot be read")
        if length > most:
            self.refuse(f"is damaged, or not a demonstration of ML-Agents: {what} has {length} bytes")
        left = self._size - self._file.tell()
        if length > left:
            self.refuse(f"ends within {what}, which has {length} bytes where {left} are left")
        return length

    def _parsed(self, kind: Any, length: int, what: str) -> Any:
        try:
            return kind.FromString(self._file.read(length))
        except DecodeError as error:
            self.refuse(f"is damaged: {what} cannot be read ({error})")
