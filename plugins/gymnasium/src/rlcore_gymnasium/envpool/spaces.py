"""The observations, actions and action masks of a task, from EnvPool's description of it.

rlcore-gymnasium's codecs convert spaces and values. This module prepares what EnvPool writes differently:

* A real number without bounds has the bounds of C++'s ``numeric_limits``: the smallest positive and the largest number.
* Choices are a Box of integers.
* A Dict is nested; a leaf gets the name of its whole path, such as ``goal.position``.
* A value may have shape []; it gets one dimension, so that networks can read it.
* A mask of allowed actions is an entry ``action_mask`` of the observation or ``legal_action_mask`` of the info.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore_gymnasium.envpool.tasks import Task
from rlcore_gymnasium.spaces import ActionCodec, ObservationCodec, Observations
from rlcore_gymnasium.spaces.values import action_mask, final_mask

MASKS = ("obs:action_mask", "info:action_mask", "info:legal_action_mask")
"""Keys, in EnvPool's description of what a step returns, under which a mask of allowed actions may be."""

Path = tuple[str, ...]
Space = spaces.Space[Any]
Flags = NDArray[np.bool_]


@attrs.frozen(eq=False)
class Leaf:
    """One observation: its place in a nested Dict, and how its space and values change before the codec.

    Attributes:
        path: Keys from the outermost Dict to the value; empty for a space that is not a Dict.
        space: The space as the codec gets it.
    """

    path: Path
    space: Space

    @classmethod
    def of(cls, path: Path, space: Space) -> Leaf:
        if not isinstance(space, spaces.Box):
            return cls(path, space)
        if space.shape == ():
            low = space.low[None]
            high = space.high[None]
            space = spaces.Box(low, high, dtype=space.dtype.type)
        return cls(path, _unbounded(space))

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def read(self, values: Any, rows: int) -> Any:
        """Return the values [rows, *shape] of this leaf from the observations of ``rows`` environments."""
        values = _entry(values, self.path)
        if np.ndim(values) == 1 and self.space.shape == (1,):
            return values.reshape(rows, 1)
        return values


@attrs.frozen(eq=False)
class TaskSpaces:
    """The observations, actions and masks of the agents of a task.

    Attributes:
        leaves: The observations.
        observing: Converts observations.
        acting: Converts actions.
        mask: The place of the mask of allowed actions in ``{"obs": observation, "info": info}``; None if there is none.
    """

    leaves: tuple[Leaf, ...]
    observing: ObservationCodec
    acting: ActionCodec
    mask: Path | None

    @classmethod
    def of(cls, task: Task, observations: Observations) -> TaskSpaces:
        """Return the spaces of a task; ``observations`` is ``environment.observations``.

        Raises UnsupportedSpace, and ConfigError for an observation in ``observations`` that the task does not have.
        """
        acting = ActionCodec.of(_choices(task.action_space), task.id)
        mask = _mask(task.returned, acting.discrete)
        leaves = []
        for path, space in _leaves(task.observation_space):
            if mask is None or path != mask[1:]:
                leaves.append(Leaf.of(path, space))
        observed = leaves[0].space
        if leaves[0].path:
            observed = spaces.Dict({leaf.name: leaf.space for leaf in leaves})
        observing = ObservationCodec.of(observed, task.id, observations)
        return cls(tuple(leaves), observing, acting, mask)

    def observations(self, raw: Any, rows: int) -> dict[str, NDArray[Any]]:
        """Return the observations of ``rows`` environments by name, each [rows, *shape]."""
        if self.leaves[0].path:
            values: Any = {leaf.name: leaf.read(raw, rows) for leaf in self.leaves}
        else:
            values = self.leaves[0].read(raw, rows)
        return self.observing.convert(values, rows)

    def masks(self, raw: Any, info: Mapping[str, Any], rows: int) -> Flags | None:
        """Return which options each of ``rows`` environments allows, [rows, options], branches side by side."""
        if self.mask is None:
            return None
        returned = {"obs": raw, "info": info}
        value = np.asarray(_entry(returned, self.mask))
        shape = (rows, sum(self.acting.discrete))
        return action_mask(value.reshape(shape), shape)

    def final(self, mask: Flags | None, ended: NDArray[np.intp]) -> Flags | None:
        """Return the masks [K, options] at the final observations of the ``ended`` rows [K] of ``mask``."""
        if mask is None or not ended.size:
            return None
        masks = mask[ended]
        return final_mask(masks, masks.shape, self.acting.discrete)


def _entry(values: Any, path: Path) -> Any:
    """Return the value at ``path`` in nested Dicts."""
    for key in path:
        values = values[key]
    return values


def _leaves(space: Space, path: Path = ()) -> Iterator[tuple[Path, Space]]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _leaves(part, (*path, str(key)))
    else:
        yield path, space


def _unbounded(space: spaces.Box) -> spaces.Box:
    """Return the space with no bounds where EnvPool wrote none."""
    dtype: np.dtype[Any] = space.dtype
    if dtype.kind != "f":
        return space
    # std::numeric_limits<float>::min() is the smallest positive number, which EnvPool has as the lowest of a space.
    limits = np.finfo(dtype)
    low = np.where(space.low == limits.tiny, -np.inf, space.low).astype(dtype)
    high = np.where(space.high == limits.max, np.inf, space.high).astype(dtype)
    return spaces.Box(low, high, dtype=dtype.type)


def _choices(space: Space) -> Space:
    """Return an action space in which integers are choices."""
    if not isinstance(space, spaces.Box):
        return space
    if space.dtype.kind not in "iu":
        return _unbounded(space)
    low = space.low.astype(np.int64)
    high = space.high.astype(np.int64)
    options = high - low + 1
    return spaces.MultiDiscrete(options, start=low)


def _mask(returned: Mapping[str, Any], branches: tuple[int, ...]) -> Path | None:
    """Return the place of a mask over these branches: one row of options, or a row for each of equal branches.

    A mask over combinations of several choices is none.
    """
    if not branches:
        return None
    for key in MASKS:
        if key not in returned:
            continue
        shape = tuple(returned[key].shape)
        if len(shape) == 1:
            shape = (1, *shape)
        if len(shape) != 2:
            continue
        rows, options = shape
        if branches == (options,) * rows:
            source, _, name = key.partition(":")
            return source, name
    return None
