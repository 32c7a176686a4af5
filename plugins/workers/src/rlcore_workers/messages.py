"""The rows of one worker as messages, for executors whose workers share no memory with the run.

The run and the worker each have arrays of the same layout. A request carries the rows that a call reads, an answer
those that it wrote. Memory of rows that a worker never touches is not used, if the system provides memory lazily.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore_workers.arrays import BatchArrays
from rlcore_workers.layout import OPTIONAL_DEFAULTS

# Arrays with the rows of them that are the next part of a message.
Places = Iterator[tuple[NDArray[Any], Any]]


class PartMessages:
    """The messages of one worker; the run and the worker have one object each.

    Messages are bytes in the byte order of the machine. Both ends raise ValueError for a message of the wrong size.
    """

    def __init__(self, arrays: BatchArrays, number: int) -> None:
        """``number`` is that of the worker."""
        layout = arrays.layout
        self._fields = arrays.fields
        self._envs = slice(layout.bounds[number], layout.bounds[number + 1])
        self._number = number
        rows = layout.rows[number]
        self._behaviors = [(spec, rows[name]) for name, spec in layout.behaviors.items()]

    def request(self) -> bytes:
        """Return the actions, the episodes to begin and the environment parameters."""
        return _concatenated(self._requested())

    def accept(self, request: bytes) -> None:
        """Store a request in the arrays of the worker."""
        _store(request, self._requested())

    def answer(self) -> bytes:
        """Return the latest batches and the episodes that the environments are in."""
        return _concatenated(self._answered())

    def take(self, answer: bytes) -> None:
        """Store an answer in the arrays of the run."""
        # An answer lacks arrays that its batch leaves out: those of an earlier answer must not stay.
        for spec, rows in self._behaviors:
            for what, default in OPTIONAL_DEFAULTS.items():
                self._fields[spec.name, what][rows] = default
        _store(answer, self._answered())

    def _requested(self) -> Places:
        for spec, rows in self._behaviors:
            for what in ("continuous", "discrete"):
                yield self._fields[spec.name, what], rows
        for what in ("begin", "parameters"):
            yield self._fields[what,], self._envs

    def _answered(self) -> Places:
        """The places at the front of an answer tell which optional arrays and which ends it has."""
        yield self._fields["episodes",], self._envs
        for spec, rows in self._behaviors:
            present = self._fields[spec.name, "present"]
            yield present, slice(self._number, self._number + 1)
            terminated = self._fields[spec.name, "terminated"]
            truncated = self._fields[spec.name, "truncated"]
            yield self._fields[spec.name, "reward"], rows
            yield terminated, rows
            yield truncated, rows
            for observation in spec.observations:
                yield self._fields[spec.name, "observations", observation.name], rows
            # From here on, the reader knows what follows only because it has stored what came before.
            flags = present[self._number].tolist()
            for what, is_present in zip(OPTIONAL_DEFAULTS, flags, strict=True):
                if is_present:
                    yield self._fields[spec.name, what], rows
            slots = np.arange(spec.slots)[rows]
            has_ended = terminated[slots] | truncated[slots]
            ended = slots[has_ended]
            if ended.size:
                for observation in spec.observations:
                    yield self._fields[spec.name, "final_observations", observation.name], ended


def _concatenated(places: Places) -> bytes:
    return b"".join(array[rows].tobytes() for array, rows in places)


def _store(message: bytes, places: Places) -> None:
    """Store ``message`` in its ``places``, which may depend on what was stored before."""
    start = 0
    for array, rows in places:
        current = array[rows]
        end = start + current.nbytes
        if end > len(message):
            raise ValueError(f"a message of a worker has {len(message)} bytes, too few for its arrays")
        if end > start:  # np.frombuffer refuses an empty buffer
            values = np.frombuffer(message[start:end], array.dtype)
            array[rows] = values.reshape(current.shape)
        start = end
    if start != len(message):
        raise ValueError(f"a message of a worker has {len(message)} bytes, {start} expected")
