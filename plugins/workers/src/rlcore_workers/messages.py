"""The rows of one worker as messages, for executors whose workers share no memory with the run.

The run and the worker each have arrays of the same layout. A request carries the rows that a call reads, an answer
those that it wrote. Memory of rows that a worker never touches is not used, if the system provides memory lazily.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore_workers.arrays import RunArrays
from rlcore_workers.layout import OPTIONAL_DEFAULTS

__all__ = ["PartMessages"]


class PartMessages:
    """The messages of one worker; the run and the worker have one object each.

    Messages are bytes in the byte order of the machine. Both ends raise ValueError for a message of the wrong size.
    """

    def __init__(self, arrays: RunArrays, number: int) -> None:
        """``number`` is that of the worker."""
        layout = arrays.layout
        self._fields = arrays.fields
        self._envs = slice(layout.bounds[number], layout.bounds[number + 1])
        self._number = number
        self._behaviors = layout.behaviors
        self._rows = layout.rows[number]
        self._slots = {name: np.arange(spec.slots)[self._rows[name]] for name, spec in layout.behaviors.items()}
        self._had = dict.fromkeys(
            ((name, what) for name in self._behaviors for what in OPTIONAL_DEFAULTS), True
        )  # until the first answer, the rows are unknown

    def request(self, whole: bool) -> bytes:
        """Return the actions; if ``whole``, also the episodes to begin and the environment parameters."""
        return b"".join(array[rows].tobytes() for array, rows in self._requested(whole))

    def accept(self, request: bytes) -> None:
        """Store a request in the arrays of the worker."""
        size = sum(array[rows].nbytes for array, rows in self._requested(False))
        message = _Message(request)
        for array, rows in self._requested(len(request) > size):
            message.into(array, rows)
        message.require_end()

    def _requested(self, whole: bool) -> Iterator[tuple[NDArray[Any], Any]]:
        for name in self._behaviors:
            for what in ("continuous", "discrete"):
                yield self._fields[name, what], self._rows[name]
        if whole:
            yield self._fields["begin",], self._envs
            yield self._fields["parameters",], self._envs

    def answer(self) -> bytes:
        """Return the latest batches and the episodes that the environments are in."""
        parts = [self._fields["episodes",][self._envs].tobytes()]
        for name in self._behaviors:
            parts += [array[rows].tobytes() for array, rows in self._always(name)]
            parts += [self._fields[name, what][self._rows[name]].tobytes() for what in self._present(name)]
            ended = self._ended(name)
            if ended.size:
                parts += [array[ended].tobytes() for array in self._finals(name)]
        return b"".join(parts)

    def take(self, answer: bytes) -> None:
        """Store an answer in the arrays of the run."""
        message = _Message(answer)
        message.into(self._fields["episodes",], self._envs)
        for name in self._behaviors:
            rows = self._rows[name]
            for array, place in self._always(name):
                message.into(array, place)
            there = self._present(name)
            for what, default in OPTIONAL_DEFAULTS.items():
                if what in there:
                    message.into(self._fields[name, what], rows)
                elif self._had[name, what]:
                    self._fields[name, what][rows] = default
                self._had[name, what] = what in there
            ended = self._ended(name)
            if ended.size:
                for array in self._finals(name):
                    message.into(array, ended)
        message.require_end()

    def _always(self, name: str) -> Iterator[tuple[NDArray[Any], Any]]:
        """What every answer has of a behavior; the rows that end and the optional arrays are known after it."""
        yield self._fields[name, "present"], slice(self._number, self._number + 1)
        for what in ("reward", "terminated", "truncated"):
            yield self._fields[name, what], self._rows[name]
        for observation in self._behaviors[name].observations:
            yield self._fields[name, "observations", observation.name], self._rows[name]

    def _present(self, name: str) -> list[str]:
        """The optional arrays that the worker's batch has."""
        flags = self._fields[name, "present"][self._number].tolist()
        return [what for what, there in zip(OPTIONAL_DEFAULTS, flags, strict=True) if there]

    def _ended(self, name: str) -> NDArray[np.intp]:
        """The slots of this worker whose episodes ended."""
        slots = self._slots[name]
        over = self._fields[name, "terminated"][slots] | self._fields[name, "truncated"][slots]
        ended: NDArray[np.intp] = slots[over]
        return ended

    def _finals(self, name: str) -> list[NDArray[Any]]:
        return [
            self._fields[name, "final_observations", observation.name]
            for observation in self._behaviors[name].observations
        ]


class _Message:
    """Bytes that are read from their beginning."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def into(self, array: NDArray[Any], rows: Any) -> None:
        """Read rows of ``array``."""
        place = array[rows]
        end = self._at + place.nbytes
        if end > len(self._data):
            raise ValueError(f"a message of a worker has {len(self._data)} bytes, too few for its arrays")
        if place.size:
            array[rows] = np.frombuffer(self._data, array.dtype, place.size, self._at).reshape(place.shape)
        self._at = end

    def require_end(self) -> None:
        """Raise ValueError if something is left."""
        if self._at != len(self._data):
            raise ValueError(f"a message of a worker has {len(self._data)} bytes, {self._at} expected")
