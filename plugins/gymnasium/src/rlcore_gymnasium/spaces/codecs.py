"""Observation spaces as rlcore's observations, with conversion of values in both directions."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import attrs
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore import ConfigError, ObservationSpec, UnsupportedSpace, did_you_mean
from rlcore_gymnasium.settings import ObservationSettings
from rlcore_gymnasium.spaces.actions import ActionCodec
from rlcore_gymnasium.spaces.entities import (
    Beside,
    EntitiesPart,
    PaddedPart,
    Path,
    SequencePart,
    entities_spec,
    name_of,
)
from rlcore_gymnasium.spaces.images import Channels, image_layout
from rlcore_gymnasium.spaces.values import REAL_KINDS, array_of, bits_of, choice_of, choices_of, refuse

log = logging.getLogger("rlcore.plugin.gymnasium")

ACTION_MASK = "action_mask"  # the entry of a Dict observation that may be a mask
OBSERVATION = "observation"
"""The name of the only observation of a space that is not a Dict or a Tuple."""

Space = spaces.Space[Any]
Key = Path | None
"""Where an observation is; None for the only one of a space that is not a Dict or a Tuple."""
Entries = Mapping[str, tuple[Key, Space]]
"""The observations of a space by name, each with its place."""
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
        key: Where the part is in a Dict or a Tuple; None for the only part.
        options: Options of a Discrete [] or MultiDiscrete [*shape]; None for other spaces.
        start: Lowest value of each choice, with the shape of ``options``.
        binary: Whether the value is a MultiBinary: zeros and ones, flattened.
        axes: The axes of the space's value in the order of the observation, which has some of them side by side as one;
            empty if they are in this order. Images of a space may have their channels, or stacked frames, first.
        shape: Shape of one value of the space; ``spec.shape`` may be the flattened one.
    """

    spec: ObservationSpec
    key: Key
    options: NDArray[np.int64] | None = None
    start: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros((), np.int64))
    binary: bool = False
    axes: tuple[int, ...] = ()
    shape: tuple[int, ...] = attrs.field()

    @shape.default
    def _shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @classmethod
    def of(
        cls,
        space: spaces.Space[Any],
        name: str,
        key: Key,
        where: str,
        flatten: bool = False,
        matrix: bool = False,
        channels: Channels | None = None,
        stack: int = 1,
    ) -> ObservationPart:
        """Return the part for ``space``. ``where`` begins messages. Raises UnsupportedSpace.

        ``flatten`` makes a vector of an array of any shape; other spaces are vectors already. ``matrix`` leaves an
        array as it is, even if it looks like an image. ``channels`` and ``stack`` are those of :func:`image_layout`.
        """
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            sizes = space.n if isinstance(space, spaces.Discrete) else space.nvec
            options = np.asarray(sizes, np.int64)
            start = np.asarray(space.start, np.int64)
            indicators = int(options.sum())
            spec = ObservationSpec(name, (indicators,), np.float32, "one_hot")
            return cls(spec, key, options, start, shape=options.shape)
        if isinstance(space, spaces.MultiBinary):
            bits = math.prod(space.shape)
            spec = ObservationSpec(name, (bits,), np.float32, "one_hot")
            return cls(spec, key, binary=True, shape=space.shape)
        if not isinstance(space, spaces.Box) or space.dtype.kind not in REAL_KINDS:
            raise UnsupportedSpace(
                f"{where}: observation {name!r} has the unsupported space {_short(space)}; supported are Box, Discrete,"
                " MultiDiscrete, MultiBinary and a Dict or Tuple of those"
            )
        shape = space.shape
        if 0 in shape:
            raise UnsupportedSpace(f"{where}: observation {name!r} has no numbers: its space is {space!r}")
        in_order = tuple(range(len(shape)))
        is_vector = flatten or len(shape) < 2
        image = None if is_vector or matrix else image_layout(space, stack, channels)
        if image is None:
            stored = (math.prod(shape),) if flatten else shape
            low = _bound(space.low, in_order, stored)
            high = _bound(space.high, in_order, stored)
            spec = ObservationSpec(name, stored, np.float32, low=low, high=high)
            return cls(spec, key, shape=shape)
        low = _bound(space.low, image.axes, image.shape)
        high = _bound(space.high, image.axes, image.shape)
        # Bytes stay bytes: a replay buffer of images in float32 would need four times the memory.
        dtype = np.uint8 if space.dtype == np.uint8 else np.float32
        every_byte = (space.low == 0).all() and (space.high == 255).all()
        if dtype is np.uint8 and every_byte:
            low = None  # there is nothing to check
            high = None
        spec = ObservationSpec(name, image.shape, dtype, "image", low=low, high=high, frames=image.frames)
        axes = () if image.axes == in_order else image.axes
        return cls(spec, key, axes=axes, shape=shape)

    def row_writer(self, buffer: NDArray[Any]) -> RowWriter:
        """Return a function that writes the value of one agent into a row of ``buffer`` [N, *shape]."""
        if self.options is not None and self.options.ndim == 0:
            return self._choice_writer(buffer)
        if self.options is not None or self.binary:

            def write_converted(row: int, value: Any) -> None:
                [converted] = self.convert([value])
                buffer[row] = converted

            return write_converted
        if self.axes:
            buffer = self._as_in_space(buffer)
        elif self.spec.shape != self.shape:
            buffer = buffer.reshape(len(buffer), *self.shape)
        name = self.spec.name
        shape = self.shape
        dtype = self.spec.dtype
        # Kinds of numbers that the buffer holds without a check of values: numpy would wrap 300 to 44 in a byte.
        kinds = REAL_KINDS if dtype.kind == "f" else ""

        def write(row: int, value: Any) -> None:
            # Called for every environment in every step: a value of the right form costs no further call.
            if (
                not isinstance(value, np.ndarray)
                or value.shape != shape
                or (value.dtype is not dtype and value.dtype.kind not in kinds)
            ):
                value = array_of(value, shape, dtype, name)
            buffer[row] = value

        return write

    def _choice_writer(self, buffer: NDArray[Any]) -> RowWriter:
        name = self.spec.name
        start = int(self.start)
        options = self.spec.size

        def write_indicator(row: int, value: Any) -> None:
            choice = choice_of(value, start, options, name)
            buffer[row] = 0.0
            buffer[row, choice] = 1.0

        return write_indicator

    def convert(self, values: Any, rows: int | None = None) -> NDArray[Any]:
        """Convert K stacked values of the space into [K, *shape], without a copy if possible.

        ``rows`` is K, if given.
        """
        name = self.spec.name
        count = len(values) if rows is None else rows
        if self.options is not None:
            choices = choices_of(values, self.start, self.options, count, name)
            ends = np.cumsum(self.options).reshape(self.options.shape)
            first_columns = ends - self.options
            columns = (choices + first_columns).reshape(count, -1)
            indicators = np.zeros((count, *self.spec.shape), np.float32)
            every_row = np.arange(count)[:, None]
            indicators[every_row, columns] = 1.0
            return indicators
        shape = (count, *self.shape)
        dtype = self.spec.dtype
        if self.binary:
            array = bits_of(values, shape, name).astype(np.float32)
        else:
            array = array_of(values, shape, dtype, name).astype(dtype, copy=False)
        if self.axes:
            axes = [axis + 1 for axis in self.axes]  # after that of the rows
            array = array.transpose(0, *axes)
        return array.reshape(count, *self.spec.shape)

    def values(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return the K values of the space, [K, *shape of the space], that :meth:`convert` made ``stored`` of."""
        rows = len(stored)
        if self.options is not None:
            ends = np.cumsum(self.options)
            branches = np.split(stored, ends[:-1], axis=1)
            columns = [branch.argmax(1) for branch in branches]
            choices = np.stack(columns, axis=1)
            return choices.reshape(rows, *self.options.shape) + self.start
        if self.axes:
            return self._as_in_space(stored)
        values = stored.reshape(rows, *self.shape)
        return values.astype(np.int8) if self.binary else values

    def _as_in_space(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return a view of observations [K, *spec.shape] with the axes of the space, [K, *shape]."""
        lengths = [self.shape[axis] for axis in self.axes]
        unfolded = stored.reshape(len(stored), *lengths)  # frames and channels are two axes again
        inverse = np.argsort(self.axes) + 1
        return unfolded.transpose(0, *inverse)


def _bound(bound: NDArray[Any], axes: tuple[int, ...], shape: tuple[int, ...]) -> NDArray[np.float32] | None:
    """Return a bound of a Box for its spec, with these ``axes`` in order: one number if all are equal, None if none."""
    bound = bound.astype(np.float32)
    if np.isinf(bound).all():
        return None
    if (bound == bound.flat[0]).all():
        return np.asarray(bound.flat[0])
    return bound.transpose(axes).reshape(shape)


@attrs.frozen(eq=False)
class ObservationCodec:
    """Writes values of an observation space into arrays over environments.

    Attributes:
        parts: The observations, in the order of the space.
        has_mask: Whether the entry ``action_mask`` of a Dict is the mask of the actions, and not observed.
        left_out: A sentence for each entry that is left out because networks cannot read it, without the configuration
            having said so.
    """

    parts: tuple[ObservationPart | EntitiesPart, ...]
    has_mask: bool = False
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        space: spaces.Space[Any],
        where: str,
        observations: Observations | None = None,
        acting: ActionCodec | None = None,
        stack: int = 1,
    ) -> ObservationCodec:
        """Return the codec of ``space``. ``where`` begins messages.

        ``observations`` is ``environment.observations`` of an environment that has this key. The entry ``action_mask``
        of a Dict is a mask if it has a number for each option of ``acting``, and ``observations`` does not name it.
        An entry that networks cannot read, such as a text, is left out if another one is left: see :attr:`left_out`.
        ``stack`` is the number of frames that FrameStackObservation stacks, 1 without it.
        Raises UnsupportedSpace, and ConfigError for a name in ``observations`` that the space does not have.
        """
        named = entries(space)
        place = where
        if isinstance(space, spaces.Dict | spaces.Tuple):
            place = f"{where}: {_short(space)}"
        configured = _of_entries(observations or {}, named)
        for name in configured:
            if name not in named:
                known = ", ".join(named)
                raise ConfigError(
                    f"{where} has no such observation; it has {known}{did_you_mean(name, named)}",
                    key=("environment", "observations", name),
                )
        has_mask = False
        if acting is not None and ACTION_MASK not in configured:
            has_mask = _masks(named, acting, where)
        if has_mask:
            del named[ACTION_MASK]
        if not named:
            raise UnsupportedSpace(f"{place}: there is nothing to observe: the observation space has no entries")
        not_observed = _not_observed(configured)
        parts = []
        left_out = []
        refused: UnsupportedSpace | None = None
        for name, (key, part) in named.items():
            if name in not_observed:
                continue
            settings = configured.get(name, ObservationSettings())
            assert isinstance(settings, ObservationSettings)
            try:
                observed = _observed(part, name, key, place, settings, named, stack)
            except UnsupportedSpace as error:
                # A plugin without `environment.observations` has no key that its users could write.
                has_key = observations is not None
                advice = _advice(part, name, key) if has_key else ""
                told = UnsupportedSpace(f"{error}; {advice}") if advice else error
                if name in configured:
                    raise told from None
                refused = refused or told
                left_out.append(_left_out(part, name, where, has_key))
                continue
            parts.append(observed)
        if not parts and refused is not None:
            raise refused
        if not parts:
            all_names = ", ".join(named)
            raise ConfigError(f"nothing is left to observe of {all_names}", key=("environment", "observations"))
        return cls(tuple(parts), has_mask, tuple(left_out))

    def say_what_is_left_out(self) -> None:
        """Log the sentences of ``left_out``, each as a warning."""
        for sentence in self.left_out:
            log.warning("%s", sentence)

    @property
    def specs(self) -> tuple[ObservationSpec, ...]:
        """The description of each observation."""
        return tuple(part.spec for part in self.parts)

    def buffers(self, rows: int) -> Buffers:
        """Return zeros for the observations of N = ``rows`` agents, by name, each [N, *shape]."""
        return {spec.name: np.zeros((rows, *spec.shape), spec.dtype) for spec in self.specs}

    def row_writer(self, buffers: Buffers) -> RowWriter:
        """Return a function that writes the complete observation of one agent into a row of ``buffers``."""
        writers = []
        for part in self.parts:
            buffer = buffers[part.spec.name]
            writers.append((part.key, part.row_writer(buffer)))
        key, write_first = writers[0]
        if key is None:  # the only part of a space that is not a Dict or a Tuple
            return write_first

        def write(row: int, value: Any) -> None:
            for key, write_part in writers:
                write_part(row, _part(value, key))

        return write

    def convert(self, batch: Any, rows: int | None = None) -> Buffers:
        """Convert the result of a vector environment into arrays over environments.

        ``rows`` is their number, if given.
        """
        converted = {}
        for part in self.parts:
            values = batch if part.key is None else _part(batch, part.key)
            converted[part.spec.name] = part.convert(values, rows)
        return converted

    def stack(self, values: Iterable[Any]) -> Buffers:
        """Stack single observations into arrays over rows."""
        rows = list(values)
        buffers = self.buffers(len(rows))
        write = self.row_writer(buffers)
        for row, value in enumerate(rows):
            write(row, value)
        return buffers


def _of_entries(configured: Observations, named: Entries) -> Observations:
    """Return ``configured`` with the entries of a Dict or Tuple in place of its own name."""
    result: dict[str, Literal["ignore"] | ObservationSettings] = {}
    for name, settings in configured.items():
        inside = [entry for entry in named if entry.startswith(f"{name}.")]
        if name in named or not inside:
            result[name] = settings
        else:
            result |= dict.fromkeys(inside, settings)
    return result


def _not_observed(configured: Observations) -> set[str | None]:
    """Return the names that become no observation: the ignored ones, and those that say which entities are there."""
    names: set[str | None] = set()
    for name, settings in configured.items():
        if settings == "ignore" or settings.ignore:
            names.add(name)
        if isinstance(settings, ObservationSettings):
            names.add(settings.present)
    return names


def _observed(
    space: Space,
    name: str,
    key: Key,
    where: str,
    settings: ObservationSettings,
    named: Entries,
    stack: int,
) -> ObservationPart | EntitiesPart:
    """The part for ``space`` as ``settings`` say. Raises UnsupportedSpace, and ConfigError if the two do not fit."""

    def wrong(setting: str, problem: str) -> ConfigError:
        place = ("environment", "observations", name, setting)
        return ConfigError(f"{problem}; its space is {_short(space)}", key=place)

    part: ObservationPart | EntitiesPart
    if settings.max_entities is not None:
        if not isinstance(space, spaces.Sequence):
            raise wrong("max_entities", "only a Sequence has it: leave it out, or set entities: true for a matrix")
        element = ObservationPart.of(space.feature_space, name, None, where)
        spec = entities_spec(name, settings.max_entities, element.spec.size)
        part = SequencePart(spec, key, element)
    else:
        may_be_image = isinstance(space, spaces.Box) and 2 <= len(space.shape) <= 4
        if settings.channels is not None and not may_be_image:
            raise wrong("channels", "only an image has channels, a Box with two to four axes")
        part = ObservationPart.of(
            space, name, key, where, settings.flatten, settings.entities, settings.channels, stack
        )
        if settings.entities:
            if len(part.spec.shape) != 2:
                raise wrong("entities", "entities are the rows of a matrix, a Box with two axes")
            spec = attrs.evolve(part.spec, kind="entities")
            part = attrs.evolve(part, spec=spec)
        present = settings.present
        if present is not None:
            if present not in named or key is None:
                raise wrong("present", f"there is no observation {present!r}{did_you_mean(present, named)}")
            present_key, _ = named[present]
            both = Beside(key, present_key)  # type: ignore[arg-type]
            spec = entities_spec(name, *part.spec.shape)
            part = PaddedPart(spec, both, part)
    if settings.goal:
        if part.spec.kind == "entities":
            raise wrong("goal", "entities cannot be a goal")
        spec = attrs.evolve(part.spec, goal=True)
        part = attrs.evolve(part, spec=spec)
    return part


def entries(space: Space) -> dict[str, tuple[Key, Space]]:
    """Return the observations of a space by name, each with its place.

    An entry of a Dict or Tuple within another one is called after all keys on the way, such as ``goal.position``.
    Raises UnsupportedSpace if two have one name.
    """
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return {OBSERVATION: (None, space)}
    named: dict[str, tuple[Key, Space]] = {}
    for path, leaf in _leaves(space, ()):
        name = name_of(path)
        if name in named:
            raise UnsupportedSpace(f"two observations are called {name!r}; rename one with a wrapper")
        named[name] = (path, leaf)
    return named


def _leaves(space: Space, path: Path) -> Iterator[tuple[Path, Space]]:
    pairs: Iterable[tuple[str | int, Space]]
    if path == (ACTION_MASK,):  # a mask has an entry for each branch, and is one thing
        yield path, space
        return
    if isinstance(space, spaces.Dict):
        pairs = space.spaces.items()
    elif isinstance(space, spaces.Tuple):
        pairs = enumerate(space.spaces)
    else:
        yield path, space
        return
    for key, part in pairs:
        yield from _leaves(part, (*path, key))


def _advice(space: Space, name: str, key: Key) -> str:
    """Return what a file can say about an observation with an unsupported space; empty if there is nothing."""
    ways = []
    if isinstance(space, spaces.Sequence):
        ways.append(f"set environment.observations: {{{name}: {{max_entities: 16}}}}")
    if key is not None:
        ways.append(f"leave it out with environment.observations: {{{name}: ignore}}")
    return ", or ".join(ways)


def _left_out(space: Space, name: str, where: str, has_key: bool) -> str:
    """Return what is said of an entry that is left out because networks cannot read its space."""
    keys = ""
    if has_key:
        keys = f"; environment.observations: {{{name}: ignore}} says the same"
        if isinstance(space, spaces.Sequence):
            keys = f"; environment.observations: {{{name}: {{max_entities: 16}}}} has it read"
    return f"{where}: the observation {name!r} is left out, because networks do not read a {type(space).__name__}{keys}"


def _masks(named: Entries, acting: ActionCodec, where: str) -> bool:
    """Return whether the entry ``action_mask`` is a mask: zeros and ones, one for each option of ``acting``."""
    if ACTION_MASK not in named or not acting.discrete:
        return False
    _, space = named[ACTION_MASK]
    # By its space, not by its name alone: an entry of this name may as well be an ordinary observation.
    if isinstance(space, spaces.Tuple):
        by_branch = tuple(map(_zeros_and_ones, space.spaces))
        fits = by_branch == acting.discrete
    else:
        fits = _zeros_and_ones(space) == sum(acting.discrete)
    if not fits:
        options = " + ".join(map(str, acting.discrete))
        log.warning(
            "%s: the observation %r is observed, and masks nothing: it is not one zero or one for each of %s options, "
            "as a mask is",
            where,
            ACTION_MASK,
            options,
        )
    return fits


def _zeros_and_ones(space: Space) -> int:
    """Return how many numbers that are 0 or 1 a value of ``space`` has; 0 for other spaces."""
    bits = isinstance(space, spaces.MultiBinary)
    if isinstance(space, spaces.Box) and space.dtype.kind in "iub":
        bits = bool(space.low.min() >= 0 and space.high.max() <= 1)
    if not bits:
        return 0
    return math.prod(space.shape or ())


def _short(space: Space) -> str:
    """Return a space for messages; a long one without its middle."""
    text = repr(space)
    if len(text) <= 300:
        return text
    return f"{text[:200]} ... {text[-80:]}"


def _part(value: Any, key: Any) -> Any:
    """Return what is at the place ``key`` of a Dict or Tuple observation, or both entries of a :class:`Beside`."""
    if isinstance(key, Beside):
        entities = _part(value, key.entities)
        present = _part(value, key.present)
        return entities, present
    for step in key:
        try:
            value = value[step]
        except (LookupError, TypeError):
            refuse(name_of(key), value, f"expected one with {step!r} in it")
    return value
