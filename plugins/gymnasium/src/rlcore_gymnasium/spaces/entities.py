"""Observations of any number of entities: a Sequence, or a matrix beside a mask or a count.

Both become rows of an array [E, 1 + F], whose first column is 1 for an entity that is there. Absent entities are rows
of zeros, as :class:`rlcore.ObservationSpec` says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import ObservationSpec
from rlcore_gymnasium.spaces.values import array_of, refuse, text_of

Path = tuple[str | int, ...]
"""Where an observation is in a Dict or a Tuple: its key or index, after those of the spaces around it."""


def name_of(path: Path) -> str:
    """Return how an observation is called, such as ``goal.position``."""
    return ".".join(map(str, path))


@attrs.frozen
class Beside:
    """Where an observation of entities is, and the one that says which of them are there."""

    entities: Path
    present: Path


class Values(Protocol):
    """The conversion of the values of one entity, or of one matrix."""

    def convert(self, values: Any, rows: int | None = None) -> NDArray[Any]:
        """Convert ``rows`` stacked values into [rows, *shape]."""


@attrs.frozen(eq=False)
class EntitiesPart:
    """One observation of entities, and the conversion of its values; used as an ``ObservationPart`` is.

    Attributes:
        spec: The description for networks, of shape [E, 1 + F].
        key: Where the observation is in a Dict or a Tuple, or a :class:`Beside`; None for the only part.
        values: The conversion of what the environment gives.
    """

    spec: ObservationSpec
    key: Any
    values: Values

    def read(self, value: Any) -> NDArray[np.float32]:
        """Return the rows [E, 1 + F] of one value. Raises MismatchedValue."""
        raise NotImplementedError

    def row_writer(self, buffer: NDArray[Any]) -> Callable[[int, Any], None]:
        """Return a function that writes the value of one agent into a row of ``buffer`` [N, E, 1 + F]."""

        def write(row: int, value: Any) -> None:
            buffer[row] = self.read(value)

        return write

    def convert(self, values: Any, rows: int | None = None) -> NDArray[Any]:
        """Convert the values of K agents into [K, E, 1 + F]."""
        if isinstance(self.key, Beside):  # two stacked arrays, of which one agent has a pair
            values = zip(*values, strict=True)
        rows_of_agents = [self.read(value) for value in values]
        if not rows_of_agents:  # np.stack refuses an empty list
            return np.zeros((0, *self.spec.shape), self.spec.dtype)
        return np.stack(rows_of_agents)


def entities_spec(name: str, most: int, numbers: int) -> ObservationSpec:
    """Return the description of at most ``most`` entities with so many ``numbers`` each."""
    return ObservationSpec(name, (most, 1 + numbers), np.float32, "entities")


class SequencePart(EntitiesPart):
    """A Sequence: ``values`` converts its elements, of which at most E are there."""

    def read(self, value: Any) -> NDArray[np.float32]:
        most, _ = self.spec.shape
        try:
            count = len(value)
        except TypeError:
            refuse(self.spec.name, value, "expected a sequence")
        if count > most:
            refuse(
                self.spec.name,
                f"{count} entities",
                f"at most {most} fit: raise environment.observations.{self.spec.name}.max_entities",
            )
        rows = np.zeros(self.spec.shape, np.float32)
        if count:
            converted = self.values.convert(value, count)
            rows[:count, 0] = 1.0
            rows[:count, 1:] = converted.reshape(count, -1)
        return rows


class PaddedPart(EntitiesPart):
    """A matrix, which ``values`` converts, and beside it a mask of its rows or the number of those that are there."""

    def read(self, value: Any) -> NDArray[np.float32]:
        matrix, mask_or_count = value
        present = self._present(mask_or_count)
        rows = np.zeros(self.spec.shape, np.float32)
        one_row = np.asarray(matrix)[None]
        [converted] = self.values.convert(one_row, 1)
        rows[present, 0] = 1.0
        # What the environment pads absent rows with must not be seen: they are zeros.
        rows[present, 1:] = converted[present]
        return rows

    def _present(self, mask_or_count: Any) -> NDArray[np.bool_]:
        """Return whether each of the E entities is there: [E], from a mask or a count."""
        count, _ = self.spec.shape
        name = name_of(self.key.present)
        array = np.asarray(mask_or_count)
        # One number for several entities is a count; with one entity, a mask says the same.
        if array.size == 1 and count > 1:
            number = array_of(array.reshape(()), (), np.dtype(np.float32), name)
            if not 0 <= number <= count or number != np.rint(number):
                refuse(name, array, f"expected the number of entities, from 0 to {count}")
            return np.arange(count) < number
        if array.shape != (count,) or not np.isin(array, (0, 1)).all():
            refuse(name, text_of(array), f"expected {count} zeros and ones, or a number of entities")
        return array.astype(np.bool_)
