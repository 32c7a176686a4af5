"""Demonstration files of ML-Agents byte by byte: which messages are where, and which files are damaged.

A message is preceded by its length, a varint. The metadata is the first; the second, which describes the behavior,
begins at byte 33 whatever the first's length, because Unity's recorder writes the metadata when the recording ends.
Then follows one message for each step. Behind the last step Unity leaves a second copy of the metadata.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from google.protobuf.internal.decoder import _DecodeVarint
from google.protobuf.message import DecodeError

from rlcore import ConfigError, DamagedFile, open_regular
from rlcore_offline.containment import MAX_SIZE
from rlcore_unity.mlagents_messages import AgentInfoActionPair, BrainParameters, DemonstrationMeta

BRAIN_START = 33  # where the description of the behavior begins
MAX_MESSAGE = 4 * MAX_SIZE + 1_000_000  # bytes: the largest observation, and what is beside it
VERSIONS = (0, 1)  # of the format, which ML-Agents has not changed since


class DemonstrationFile:
    """One file. Raises ConfigError for whatever is not a demonstration.

    Attributes:
        path: The file.
        steps: How many steps it holds.
        brain: The message that describes the behavior.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                # Mapped and not read: a hostile file may be larger than the memory.
                self._content = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
        except (DamagedFile, FileNotFoundError) as error:
            raise ConfigError(f"demonstration {error}") from error
        if not self._content:
            self.refuse("is empty; record it again")
        meta, end = self._message(DemonstrationMeta, 0, "the metadata")
        if end > BRAIN_START:
            self.refuse("is damaged, or not a demonstration of ML-Agents")
        if meta.api_version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            self.refuse(f"has version {meta.api_version} of the format; rlcore reads versions {known}")
        self.brain, self._first = self._message(BrainParameters, BRAIN_START, "the description of the behavior")
        self.steps = self._counted(meta.number_steps)

    def pairs(self) -> Iterator[Any]:
        """The message of each step, in order."""
        end = self._first
        for step in range(self.steps):
            pair, end = self._message(AgentInfoActionPair, end, f"step {step}")
            yield pair

    def refuse(self, problem: str) -> NoReturn:
        raise ConfigError(f"demonstration {self.path}: {problem}")

    def _counted(self, promised: int) -> int:
        """The number of steps. A recorder that was not closed promised none: then all that follows are steps."""
        found = 0
        end = self._first
        while end < len(self._content) and (found < promised or promised == 0):
            start, end = self._span(end, f"step {found}")
            if start == end:  # a file of zeros would have as many steps as bytes
                self.refuse(f"is damaged: step {found} is empty")
            found += 1
        if not found or found < promised:
            self.refuse(f"has {found} of the {promised} steps that its metadata promises; record or copy it again")
        return found

    def _message(self, kind: Any, place: int, what: str) -> tuple[Any, int]:
        """The message at ``place``, and where the next begins."""
        start, end = self._span(place, what)
        try:
            return kind.FromString(self._content[start:end]), end
        except DecodeError as error:
            self.refuse(f"is damaged: {what} cannot be read ({error})")

    def _span(self, place: int, what: str) -> tuple[int, int]:
        """Where the message whose length is at ``place`` begins and ends."""
        try:
            length, start = _DecodeVarint(self._content, place)
        except IndexError:
            self.refuse(f"ends before {what}; it is damaged or was not written to its end")
        except DecodeError as error:
            self.refuse(f"is damaged: the length of {what} cannot be read ({error})")
        left = len(self._content) - start
        if length > min(left, MAX_MESSAGE):
            self.refuse(
                f"is damaged, or not a demonstration of ML-Agents: {what} has {length} bytes where {left} are left"
            )
        return start, start + length
