"""Observation spaces as rlcore's observations, and values of theirs written into arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.environment import ObservationKind, ObservationSpec
from rlcore.errors import UnsupportedSpace

IMAGE_CHANNELS = (1, 3, 4)
OBSERVATION = "observation"  # the name of an observation that is not part of a Dict or Tuple

RowWriter = Callable[[int, Any], None]
Buffers = dict[str, NDArray[Any]]  # each [N, *shape]


@attrs.frozen(eq=False)
class ObservationPart:
    """One observation: what a network is told of it, and how values of its space are written down."""

    spec: ObservationSpec
    key: str | int | None  # its key in a Dict observation, its place in a Tuple
    columns: int | NDArray[np.int64] | None = None  # added to choices, the columns of their indicators
    channels_first: bool = False

    @classmethod
    def of(cls, space: spaces.Space[Any], name: str, key: str | int | None, where: str) -> ObservationPart:
        if isinstance(space, spaces.Discrete):
            return cls(ObservationSpec(name, (int(space.n),), np.float32, "one_hot"), key, columns=-int(space.start))
        if isinstance(space, spaces.MultiDiscrete):
            options = space.nvec.astype(np.int64)
            columns = np.cumsum(options).reshape(options.shape) - options - space.start
            return cls(ObservationSpec(name, (int(options.sum()),), np.float32, "one_hot"), key, columns=columns)
        if isinstance(space, spaces.MultiBinary):
            return cls(ObservationSpec(name, (math.prod(space.shape),), np.float32, "one_hot"), key)
        if not isinstance(space, spaces.Box) or space.dtype.kind not in "fiub":
            raise UnsupportedSpace(
                f"{where}: observation {name!r} has the unsupported space {space!r}; supported are Box, Discrete,"
                " MultiDiscrete, MultiBinary and a Dict or Tuple of those"
            )
        shape = space.shape
        pixels = len(shape) == 3 and space.dtype == np.uint8
        # Frame stacks and torch-minded environments put channels first; encoders expect height, width, channels.
        channels_first = pixels and shape[2] not in IMAGE_CHANNELS and shape[0] <= max(IMAGE_CHANNELS)
        if channels_first:
            shape = (*shape[1:], shape[0])
        image = pixels or (len(shape) == 3 and shape[2] in IMAGE_CHANNELS)
        kind: ObservationKind = "image" if image else "vector"
        return cls(
            ObservationSpec(name, shape, np.uint8 if pixels else np.float32, kind), key, channels_first=channels_first
        )

    def row_writer(self, buffer: NDArray[Any]) -> RowWriter:
        """A function that writes one agent's value into a row of ``buffer`` [N, *shape]."""
        columns = self.columns
        if columns is not None:

            def write_indicators(row: int, value: Any) -> None:
                buffer[row] = 0.0
                buffer[row, value + columns] = 1.0

            return write_indicators
        if self.spec.kind == "one_hot":

            def write_bits(row: int, value: Any) -> None:
                buffer[row] = np.reshape(value, -1)

            return write_bits
        if self.channels_first:
            buffer = np.moveaxis(buffer, -1, 1)
        return buffer.__setitem__

    def convert(self, values: Any) -> NDArray[Any]:
        """[K, *shape] from K stacked values of the space; no copy where none is needed."""
        if self.columns is not None:
            count = len(values)
            indicators = np.zeros((count, *self.spec.shape), np.float32)
            choices = (np.asarray(values, np.int64) + self.columns).reshape(count, -1)
            indicators[np.arange(count)[:, None], choices] = 1.0
            return indicators
        array = np.asarray(values, self.spec.dtype)
        if self.spec.kind == "one_hot":
            return array.reshape(len(array), *self.spec.shape)
        return np.moveaxis(array, 1, -1) if self.channels_first else array


@attrs.frozen(eq=False)
class ObservationCodec:
    """Writes values of an observation space into arrays over copies."""

    parts: tuple[ObservationPart, ...]

    @classmethod
    def of(cls, space: spaces.Space[Any], where: str) -> ObservationCodec:
        if isinstance(space, spaces.Dict):
            items = space.spaces.items()
            return cls(tuple(ObservationPart.of(part, str(key), key, f"{where}: {space!r}") for key, part in items))
        if isinstance(space, spaces.Tuple):
            parts = enumerate(space.spaces)
            return cls(
                tuple(ObservationPart.of(part, f"{place}", place, f"{where}: {space!r}") for place, part in parts)
            )
        return cls((ObservationPart.of(space, OBSERVATION, None, where),))

    @property
    def specs(self) -> tuple[ObservationSpec, ...]:
        return tuple(part.spec for part in self.parts)

    def buffers(self, rows: int) -> Buffers:
        return {spec.name: np.zeros((rows, *spec.shape), spec.dtype) for spec in self.specs}

    def row_writer(self, buffers: Buffers) -> RowWriter:
        """A function that writes one agent's whole observation into a row of ``buffers``."""
        writers = [(part.key, part.row_writer(buffers[part.spec.name])) for part in self.parts]
        if len(writers) == 1 and writers[0][0] is None:
            return writers[0][1]

        def write(row: int, value: Any) -> None:
            for key, write_part in writers:
                write_part(row, value[key])

        return write

    def convert(self, batch: Any) -> Buffers:
        """Arrays over copies from what a vector environment returned."""
        return {part.spec.name: part.convert(batch if part.key is None else batch[part.key]) for part in self.parts}

    def stack(self, values: Iterable[Any]) -> Buffers:
        """Arrays over rows from a sequence of single observations."""
        rows = list(values)
        buffers = self.buffers(len(rows))
        write = self.row_writer(buffers)
        for row, value in enumerate(rows):
            write(row, value)
        return buffers
