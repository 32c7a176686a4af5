"""Gymnasium spaces as rlcore's observations and actions, and values carried between the two.

An observation is a Box of any shape, a Discrete (becomes an indicator vector) or a Dict of those. An action is a Box
(flattened), a Discrete, a MultiDiscrete or a MultiBinary (branches of two), or a Tuple or Dict of those, whose parts
lie side by side in the space's own order. Every other space is refused with :class:`UnsupportedSpace`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.environment import Actions, ObservationKind, ObservationSpec
from rlcore.errors import UnsupportedSpace

IMAGE_CHANNELS = (1, 3, 4)
OBSERVATION = "observation"  # the name of an observation that is not part of a Dict

RowWriter = Callable[[int, Any], None]
Buffers = dict[str, NDArray[Any]]  # each [N, *shape]


# ---------------------------------------------------------------- observations


@attrs.frozen(eq=False)
class ObservationPart:
    """One observation: what a network is told of it, and how values of its space are written down."""

    spec: ObservationSpec
    key: str | None  # its key in a Dict observation
    start: int = 0  # smallest value of a Discrete
    channels_first: bool = False

    @classmethod
    def of(cls, space: spaces.Space[Any], name: str, key: str | None, where: str) -> ObservationPart:
        if isinstance(space, spaces.Discrete):
            return cls(ObservationSpec(name, (int(space.n),), np.float32, "one_hot"), key, start=int(space.start))
        if not isinstance(space, spaces.Box) or space.dtype.kind not in "fiub":
            raise UnsupportedSpace(
                f"{where}: observation {name!r} has the unsupported space {space!r}; supported are Box, Discrete and a"
                " Dict of those"
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
        if self.spec.kind == "one_hot":
            start = self.start

            def write_indicator(row: int, value: Any) -> None:
                buffer[row] = 0.0
                buffer[row, value - start] = 1.0

            return write_indicator
        if self.channels_first:
            buffer = np.moveaxis(buffer, -1, 1)
        return buffer.__setitem__

    def convert(self, values: Any) -> NDArray[Any]:
        """[K, *shape] from K stacked values of the space; no copy where none is needed."""
        if self.spec.kind == "one_hot":
            indicators = np.zeros((len(values), *self.spec.shape), np.float32)
            indicators[np.arange(len(values)), np.asarray(values) - self.start] = 1.0
            return indicators
        array = np.asarray(values, self.spec.dtype)
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

        def write(row: int, value: Mapping[Any, Any]) -> None:
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


# ---------------------------------------------------------------- actions


@attrs.frozen(eq=False)
class ActionPart:
    """A leaf of an action space and the columns of :class:`Actions` it is read from."""

    space: spaces.Space[Any]
    columns: slice
    branches: tuple[int, ...] = ()  # options of each discrete column; empty for a Box
    start: NDArray[np.int64] | None = None  # [branches] added to the choices; None where it is zero

    @classmethod
    def of(cls, space: spaces.Space[Any], continuous: int, discrete: int, where: str) -> ActionPart:
        """The leaf that follows ``continuous`` real parts and ``discrete`` branches."""
        if isinstance(space, spaces.Box) and space.dtype.kind == "f":
            return cls(space, slice(continuous, continuous + int(np.prod(space.shape, dtype=np.int64))))
        if isinstance(space, spaces.Discrete):
            branches: tuple[int, ...] = (int(space.n),)
            start = np.array([space.start], np.int64)
        elif isinstance(space, spaces.MultiDiscrete):
            branches = tuple(int(n) for n in space.nvec.reshape(-1))
            start = np.asarray(space.start, np.int64).reshape(-1)
        elif isinstance(space, spaces.MultiBinary):
            branches = (2,) * int(np.prod(space.shape, dtype=np.int64))
            start = np.zeros(len(branches), np.int64)
        else:
            kind = "a Box of integers" if isinstance(space, spaces.Box) else type(space).__name__
            raise UnsupportedSpace(
                f"{where}: the action space {space!r} is not supported ({kind}); supported are Box (real), Discrete,"
                " MultiDiscrete, MultiBinary and a Tuple or Dict of those"
            )
        return cls(space, slice(discrete, discrete + len(branches)), branches, start if start.any() else None)

    def values(self, actions: Actions) -> NDArray[Any]:
        """[S, *shape of the space]; a fresh array, because an environment may keep the row it was given."""
        dtype = self.space.dtype
        if not self.branches:
            assert actions.continuous is not None and isinstance(self.space, spaces.Box)
            continuous = actions.continuous[:, self.columns].astype(dtype)
            if dtype == np.float64:  # a bound rounded to float32 may lie outside the space by one unit
                np.clip(continuous, self.space.low.reshape(-1), self.space.high.reshape(-1), out=continuous)
            return continuous.reshape(-1, *self.space.shape)
        assert actions.discrete is not None
        discrete = actions.discrete[:, self.columns]
        if self.start is not None:
            discrete = discrete + self.start
        return discrete.astype(dtype).reshape(-1, *(self.space.shape or ()))


@attrs.frozen(eq=False)
class ActionCodec:
    """Turns :class:`Actions` into what environments of one action space take."""

    parts: tuple[ActionPart, ...]
    keys: tuple[Any, ...] | None  # of a Dict space
    single: bool  # the space is one leaf, not a Tuple or Dict

    @classmethod
    def of(cls, space: spaces.Space[Any], where: str) -> ActionCodec:
        keys: tuple[Any, ...] | None = None
        leaves: tuple[spaces.Space[Any], ...] = (space,)
        if isinstance(space, spaces.Dict):
            keys, leaves = tuple(space.spaces), tuple(space.spaces.values())
            where = f"{where}: {space!r}"
        elif isinstance(space, spaces.Tuple):
            leaves = tuple(space.spaces)
            where = f"{where}: {space!r}"
        parts: list[ActionPart] = []
        continuous = discrete = 0
        for leaf in leaves:
            part = ActionPart.of(leaf, continuous, discrete, where)
            parts.append(part)
            if part.branches:
                discrete = part.columns.stop
            else:
                continuous = part.columns.stop
        return cls(tuple(parts), keys, single=not isinstance(space, spaces.Dict | spaces.Tuple))

    @property
    def discrete(self) -> tuple[int, ...]:
        """Number of options of each branch."""
        return tuple(options for part in self.parts for options in part.branches)

    def bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Lowest and highest value of each continuous part, [continuous]."""
        boxes = [part.space for part in self.parts if isinstance(part.space, spaces.Box)]
        empty = np.empty(0, np.float32)
        low = np.concatenate([empty, *(box.low.reshape(-1).astype(np.float32) for box in boxes)])
        high = np.concatenate([empty, *(box.high.reshape(-1).astype(np.float32) for box in boxes)])
        return low, high

    def batch(self, actions: Actions) -> Any:
        """The action of a vector environment: every copy's value, stacked as gymnasium's ``batch_space`` does."""
        if self.single:
            return self.parts[0].values(actions)
        values = tuple(part.values(actions) for part in self.parts)
        return values if self.keys is None else dict(zip(self.keys, values, strict=True))

    def rows(self, actions: Actions) -> Iterable[Any]:
        """One action for each copy."""
        if self.single:
            return self.parts[0].values(actions)
        rows = zip(*(part.values(actions) for part in self.parts), strict=True)
        return rows if self.keys is None else (dict(zip(self.keys, row, strict=True)) for row in rows)

    @property
    def maskable(self) -> bool:
        """Whether ``info["action_mask"]``, a mask over one choice, fits this space."""
        return len(self.parts) == 1 and len(self.discrete) == 1
