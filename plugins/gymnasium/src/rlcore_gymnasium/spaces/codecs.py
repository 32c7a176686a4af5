"""Observation and action spaces as rlcore's observations and actions, with conversion of values in both directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import attrs
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore import Actions, ConfigError, ObservationKind, ObservationSpec, UnsupportedSpace, did_you_mean
from rlcore_gymnasium.settings import ObservationSettings
from rlcore_gymnasium.spaces.entities import Beside, EntitiesPart, PaddedPart, SequencePart
from rlcore_gymnasium.spaces.values import array_of, bits_of, choice_of, choices_of, refuse

IMAGE_CHANNELS = (1, 3, 4)
OBSERVATION = "observation"
"""The name of the only observation of a space that is not a Dict or a Tuple."""

RowWriter = Callable[[int, Any], None]
Buffers = dict[str, NDArray[Any]]
"""Observations by name, each [N, *shape]."""
Observations = Mapping[str, Literal["ignore"] | ObservationSettings]
"""What a configuration says about observations (``environment.observations``), by name."""


@attrs.frozen(eq=False)
class ObservationPart:
    """One observation: its description for networks, and the conversion of its values.

    Every value is checked. A value with another shape or kind, or that the array cannot hold, raises
    :class:`~rlcore_gymnasium.spaces.MismatchedValue`. Real numbers outside the bounds of a Box are accepted unchanged.

    Attributes:
        spec: The description for networks.
        key: Key in a Dict observation, or index in a Tuple; None for the only part.
        options: Options of a Discrete [] or MultiDiscrete [*shape]; None for other spaces.
        start: Lowest value of each choice, with the shape of ``options``.
        binary: Whether the value is a MultiBinary: zeros and ones, flattened.
        channels_first: Whether the space has images [channels, height, width]; the observation is [height, width,
            channels].
        shape: Shape of one value of the space; ``spec.shape`` may be the flattened one.
    """

    spec: ObservationSpec
    key: str | int | None
    options: NDArray[np.int64] | None = None
    start: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros((), np.int64))
    binary: bool = False
    channels_first: bool = False
    shape: tuple[int, ...] = attrs.field()

    @shape.default
    def _shape(self) -> tuple[int, ...]:
        shape = self.spec.shape
        return (shape[-1], *shape[:-1]) if self.channels_first else shape

    @classmethod
    def of(
        cls, space: spaces.Space[Any], name: str, key: str | int | None, where: str, flatten: bool = False
    ) -> ObservationPart:
        """Return the part for ``space``. ``where`` begins messages. Raises UnsupportedSpace.

        ``flatten`` makes a vector of an array of any shape; other spaces are vectors already.
        """
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            options = np.asarray(space.n if isinstance(space, spaces.Discrete) else space.nvec, np.int64)
            spec = ObservationSpec(name, (int(options.sum()),), np.float32, "one_hot")
            return cls(spec, key, options, np.asarray(space.start, np.int64), shape=options.shape)
        if isinstance(space, spaces.MultiBinary):
            spec = ObservationSpec(name, (math.prod(space.shape),), np.float32, "one_hot")
            return cls(spec, key, binary=True, shape=space.shape)
        if not isinstance(space, spaces.Box) or space.dtype.kind not in "fiub":
            raise UnsupportedSpace(
                f"{where}: observation {name!r} has the unsupported space {_short(space)}; supported are Box, Discrete,"
                " MultiDiscrete, MultiBinary and a Dict or Tuple of those"
            )
        shape = space.shape
        if 0 in shape:
            raise UnsupportedSpace(f"{where}: observation {name!r} has no numbers: its space is {space!r}")
        if flatten:
            low, high = (None if each is None else each.reshape(-1) if each.ndim else each for each in _bounds(space))
            spec = ObservationSpec(name, (math.prod(shape),), np.float32, low=low, high=high)
            return cls(spec, key, shape=shape)
        pixels = len(shape) == 3 and space.dtype == np.uint8
        # Frame stacks and environments made for torch have channels first; encoders expect height, width, channels.
        channels_first = pixels and shape[2] not in IMAGE_CHANNELS and shape[0] <= max(IMAGE_CHANNELS)
        low, high = (None, None) if pixels and _any_byte(space) else _bounds(space)
        if channels_first:
            shape = (*shape[1:], shape[0])
            low, high = (np.moveaxis(each, 0, -1) if each is not None and each.ndim else each for each in (low, high))
        image = pixels or (len(shape) == 3 and shape[2] in IMAGE_CHANNELS)
        kind: ObservationKind = "image" if image else "vector"
        dtype = np.uint8 if pixels else np.float32
        spec = ObservationSpec(name, shape, dtype, kind, low=low, high=high)
        return cls(spec, key, channels_first=channels_first)

    def row_writer(self, buffer: NDArray[Any]) -> RowWriter:
        """Return a function that writes the value of one agent into a row of ``buffer`` [N, *shape]."""
        if self.options is not None and self.options.ndim == 0:
            return self._choice_writer(buffer)
        if self.options is not None or self.binary:

            def write_converted(row: int, value: Any) -> None:
                buffer[row] = self.convert([value])[0]

            return write_converted
        if self.channels_first:
            buffer = np.moveaxis(buffer, -1, 1)
        elif self.spec.shape != self.shape:
            buffer = buffer.reshape(len(buffer), *self.shape)
        name, shape, dtype = self.spec.name, self.shape, self.spec.dtype
        kinds = "fiub" if dtype.kind == "f" else ""  # kinds of numbers that the buffer holds without a check of values

        def write(row: int, value: Any) -> None:
            if (
                not isinstance(value, np.ndarray)
                or value.shape != shape
                or (value.dtype is not dtype and value.dtype.kind not in kinds)
            ):
                value = array_of(value, shape, dtype, name)
            buffer[row] = value

        return write

    def _choice_writer(self, buffer: NDArray[Any]) -> RowWriter:
        name, start, options = self.spec.name, int(self.start), self.spec.size

        def write_indicator(row: int, value: Any) -> None:
            choice = choice_of(value, start, options, name)
            buffer[row] = 0.0
            buffer[row, choice] = 1.0

        return write_indicator

    def convert(self, values: Any, rows: int | None = None) -> NDArray[Any]:
        """Convert K stacked values of the space into [K, *shape], without a copy if possible.

        ``rows`` is K, if given.
        """
        name, count = self.spec.name, len(values) if rows is None else rows
        if self.options is not None:
            choices = choices_of(values, self.start, self.options, count, name)
            columns = np.cumsum(self.options).reshape(self.options.shape) - self.options
            indicators = np.zeros((count, *self.spec.shape), np.float32)
            indicators[np.arange(count)[:, None], (choices + columns).reshape(count, -1)] = 1.0
            return indicators
        if self.binary:
            return bits_of(values, (count, *self.shape), name).astype(np.float32).reshape(count, *self.spec.shape)
        array = array_of(values, (count, *self.shape), self.spec.dtype, name).astype(self.spec.dtype, copy=False)
        return np.moveaxis(array, 1, -1) if self.channels_first else array.reshape(count, *self.spec.shape)

    def values(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return the K values of the space, [K, *shape of the space], that :meth:`convert` made ``stored`` of."""
        rows = len(stored)
        if self.options is not None:
            branches = np.split(stored, np.cumsum(self.options)[:-1], axis=1)
            choices = np.stack([branch.argmax(1) for branch in branches], axis=1)
            return choices.reshape(rows, *self.options.shape) + self.start
        if self.channels_first:
            return np.moveaxis(stored, -1, 1)
        values = stored.reshape(rows, *self.shape)
        return values.astype(np.int8) if self.binary else values


def _bounds(space: spaces.Box) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
    return _bound(space.low), _bound(space.high)


def _any_byte(space: spaces.Box) -> bool:
    """Return whether the bounds of bytes allow every value of their type, and so say nothing."""
    return bool((space.low == 0).all() and (space.high == 255).all())


def _bound(bound: NDArray[Any]) -> NDArray[np.float32] | None:
    """Return a bound of a Box for its spec: one number if all are equal, None if there is none."""
    bound = bound.astype(np.float32)
    if np.isinf(bound).all():
        return None
    alike = bound.size > 0 and (bound == bound.flat[0]).all()
    return np.asarray(bound.flat[0]) if alike else bound


@attrs.frozen(eq=False)
class ObservationCodec:
    """Writes values of an observation space into arrays over environments.

    Attributes:
        parts: The observations, in the order of the space.
    """

    parts: tuple[ObservationPart | EntitiesPart, ...]

    @classmethod
    def of(cls, space: spaces.Space[Any], where: str, observations: Observations | None = None) -> ObservationCodec:
        """Return the codec of ``space``. ``where`` begins messages.

        ``observations`` is ``environment.observations`` of an environment that has this key. Raises UnsupportedSpace,
        and ConfigError for a name in ``observations`` that the space does not have.
        """
        named: dict[str, tuple[str | int | None, spaces.Space[Any]]]
        if isinstance(space, spaces.Dict):
            named = {str(key): (key, part) for key, part in space.spaces.items()}
        elif isinstance(space, spaces.Tuple):
            named = {str(place): (place, part) for place, part in enumerate(space.spaces)}
        else:
            named = {OBSERVATION: (None, space)}
        whole = where if OBSERVATION in named and named[OBSERVATION][0] is None else f"{where}: {_short(space)}"
        said = observations or {}
        for name in said:
            if name not in named:
                raise ConfigError(
                    f"{where} has no such observation; it has {', '.join(named)}{did_you_mean(name, named)}",
                    key=("environment", "observations", name),
                )
        beside = {how.present for how in said.values() if isinstance(how, ObservationSettings)}
        parts = []
        for name, (key, part) in named.items():
            how = said.get(name, ObservationSettings())
            if isinstance(how, ObservationSettings) and not how.ignore and name not in beside:
                try:
                    parts.append(_observed(part, name, key, whole, how, named))
                except UnsupportedSpace as error:
                    if observations is None or key is None:
                        raise
                    advice = f"leave it out with environment.observations: {{{name}: ignore}}"
                    if isinstance(part, spaces.Sequence):
                        advice = f"set environment.observations: {{{name}: {{max_entities: 16}}}}, or {advice}"
                    if isinstance(part, spaces.Dict | spaces.Tuple):
                        advice += ", or make one vector of all with environment.wrappers: [FlattenObservation]"
                    raise UnsupportedSpace(f"{error}; {advice}") from None
        if named and not parts:
            raise ConfigError(f"nothing is left to observe of {', '.join(named)}", key=("environment", "observations"))
        return cls(tuple(parts))

    @property
    def specs(self) -> tuple[ObservationSpec, ...]:
        """The description of each observation."""
        return tuple(part.spec for part in self.parts)

    def buffers(self, rows: int) -> Buffers:
        """Return zeros for the observations of N = ``rows`` agents, by name, each [N, *shape]."""
        return {spec.name: np.zeros((rows, *spec.shape), spec.dtype) for spec in self.specs}

    def row_writer(self, buffers: Buffers) -> RowWriter:
        """Return a function that writes the complete observation of one agent into a row of ``buffers``."""
        writers = [(part.key, part.row_writer(buffers[part.spec.name])) for part in self.parts]
        if len(writers) == 1 and writers[0][0] is None:
            return writers[0][1]

        def write(row: int, value: Any) -> None:
            for key, write_part in writers:
                write_part(row, _part(value, key))

        return write

    def convert(self, batch: Any, rows: int | None = None) -> Buffers:
        """Convert the result of a vector environment into arrays over environments.

        ``rows`` is their number, if given.
        """
        return {
            part.spec.name: part.convert(batch if part.key is None else _part(batch, part.key), rows)
            for part in self.parts
        }

    def stack(self, values: Iterable[Any]) -> Buffers:
        """Stack single observations into arrays over rows."""
        rows = list(values)
        buffers = self.buffers(len(rows))
        write = self.row_writer(buffers)
        for row, value in enumerate(rows):
            write(row, value)
        return buffers


def _observed(
    space: spaces.Space[Any],
    name: str,
    key: str | int | None,
    where: str,
    how: ObservationSettings,
    named: Mapping[str, tuple[str | int | None, spaces.Space[Any]]],
) -> ObservationPart | EntitiesPart:
    """The part for ``space`` as ``how`` says. Raises UnsupportedSpace, and ConfigError if the two do not fit."""

    def wrong(what: str, problem: str) -> ConfigError:
        return ConfigError(f"{problem}; its space is {_short(space)}", key=("environment", "observations", name, what))

    made: ObservationPart | EntitiesPart
    if how.max_entities is not None:
        if not isinstance(space, spaces.Sequence):
            raise wrong("max_entities", "only a Sequence has it: leave it out, or set entities: true for a matrix")
        element = ObservationPart.of(space.feature_space, name, None, where)
        spec = ObservationSpec(name, (how.max_entities, 1 + element.spec.size), np.float32, "entities")
        made = SequencePart(spec, key, element)
    else:
        made = ObservationPart.of(space, name, key, where, how.flatten)
        spec = made.spec
    if how.entities and isinstance(made, ObservationPart):
        if len(spec.shape) != 2:
            raise wrong("entities", "entities are the rows of a matrix, a Box with two axes")
        spec = attrs.evolve(spec, kind="entities")
        made = attrs.evolve(made, spec=spec)
        if how.present is not None:
            if how.present not in named or key is None:
                raise wrong("present", f"there is no observation {how.present!r}{did_you_mean(how.present, named)}")
            entities, numbers = spec.shape
            told = Beside(key, named[how.present][0])  # type: ignore[arg-type]
            spec = ObservationSpec(name, (entities, 1 + numbers), np.float32, "entities")
            made = PaddedPart(spec, told, made)
    if how.goal:
        if spec.kind == "entities":
            raise wrong("goal", "entities cannot be a goal")
        made = attrs.evolve(made, spec=attrs.evolve(spec, goal=True))
    return made


def _short(space: spaces.Space[Any]) -> str:
    """Return a space for messages; a long one without its middle."""
    text = repr(space)
    return text if len(text) <= 300 else f"{text[:200]} ... {text[-80:]}"


def _part(value: Any, key: Any) -> Any:
    """Return the entry ``key`` of a Dict or Tuple observation, or both entries of a :class:`Beside`."""
    if isinstance(key, Beside):
        return _part(value, key.entities), _part(value, key.present)
    try:
        return value[key]
    except (LookupError, TypeError):
        refuse(str(key), value, f"expected one with {key!r} in it")


# ---------------------------------------------------------------- actions


@attrs.frozen(eq=False)
class ActionPart:
    """A leaf of an action space, and its columns in :class:`Actions`.

    Attributes:
        space: The leaf of the action space.
        columns: Columns of the part in ``Actions.continuous``, or in ``Actions.discrete`` if there are ``branches``.
        branches: Options of each discrete column; empty for a Box.
        start: [branches] added to the choices; None where it is zero.
    """

    space: spaces.Space[Any]
    columns: slice
    branches: tuple[int, ...] = ()
    start: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, space: spaces.Space[Any], continuous: int, discrete: int, where: str) -> ActionPart:
        """Return the leaf that follows ``continuous`` real parts and ``discrete`` branches.

        ``where`` begins messages. Raises UnsupportedSpace.
        """
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
        """Return the values, [S, *shape of the space], in a new array, because an environment may keep the row."""
        dtype = self.space.dtype
        if not self.branches:
            assert actions.continuous is not None and isinstance(self.space, spaces.Box)
            continuous = actions.continuous[:, self.columns].astype(dtype)
            if dtype == np.float64:  # a bound in float32 may be outside the space by one unit in the last place
                np.clip(continuous, self.space.low.reshape(-1), self.space.high.reshape(-1), out=continuous)
            return continuous.reshape(-1, *self.space.shape)
        assert actions.discrete is not None
        discrete = actions.discrete[:, self.columns]
        if self.start is not None:
            discrete = discrete + self.start
        return discrete.astype(dtype).reshape(-1, *(self.space.shape or ()))

    def read(self, values: Any) -> NDArray[Any]:
        """Convert stacked values of the space into columns of this part, [K, columns]; the inverse of ``values``."""
        array = np.asarray(values)
        columns = array.reshape(len(array), -1)
        return columns if self.start is None else columns - self.start


@attrs.frozen(eq=False)
class ActionCodec:
    """Converts :class:`Actions` into actions of environments with one action space.

    Attributes:
        parts: The leaves of the space, in its order.
        keys: Keys of the parts in a Dict space; None for other spaces.
        single: Whether the space is one leaf, not a Tuple or Dict.
    """

    parts: tuple[ActionPart, ...]
    keys: tuple[Any, ...] | None
    single: bool

    @classmethod
    def of(cls, space: spaces.Space[Any], where: str) -> ActionCodec:
        """Return the codec of ``space``. ``where`` begins messages. Raises UnsupportedSpace."""
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
        """Return the number of options of each branch."""
        return tuple(options for part in self.parts for options in part.branches)

    def bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the lowest and highest value of each continuous part, [continuous]."""
        boxes = [part.space for part in self.parts if isinstance(part.space, spaces.Box)]
        empty = np.empty(0, np.float32)
        low = np.concatenate([empty, *(box.low.reshape(-1).astype(np.float32) for box in boxes)])
        high = np.concatenate([empty, *(box.high.reshape(-1).astype(np.float32) for box in boxes)])
        return low, high

    def batch(self, actions: Actions) -> Any:
        """Return the action of a vector environment: the values of all environments, stacked as in ``batch_space``."""
        if self.single:
            return self.parts[0].values(actions)
        values = tuple(part.values(actions) for part in self.parts)
        return values if self.keys is None else dict(zip(self.keys, values, strict=True))

    def rows(self, actions: Actions) -> Iterable[Any]:
        """Return one action per environment."""
        if self.single:
            return self.parts[0].values(actions)
        rows = zip(*(part.values(actions) for part in self.parts), strict=True)
        return rows if self.keys is None else (dict(zip(self.keys, row, strict=True)) for row in rows)

    def empty(self, rows: int) -> Actions:
        """Return uninitialized actions with this number of rows, for ``read`` to fill."""
        continuous = np.empty((rows, len(self.bounds()[0])), np.float32)
        discrete = np.empty((rows, len(self.discrete)), np.int64)
        return Actions(continuous if continuous.shape[1] else None, discrete if discrete.shape[1] else None)

    def read(self, batch: Any, actions: Actions, rows: slice) -> None:
        """Write stacked values of the space into ``rows`` of ``actions``; the inverse of ``batch``."""
        keys = self.keys if self.keys is not None else range(len(self.parts))
        for part, key in zip(self.parts, keys, strict=True):
            columns = actions.discrete if part.branches else actions.continuous
            assert columns is not None
            columns[rows, part.columns] = part.read(batch if self.single else batch[key])

    @property
    def maskable(self) -> bool:
        """Return whether ``info["action_mask"]``, a mask over one choice, fits this space."""
        return len(self.parts) == 1 and len(self.discrete) == 1
