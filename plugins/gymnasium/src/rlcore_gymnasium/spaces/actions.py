"""Action spaces as rlcore's actions and action masks, with conversion of values in both directions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore import Actions, BehaviorSpec, ObservationSpec, UnsupportedSpace
from rlcore_gymnasium.spaces.values import MismatchedValue, action_mask, text_of


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
            size = math.prod(space.shape)
            return cls(space, slice(continuous, continuous + size))
        if isinstance(space, spaces.Discrete):
            branches: tuple[int, ...] = (int(space.n),)
            start = np.array([space.start], np.int64)
        elif isinstance(space, spaces.MultiDiscrete):
            branches = tuple(int(n) for n in space.nvec.reshape(-1))
            start = np.asarray(space.start, np.int64).reshape(-1)
        elif isinstance(space, spaces.MultiBinary):
            branches = (2,) * math.prod(space.shape)
            start = np.zeros(len(branches), np.int64)
        else:
            kind = type(space).__name__
            if isinstance(space, spaces.Box):
                kind = "a Box of integers"
            raise UnsupportedSpace(
                f"{where}: the action space {space!r} is not supported ({kind}); supported are Box (real), Discrete,"
                " MultiDiscrete, MultiBinary and a Tuple or Dict of those"
            )
        columns = slice(discrete, discrete + len(branches))
        if not start.any():
            # None spares an addition in every step: most spaces count from 0, as rlcore does.
            return cls(space, columns, branches)
        return cls(space, columns, branches, start)

    def values(self, actions: Actions) -> NDArray[Any]:
        """Return the values, [S, *shape of the space], in a new array, because an environment may keep the row."""
        dtype = self.space.dtype
        if not self.branches:
            assert actions.continuous is not None
            assert isinstance(self.space, spaces.Box)
            continuous = actions.continuous[:, self.columns].astype(dtype)
            # The policy clips in float32, where a bound may be outside the space by one unit in the last place.
            if dtype == np.float64:
                low = self.space.low.reshape(-1)
                high = self.space.high.reshape(-1)
                np.clip(continuous, low, high, out=continuous)
            return continuous.reshape(-1, *self.space.shape)
        assert actions.discrete is not None
        discrete = actions.discrete[:, self.columns]
        if self.start is not None:
            discrete = discrete + self.start
        shape = self.space.shape or ()
        return discrete.astype(dtype).reshape(-1, *shape)

    def mask(self, value: Any) -> NDArray[np.bool_]:
        """Return which options a mask ``value`` allows, [options of all branches]; see :meth:`ActionCodec.mask`."""
        options = sum(self.branches)
        if value is None:
            return np.ones(options, np.bool_)
        if isinstance(value, tuple | list):
            masks = list(_leaves(value))
            if len(masks) == len(self.branches):
                allowed = map(_branch_mask, masks, self.branches)
                return np.concatenate(list(allowed))
        array = np.asarray(value)
        if isinstance(self.space, spaces.MultiBinary) and array.shape == self.space.shape:
            # As MultiBinary.sample takes it: 0 and 1 are the only value, 2 leaves the choice.
            allowed_bits = np.stack([array != 1, array != 0], axis=-1)
            return allowed_bits.reshape(-1)
        # MultiDiscrete.sample takes a row for each of several equal branches; rlcore has all options side by side.
        if array.shape[:1] == (len(self.branches),):
            array = array.reshape(-1)
        return action_mask(array, (options,))

    def read(self, values: Any) -> NDArray[Any]:
        """Convert stacked values of the space into columns of this part, [K, columns]; the inverse of ``values``."""
        array = np.asarray(values)
        columns = array.reshape(len(array), -1)
        if self.start is None:
            return columns
        return columns - self.start


def _branch_mask(value: Any, options: int) -> NDArray[np.bool_]:
    """Return the mask of one branch, [options]; None allows everything, as in the ``sample`` of Gymnasium's spaces."""
    if value is None:
        return np.ones(options, np.bool_)
    return action_mask(value, (options,))


def _leaves(value: Any) -> Iterable[Any]:
    """The arrays in nested tuples and lists, in order; a list of numbers is an array."""
    if not isinstance(value, tuple | list):
        yield value
        return
    nested = any(isinstance(entry, tuple | list | np.ndarray | None) for entry in value)
    if not nested:
        yield value
        return
    for entry in value:
        yield from _leaves(entry)


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
        leaves: list[spaces.Space[Any]] = [space]
        single = not isinstance(space, spaces.Dict | spaces.Tuple)
        if isinstance(space, spaces.Dict):
            keys = tuple(space.spaces)
            leaves = list(space.spaces.values())
        elif isinstance(space, spaces.Tuple):
            leaves = list(space.spaces)
        if not single:  # a message about a leaf shows where it is
            where = f"{where}: {space!r}"
        parts: list[ActionPart] = []
        continuous = 0
        discrete = 0
        for leaf in leaves:
            part = ActionPart.of(leaf, continuous, discrete, where)
            parts.append(part)
            if part.branches:
                discrete = part.columns.stop
            else:
                continuous = part.columns.stop
        return cls(tuple(parts), keys, single)

    def behavior(
        self,
        name: str,
        observations: tuple[ObservationSpec, ...],
        env_index: NDArray[np.int64],
        team: NDArray[np.int64] | None = None,
    ) -> BehaviorSpec:
        """Return the behavior of agents with these actions. ``env_index`` and ``team`` are [S]."""
        low, high = self.bounds()
        continuous = len(low)
        return BehaviorSpec(
            name,
            observations,
            continuous,
            self.discrete,
            low,
            high,
            env_index=env_index,
            team=team,
            start=self.start,
        )

    @property
    def discrete(self) -> tuple[int, ...]:
        """Return the number of options of each branch."""
        return tuple(options for part in self.parts for options in part.branches)

    @property
    def start(self) -> tuple[int, ...]:
        """Return the lowest choice of each branch; empty if all are 0."""
        lowest: list[int] = []
        for part in self.parts:
            if part.start is None:
                lowest += [0] * len(part.branches)
            else:
                lowest += part.start.tolist()
        return tuple(lowest) if any(lowest) else ()

    def bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the lowest and highest value of each continuous part, [continuous]."""
        low = [np.empty(0, np.float32)]
        high = [np.empty(0, np.float32)]
        for part in self.parts:
            space = part.space
            if isinstance(space, spaces.Box):
                low.append(space.low.reshape(-1).astype(np.float32))
                high.append(space.high.reshape(-1).astype(np.float32))
        return np.concatenate(low), np.concatenate(high)

    def batch(self, actions: Actions) -> Any:
        """Return the action of a vector environment: the values of all environments, stacked as in ``batch_space``."""
        if self.single:
            return self.parts[0].values(actions)
        values = tuple(part.values(actions) for part in self.parts)
        if self.keys is None:
            return values
        return dict(zip(self.keys, values, strict=True))

    def rows(self, actions: Actions) -> Iterable[Any]:
        """Return one action per environment."""
        if self.single:
            return self.parts[0].values(actions)
        values = [part.values(actions) for part in self.parts]
        rows = zip(*values, strict=True)
        keys = self.keys
        if keys is None:
            return rows
        return (dict(zip(keys, row, strict=True)) for row in rows)

    def empty(self, rows: int) -> Actions:
        """Return uninitialized actions with this number of rows, for ``read`` to fill."""
        low, _ = self.bounds()
        actions = Actions()
        if low.size:
            actions.continuous = np.empty((rows, low.size), np.float32)
        if self.discrete:
            actions.discrete = np.empty((rows, len(self.discrete)), np.int64)
        return actions

    def read(self, batch: Any, actions: Actions, rows: slice) -> None:
        """Write stacked values of the space into ``rows`` of ``actions``; the inverse of ``batch``."""
        keys = self.keys
        if keys is None:
            keys = tuple(range(len(self.parts)))
        for part, key in zip(self.parts, keys, strict=True):
            columns = actions.discrete if part.branches else actions.continuous
            assert columns is not None
            values = batch if self.single else batch[key]
            columns[rows, part.columns] = part.read(values)

    # ------------------------------------------------------------ masks

    def mask(self, value: Any) -> NDArray[np.bool_]:
        """Return which options a mask ``value`` of one environment allows, [options], branches side by side.

        It is an array of zeros and ones with all options side by side, or has the form that the ``sample`` of the space
        takes: a part for each branch of a MultiDiscrete, or for each entry of a Tuple or Dict. None, as a mask or as a
        part, allows everything. Raises MismatchedValue for other values.
        """
        options = sum(self.discrete)
        # First the form that most environments give in every step.
        if isinstance(value, np.ndarray) and value.shape == (options,) and value.dtype.kind in "iub":
            return value.astype(np.bool_)
        if self.single:
            return self.parts[0].mask(value)
        if value is None:
            return np.ones(options, np.bool_)
        if self.keys and isinstance(value, Mapping):
            value = [value.get(key) for key in self.keys]
        if not isinstance(value, tuple | list) or len(value) != len(self.parts):
            return action_mask(value, (options,))
        masks = []
        for part, entry in zip(self.parts, value, strict=True):
            if part.branches:
                masks.append(part.mask(entry))
        return np.concatenate(masks)

    def masks(self, values: Any, rows: int) -> NDArray[np.bool_]:
        """Return which options the masks of ``rows`` environments allow, [rows, options].

        They are stacked along the first axis, as a vector environment has them, or a mask for each environment.
        Raises MismatchedValue for other values.
        """
        shape = (rows, sum(self.discrete))
        if isinstance(values, np.ndarray) and values.dtype.kind in "iub":
            side_by_side = values.reshape(len(values), -1)
            return action_mask(side_by_side, shape)
        by_branch = isinstance(values, tuple) and all(np.ndim(branch) == 2 for branch in values)
        if by_branch:  # an array [rows, options of the branch] for each branch, as Gymnasium stacks tuples
            side_by_side = np.concatenate(values, axis=1)
            return action_mask(side_by_side, shape)
        if len(values) != rows:
            raise MismatchedValue(f"action_mask as {text_of(values)}; expected one for each of {rows} environments")
        masks = [self.mask(value) for value in values]
        return np.stack(masks)
