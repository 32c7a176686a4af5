"""The description of a behavior's agents: observations, actions, and the environment of each slot.

A *slot* is one row of a behavior's arrays: the place of one live agent. S is the number of slots.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore.errors import did_you_mean

ObservationKind = Literal["vector", "image", "one_hot", "entities"]
"""How a network reads an observation; see :class:`ObservationSpec`."""


@attrs.frozen
class ObservationSpec:
    """One named observation of an agent.

    ``kind`` says how a network reads it: ``vector`` (any shape, flattened, may be normalized), ``image`` (height,
    width, channels), ``one_hot`` (an indicator vector, never normalized) or ``entities`` (a set of any size up to the
    first number of ``shape``, each entity a row; never normalized). Networks divide an image of unsigned integers by
    ``full_scale``, so that it spans 0 to 1.

    An entity whose numbers are all 0 is absent. Where a present one could look like that, one of its numbers says that
    it is there: a column of ones.

    ``low`` and ``high`` are numbers or arrays, infinite where there is no bound. A run compares the first observations
    with them and warns once about a value outside. It neither clips nor scales. Raises ValueError for bounds that do
    not broadcast to ``shape``, and for entities that are not a matrix.

    Attributes:
        name: The key of the observation in ``AgentBatch.observations``.
        shape: Shape of the observation of one agent.
        dtype: Type of the numbers; anything that ``numpy.dtype`` accepts.
        kind: How a network reads the observation.
        low: Lower bounds, which broadcast to ``shape``; None if nothing is known.
        high: Upper bounds, which broadcast to ``shape``; None if nothing is known.
        frames: Number of frames of which an image is a stack, side by side along its last axis, oldest first; the next
            observation mostly repeats all but the oldest. A replay buffer then stores each frame once. It changes
            nothing else, and a stack that repeats nothing is stored whole.
        goal: Whether the observation is the agent's goal, by which a network may choose weights; see
            ``network_settings.goal_conditioning_type``.
        size: Number of values of one agent's observation, the product of ``shape``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] = attrs.field(converter=np.dtype)
    kind: ObservationKind = attrs.field(default="vector")
    low: NDArray[Any] | float | None = attrs.field(default=None, eq=False, repr=False, kw_only=True)
    high: NDArray[Any] | float | None = attrs.field(default=None, eq=False, repr=False, kw_only=True)
    frames: int = attrs.field(default=1, eq=False, repr=False, kw_only=True)
    goal: bool = attrs.field(default=False, eq=False, repr=False, kw_only=True)

    size: int = attrs.field(init=False)

    @size.default
    def _size(self) -> int:
        return math.prod(self.shape)

    @property
    def full_scale(self) -> NDArray[np.float32]:
        """[channels] The largest value of each channel of an image of unsigned integers.

        It is the bound of the channel, or the largest number of the type, such as 255, without one. It is 1 for every
        other observation: real numbers are used as they are.
        """
        if self.kind != "image" or self.dtype.kind != "u":
            return np.ones(self.shape[-1:], np.float32)
        most = np.iinfo(self.dtype).max
        high = most if self.high is None else self.high
        bounds = np.broadcast_to(np.minimum(high, most), self.shape)
        of_channels = bounds.reshape(-1, self.shape[-1]).max(axis=0)
        # A channel that is always zero has nothing to scale: dividing by its bound would give a NaN.
        scales = np.where(of_channels > 0, of_channels, 1)
        return scales.astype(np.float32)

    @kind.validator
    def _is_matrix(self, attribute: attrs.Attribute[Any], kind: ObservationKind) -> None:
        if kind != "entities":
            return
        if self.goal:
            raise ValueError(f"observation {self.name!r}: entities cannot be a goal")
        if len(self.shape) != 2:
            shape = list(self.shape)
            raise ValueError(f"observation {self.name!r}: entities have shape {shape}, not [entities, numbers]")

    @low.validator
    @high.validator
    def _broadcasts(self, attribute: attrs.Attribute[Any], bound: NDArray[Any] | float | None) -> None:
        if bound is None:
            return
        try:
            np.broadcast_to(bound, self.shape)
        except ValueError:
            raise ValueError(
                f"observation {self.name!r}: {attribute.name} has shape {list(np.shape(bound))}, which does not "
                f"broadcast to {list(self.shape)}"
            ) from None


class GoalRules(Protocol):
    """The rules of a goal environment: the reward of a transition, and whether it ends the episode, with any goal.

    The agents of such an environment have the observations ``achieved_goal`` and ``desired_goal``, as Gymnasium calls
    them. The methods take both for B rows, each [B, *shape] as in :attr:`AgentBatch.observations`, and depend on
    nothing else: not on the state of an environment. The object can be pickled, because an environment may be in
    another process.
    """

    def reward(self, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.float32]:
        """Return the reward [B] of transitions that led to ``achieved`` while ``desired`` was the goal."""

    def terminated(self, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Return whether each of these transitions ends its episode, [B]; None if the environment does not say."""


@attrs.frozen(eq=False)
class BehaviorSpec:
    """The observations and actions of the agents of one behavior, and the environment of each slot.

    An action has ``continuous`` real parts, bounded by ``low`` and ``high``, and one choice for each entry of
    ``discrete``. Both at once is a hybrid action. S is the number of slots, the rows in every array of the behavior.

    Attributes:
        name: The name under ``behaviors`` in a configuration.
        observations: The observations of one agent.
        continuous: Number of real parts of an action.
        discrete: Number of options of each discrete branch of an action.
        low: Lower bounds [continuous] of the real parts, infinite where unbounded.
        high: Upper bounds [continuous] of the real parts, infinite where unbounded.
        env_index: [S] index of the environment of each slot, in 0 to N - 1.
        team: [S] number of the team of each slot; None: all slots are in one team.
        group: [S] number of the group whose reward each slot shares, negative for a slot in no group; slots of two
            environments are never in one group. None: no rewards are shared.
        start: The environment's own number for option 0 of each branch, which an adapter adds to the options of
            :class:`Actions`; empty: all are 0. Programs that act with a saved policy need it.
        goal_rules: The rules of a goal environment, by which hindsight replay learns with other goals; None: there are
            none. A checkpoint does not have them.
        many_games: Whether one environment may hold several games of the same teams side by side, which begin and end
            apart and which nothing tells apart, as the fields of a Unity player; else each environment is one game. A
            checkpoint does not have it.
    """

    name: str
    observations: tuple[ObservationSpec, ...]
    continuous: int = 0
    discrete: tuple[int, ...] = ()
    low: NDArray[np.float32] = attrs.field(factory=lambda: np.empty(0, np.float32))
    high: NDArray[np.float32] = attrs.field(factory=lambda: np.empty(0, np.float32))
    env_index: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(1, np.int64))
    team: NDArray[np.int64] | None = None
    group: NDArray[np.int64] | None = None
    goal_rules: GoalRules | None = attrs.field(default=None, repr=False, kw_only=True)
    many_games: bool = attrs.field(default=False, repr=False, kw_only=True)
    start: tuple[int, ...] = attrs.field(default=(), repr=False, kw_only=True)

    @property
    def space(self) -> str:
        """The kind of its actions: ``"continuous"``, ``"discrete"`` or ``"hybrid"``."""
        if self.continuous and self.discrete:
            return "hybrid"
        return "continuous" if self.continuous else "discrete"

    @property
    def slots(self) -> int:
        """S, the number of rows in every array of this behavior."""
        return len(self.env_index)

    @property
    def mask_size(self) -> int:
        """Columns of an action mask: the options of all discrete branches side by side."""
        return sum(self.discrete)

    def take(self, slots: NDArray[np.integer[Any]]) -> BehaviorSpec:
        """Return the behavior of these ``slots`` [R] alone, in this order, for the trainer of some of the agents."""
        env_index = self.env_index[slots]
        team = None if self.team is None else self.team[slots]
        group = None if self.group is None else self.group[slots]
        return attrs.evolve(self, env_index=env_index, team=team, group=group)


def spec_mismatch(wanted: BehaviorSpec, found: BehaviorSpec) -> str | None:
    """Describe in one line the first difference in what the agents of two behaviors see or do; None if there is none.

    ``found`` may have other types of numbers of the same kind: an observation of float64 fits one of float32.
    """
    ours = {observation.name: observation for observation in wanted.observations}
    theirs = {observation.name: observation for observation in found.observations}
    for name in {**ours, **theirs}:
        then = _form(ours.get(name))
        now = _form(theirs.get(name))
        if then != now:
            return f"observation {name!r} is {_form_in_words(now)} instead of {_form_in_words(then)}"
    for name, observation in ours.items():
        # Networks divide images of integers by it: another one changes what a policy sees.
        scale = observation.full_scale
        other_scale = theirs[name].full_scale
        if not np.array_equal(scale, other_scale):
            return f"observation {name!r} has numbers up to {other_scale.max():g} instead of {scale.max():g}"
    for field in ("continuous", "discrete"):
        before = getattr(wanted, field)
        after = getattr(found, field)
        if before != after:
            return f"{field} actions are {after} instead of {before}"
    for field in ("low", "high"):
        before = getattr(wanted, field)
        after = getattr(found, field)
        if not np.allclose(before, after):
            return f"the bound {field!r} of actions is {after} instead of {before}"
    return None


def _form(observation: ObservationSpec | None) -> tuple[tuple[int, ...], str] | None:
    """The shape of an observation and the kind of its numbers; None if there is no such observation."""
    if observation is None:
        return None
    return observation.shape, observation.dtype.kind


def _form_in_words(form: tuple[tuple[int, ...], str] | None) -> str:
    if form is None:
        return "not there"
    shape, kind = form
    numbers = "real numbers" if kind == "f" else "integers"
    return f"{list(shape)} {numbers}"


def checked_observations(
    behavior: BehaviorSpec, observations: Mapping[str, ArrayLike] | ArrayLike
) -> dict[str, NDArray[Any]]:
    """Return the observations of R rows by name, each [R, *shape] of its own type.

    An array alone is the observation of a behavior that has only one. Raises ValueError for what does not fit.
    """
    specs = {spec.name: spec for spec in behavior.observations}
    names = list(specs)
    if not isinstance(observations, Mapping):
        if len(names) > 1:
            listed = ", ".join(map(repr, names))
            raise ValueError(f"behavior {behavior.name!r} has {len(names)} observations; give a mapping with {listed}")
        observations = {names[0]: observations}
    for name in observations:
        if name not in specs:
            suggestion = did_you_mean(name, names)
            raise ValueError(f"unknown observation {name!r}{suggestion}; there are {', '.join(names)}")
    for name in names:
        if name not in observations:
            raise ValueError(f"observation {name!r} is missing")
    arrays = {}
    rows = {}
    for name, spec in specs.items():
        array = _checked(spec, observations[name])
        arrays[name] = array
        rows[name] = len(array)
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{name!r} has {count}" for name, count in rows.items())
        raise ValueError(f"the observations must have equally many rows: {counts}")
    return arrays


def _checked(spec: ObservationSpec, values: ArrayLike) -> NDArray[Any]:
    """An observation [R, *shape] of the type of ``spec``. Raises ValueError if it does not fit."""
    array = np.asarray(values)
    shape = spec.shape
    if array.ndim == 0 or array.shape[1:] != shape:
        sizes = ", ".join(["rows", *map(str, shape)])
        hint = ""
        if spec.kind == "one_hot" and array.dtype.kind in "iu":
            hint = "; it has indicators: 1 in the column of a choice, 0 in the others"
        elif array.shape == shape:
            hint = "; of a single row, give array[None]"
        raise ValueError(f"observation {spec.name!r} has shape {list(array.shape)} and must have [{sizes}]{hint}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"observation {spec.name!r} has type {array.dtype} and must have {spec.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(spec.dtype, copy=False)
    if spec.dtype.kind == "f":
        good = np.isfinite(cast)
        problem = "is not finite"
    else:
        # A cast wraps 300 to 44 in a uint8 without a word, so every value must survive it.
        good = cast == array
        problem = f"is not a value of {spec.dtype}"
    if not good.all():
        place = tuple(map(int, np.argwhere(~good)[0]))
        raise ValueError(f"observation {spec.name!r}: {array[place]} in row {place[0]} {problem}")
    return cast
