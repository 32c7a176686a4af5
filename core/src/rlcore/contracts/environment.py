"""The environment contract: N environments stepped together, everything an array over slots.

A *slot* is one row of a behavior's arrays: the place of one live agent. With one agent each, slot i is
environment i.

Shapes: S slots, N environments, K rows whose episode ended in this step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore.contracts.seeding import EpisodeSeeds
from rlcore.errors import ConfigError, did_you_mean

ObservationKind = Literal["vector", "image", "one_hot", "entities"]
"""How a network reads an observation; see :class:`ObservationSpec`."""
Parameters = Mapping[str, NDArray[np.float64]]
"""Values of environment parameters by name: [N], one for each environment."""


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
        largest = np.minimum(most if self.high is None else self.high, most)
        of_channels = np.broadcast_to(largest, self.shape).reshape(-1, self.shape[-1]).max(axis=0)
        # A channel that is always zero has nothing to scale.
        return np.where(of_channels > 0, of_channels, 1).astype(np.float32)

    @kind.validator
    def _is_matrix(self, attribute: attrs.Attribute[Any], kind: ObservationKind) -> None:
        if kind == "entities" and (len(self.shape) != 2 or self.goal):
            problem = "cannot be a goal" if self.goal else f"have shape {list(self.shape)}, not [entities, numbers]"
            raise ValueError(f"observation {self.name!r}: entities {problem}")

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
    def slots(self) -> int:
        """S, the number of rows in every array of this behavior."""
        return len(self.env_index)

    @property
    def mask_size(self) -> int:
        """Columns of an action mask: the options of all discrete branches side by side."""
        return sum(self.discrete)

    def take(self, slots: NDArray[np.integer[Any]]) -> BehaviorSpec:
        """Return the behavior of these ``slots`` [R] alone, in this order, for the trainer of some of the agents."""
        team, group = (None if column is None else column[slots] for column in (self.team, self.group))
        return attrs.evolve(self, env_index=self.env_index[slots], team=team, group=group)


def spec_mismatch(wanted: BehaviorSpec, found: BehaviorSpec) -> str | None:
    """Describe in one line the first difference in what the agents of two behaviors see or do; None if there is none.

    ``found`` may have other types of numbers of the same kind: an observation of float64 fits one of float32.
    """
    ours = {o.name: (o.shape, o.dtype.kind) for o in wanted.observations}
    theirs = {o.name: (o.shape, o.dtype.kind) for o in found.observations}
    for name in {**ours, **theirs}:
        if ours.get(name) != theirs.get(name):
            return f"observation {name!r} is {_shown(theirs.get(name))} instead of {_shown(ours.get(name))}"
    spans = {o.name: o.full_scale for o in found.observations}
    for o in wanted.observations:
        # Networks divide images of integers by it: another one changes what a policy sees.
        if not np.array_equal(o.full_scale, spans[o.name]):
            now, then = (f"{span.max():g}" for span in (spans[o.name], o.full_scale))
            return f"observation {o.name!r} has numbers up to {now} instead of {then}"
    for what in ("continuous", "discrete"):
        if getattr(wanted, what) != getattr(found, what):
            return f"{what} actions are {getattr(found, what)} instead of {getattr(wanted, what)}"
    for what in ("low", "high"):
        if not np.allclose(getattr(wanted, what), getattr(found, what)):
            return f"the bound {what!r} of actions is {getattr(found, what)} instead of {getattr(wanted, what)}"
    return None


def _shown(observation: tuple[tuple[int, ...], str] | None) -> str:
    if observation is None:
        return "not there"
    shape, kind = observation
    return f"{list(shape)} {'real numbers' if kind == 'f' else 'integers'}"


@attrs.define(eq=False)
class Actions:
    """The next action of every slot. Rows that need no action are present and ignored.

    Attributes:
        continuous: [S, continuous] real parts in the environment's own units; None if the behavior has none.
        discrete: [S, branches] index of the chosen option of each branch, from 0; None if the behavior has no branches.
    """

    continuous: NDArray[np.float32] | None = None
    discrete: NDArray[np.int64] | None = None

    def take(self, slots: NDArray[np.integer[Any]]) -> Actions:
        """Return the actions of these ``slots`` [R], in this order, as copies."""
        return Actions(*(None if part is None else part[slots] for part in (self.continuous, self.discrete)))

    @classmethod
    def joined(cls, parts: Iterable[tuple[NDArray[np.integer[Any]], Actions]]) -> Actions:
        """Join the actions of S slots from ``parts``, each with its slots and their actions.

        Every slot is in exactly one part: together the parts have the slots 0 to S - 1.
        """
        parts = list(parts)
        whole: dict[str, NDArray[Any]] = {}
        for name in ("continuous", "discrete"):
            arrays = [(slots, array) for slots, part in parts if (array := getattr(part, name)) is not None]
            if arrays:
                first = arrays[0][1]
                count = sum(len(slots) for slots, _ in arrays)
                whole[name] = np.empty((count, *first.shape[1:]), first.dtype)
            for slots, array in arrays:
                whole[name][slots] = array
        return cls(**whole)


@attrs.define(eq=False)
class AgentBatch:
    """The data that the agents of one behavior receive after one environment step, for S slots.

    Same-step autoreset: where ``terminated`` or ``truncated`` is set, the row of ``observations`` already holds the
    first observation of the next episode, and ``final_observations`` has the last one of the ended episode. An agent
    whose episode ends before those of others in its environment may wait for them: it needs no action, its observation
    is any valid one, and its flags are set only in the step in which its episode ended.

    A slot whose transition stays open gets no reward: rlcore takes a reward when the transition closes, which is when
    the agent acts next or its episode ends. The environment adds up what the agent gets until then.

    The arrays belong to the environment and are valid until its next ``step`` or ``reset``: copy what is to be kept.

    Attributes:
        observations: Observations by name, each [S, *shape].
        reward: [S] sum of the rewards since the slot's last action; 0 in rows outside ``transition_closed``.
        terminated: [S] the episode ended by the task's own rule; its last transition has no next value.
        truncated: [S] the episode was cut off, for example by a time limit: bootstrap from its final observation.
        ended: [K] rows whose episode ended, ascending. Computed from ``terminated`` and ``truncated`` if not given.
        final_observations: The last observation of each ended episode by name, each [K, *shape], rows in the order of
            ``ended``; None only if no episode ended.
        group_reward: [S] sum of the rewards of the slot's group since its last action; None: no rewards are shared.
        needs_action: [S] whether the slot acts next; None: every slot does.
        action_mask: [S, mask_size] whether each option of each discrete branch is allowed, branches side by side; None:
            every option is.
        aborted: [S] the environment was lost: the open episode is dropped, and neither terminated nor truncated; None:
            none was lost.
        final_info: Numbers that the environment reports of each ended episode by name, such as the result of a game,
            each [K], rows in the order of ``ended``; NaN for an agent without this number. None: it reports none.
        final_action_mask: [K, mask_size] whether each option is allowed at the final observation of each ended episode,
            rows in the order of ``ended``: after a time limit, trainers value what the agent could do there. A branch
            without any allowed option is wrong here too. None: every option is.
        life_lost: [S] the agent lost a life and its episode goes on; False where an episode ended. What is reported is
            of the whole episode, and trainers that know the field learn as if it had terminated here. None: nothing was
            lost.
    """

    observations: dict[str, NDArray[Any]]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    ended: NDArray[np.intp] = attrs.field()
    final_observations: dict[str, NDArray[Any]] | None = None
    group_reward: NDArray[np.float32] | None = None
    needs_action: NDArray[np.bool_] | None = None
    action_mask: NDArray[np.bool_] | None = None
    aborted: NDArray[np.bool_] | None = None
    final_info: dict[str, NDArray[np.float64]] | None = None
    final_action_mask: NDArray[np.bool_] | None = None
    life_lost: NDArray[np.bool_] | None = None

    @ended.default
    def _ended(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.terminated | self.truncated)

    @property
    def transition_closed(self) -> NDArray[np.bool_] | None:
        """Rows [S] whose transition closed in this step: the agent acts next, or its episode ended. None: all rows."""
        return None if self.needs_action is None else self.needs_action | self.terminated | self.truncated

    def take(self, slots: NDArray[np.integer[Any]]) -> AgentBatch:
        """Return the batch of these ``slots`` [R] alone, in this order, as copies: what R agents receive."""
        terminated = self.terminated[slots]
        truncated = self.truncated[slots]
        ended = np.flatnonzero(terminated | truncated)
        optional = ("group_reward", "needs_action", "action_mask", "aborted", "life_lost")
        arrays: dict[str, Any] = {name: array[slots] for name in optional if (array := getattr(self, name)) is not None}
        if ended.size:
            rows = np.searchsorted(self.ended, slots[ended])
            for name in ("final_observations", "final_info"):
                if (finals := getattr(self, name)) is not None:
                    arrays[name] = {key: array[rows] for key, array in finals.items()}
            if self.final_action_mask is not None:
                arrays["final_action_mask"] = self.final_action_mask[rows]
        observations = {name: array[slots] for name, array in self.observations.items()}
        return AgentBatch(observations, self.reward[slots], terminated, truncated, ended, **arrays)


@runtime_checkable
class Environment(Protocol):
    """N environments of one kind that step together.

    Rules, all checked by :class:`rlcore_devkit.EnvironmentConformance`:

    * ``reset`` starts an episode in every environment: environment ``c`` plays the episode numbered ``episodes[c]``
      with the seed ``seeds(c, episodes[c])``. After an automatic reset it plays the next number, with the seed of that
      number. An episode therefore does not depend on when, or in which process, it is played. If all N environments
      share one random generator, ``reset`` seeds it with ``seeds(0, episodes.sum())``.
    * ``episodes`` [N] counts up as environments start episodes; a checkpoint stores it.
    * Equal seeds, equal parameters and equal actions give equal batches. An environment that cannot keep this rule may
      have an attribute ``resume_limits``: a tuple of reasons, such as ``("workers answer in the order in which they
      finish",)``. The promise of a resume repeats them. An optional tuple ``resume_notes`` has limits of a promise that
      is exact all the same.
    * A run seeds the generators of the process, Python's ``random`` and ``numpy.random``, before it creates
      environments and before each ``reset``; checkpoints save them.

    Attributes:
        behaviors: The behaviors by name. They do not change while the environment is open, but by :class:`AddsSlots`.
        num_envs: N, the number of environments.
        episodes: [N] number of the episode that each environment is in.
    """

    behaviors: Mapping[str, BehaviorSpec]
    num_envs: int
    episodes: NDArray[np.int64]

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Start episode ``episodes[c]`` in every environment c, with the seed ``seeds(c, episodes[c])``; ``episodes``
        is [N].

        Returns a batch for each behavior, by name. The batches have zero rewards and no ended rows.
        """

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        """Move every environment once with the actions of each behavior, and return a batch for each behavior, by name.

        Every environment whose episode ends starts the next one at once.

        Raise an exception if a step fails: rlcore reports it as an :class:`~rlcore.EnvironmentFailed`. Raise
        :class:`~rlcore.EnvironmentEnded` if the environment ended by itself, which is not a failure. Either way the run
        saves what was learned before this step, and asks the environment for nothing more than ``close``.
        """

    def set_parameters(self, parameters: Parameters) -> None:
        """Set the parameters of the next episode of every environment, also of one that ``reset`` starts.

        Open episodes keep their values. ``parameters[name][c]`` is the value for environment c. A parameter that is
        not in ``parameters`` keeps its previous value. The caller owns the arrays and changes them only before it calls
        this method again: the environment may keep them, but must not write into them.

        Raises ConfigError for a name the environment does not have, with those it has.
        """

    def close(self) -> None:
        """Free what the environment holds; may be called twice.

        Under ``rlcore run`` and ``rlcore evaluate`` it may take 5 seconds; more if the environment has an attribute
        ``close_seconds``, such as the time in which a simulator may close its files.
        """


@attrs.frozen
class ParameterSampler:
    """A distribution of an environment parameter, from which an environment may draw by itself.

    Attributes:
        kind: ``uniform``, ``gaussian``, or ``multirange``, uniformly over all of several intervals together.
        numbers: Both bounds; mean and standard deviation; or both bounds of each interval, one after the other.
        seed: Seed of the random numbers, from 0 to 2**31 - 1.
    """

    kind: Literal["uniform", "gaussian", "multirange"]
    numbers: tuple[float, ...]
    seed: int


@runtime_checkable
class DrawsParameters(Protocol):
    """An environment whose agents draw values by themselves, because their episodes begin at different times.

    A run tells it the samplers of those parameters that a curriculum draws from one distribution. Values of these
    parameters that ``set_parameters`` gives are not used, and not reported.
    """

    def set_samplers(self, samplers: Mapping[str, ParameterSampler]) -> None:
        """Draw the values of these parameters, and of no others, from the next episodes on."""


@runtime_checkable
class AddsSlots(Protocol):
    """An environment in which more agents may appear than it has slots for, such as a simulator that creates agents.

    A run looks at it between two summaries. If it wants slots, the run saves a checkpoint, has it add them, makes new
    trainers that continue from what the old ones learned, and begins new episodes. This is not done in a run of several
    ranks. An environment that wraps this one, and keeps something for each slot, has both members too.

    Attributes:
        wants_slots: Whether agents have appeared that have no slot, since slots were last added.
    """

    wants_slots: bool

    def add_slots(self) -> None:
        """Give the agents that were seen without a slot one each: :attr:`Environment.behaviors` are others from now on.

        No behavior comes, goes or sees or does anything else. ``reset`` follows.
        """


@runtime_checkable
class SavesState(Protocol):
    """An environment that can save its state; checkpoints then do not end its open episodes."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state as nested mappings of numpy arrays and JSON values, which a checkpoint stores."""

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        """Continue from ``state`` and return the current batches (observations and masks; no reward).

        Raises RunStateError if the state does not fit.
        """


@runtime_checkable
class SavesRows(SavesState, Protocol):
    """An environment whose state has rows, so that a run may be resumed with another number of workers.

    Every array and every list in the state, however deep in mappings, has one row for each environment, in their
    order; lists and arrays within a row are its own. Other values are equal in all blocks of a run's environments,
    but for ``first_env``, the number of the first one.

    Attributes:
        saves_rows: Whether the state has rows.
    """

    saves_rows: bool


@runtime_checkable
class SendsSteps(Protocol):
    """An environment whose step has two halves, between which a trainer may update; ``step`` is one after the other."""

    def send(self, actions: Mapping[str, Actions]) -> None:
        """Begin a step with the actions of each behavior, without waiting.

        The latest batches are not valid any more.
        """

    def receive(self) -> dict[str, AgentBatch]:
        """Wait for the step that was sent, and return a batch for each behavior, by name."""


@runtime_checkable
class KeepsBatches(Protocol):
    """An environment whose batches can stay on a device, for trainers that read them there.

    The run then hands the actions and the batches of a step on as they are, without a look at them. It checks the
    batches of ``reset`` and ``load_state_dict``, and counts the episodes of what :meth:`played` returns.
    """

    def keep_batches(self, trainers: Sequence[Any]) -> bool:
        """Return whether batches stay on the device from now on, for these trainers, one for each of ``behaviors``.

        Called once in a training, before episodes begin. The batches, of any class, are then for these trainers alone;
        each has a method ``on_host()`` that returns it as an :class:`AgentBatch`.
        """

    def played(self) -> Mapping[str, Iterable[AgentBatch]]:
        """Return, for each behavior, the batches of all steps since the last call, in order; observations may be empty.

        Called before a run makes a summary, a checkpoint or an evaluation, and at its end.
        """


@runtime_checkable
class ReportsStats(Protocol):
    """An environment with numbers about itself for the summaries of a run."""

    def stats(self) -> Mapping[str, float]:
        """Return scalars by tag; every summary of training calls it."""


def refuse_unknown_parameters(names: Iterable[str], known: Iterable[str], environment: str) -> None:
    """Raise ConfigError for the first of the parameter ``names`` that is not in ``known``; for ``set_parameters``.

    The message lists the ``known`` names, and calls the environment ``environment``.
    """
    known = tuple(known)
    for name in names:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(
                f"{environment} has no such parameter; {has}{did_you_mean(name, known)}",
                key=("environment_parameters", name),
            )


def checked_observations(
    behavior: BehaviorSpec, observations: Mapping[str, ArrayLike] | ArrayLike
) -> dict[str, NDArray[Any]]:
    """Return the observations of R rows by name, each [R, *shape] of its own type.

    An array alone is the observation of a behavior that has only one. Raises ValueError for what does not fit.
    """
    specs = behavior.observations
    if not isinstance(observations, Mapping):
        if len(specs) > 1:
            raise ValueError(
                f"behavior {behavior.name!r} has {len(specs)} observations; give a mapping with "
                f"{', '.join(repr(spec.name) for spec in specs)}"
            )
        observations = {specs[0].name: observations}
    names = [spec.name for spec in specs]
    for name in observations:
        if name not in names:
            raise ValueError(f"unknown observation {name!r}{did_you_mean(name, names)}; there are {', '.join(names)}")
    for name in names:
        if name not in observations:
            raise ValueError(f"observation {name!r} is missing")
    found = {spec.name: _checked(spec, observations[spec.name]) for spec in specs}
    rows = {name: len(array) for name, array in found.items()}
    if len(set(rows.values())) > 1:
        shown = ", ".join(f"{name!r} has {count}" for name, count in rows.items())
        raise ValueError(f"the observations must have equally many rows: {shown}")
    return found


def _checked(spec: ObservationSpec, values: ArrayLike) -> NDArray[Any]:
    """An observation [R, *shape] of the type of ``spec``. Raises ValueError if it does not fit."""
    array = np.asarray(values)
    shape = spec.shape
    wanted = f"[rows, {', '.join(map(str, shape))}]" if shape else "[rows]"
    if array.ndim == 0 or array.shape[1:] != shape:
        hint = "; of a single row, give array[None]" if array.shape == shape else ""
        if spec.kind == "one_hot" and array.dtype.kind in "iu":
            hint = "; it has indicators: 1 in the column of a choice, 0 in the others"
        raise ValueError(f"observation {spec.name!r} has shape {list(array.shape)} and must have {wanted}{hint}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"observation {spec.name!r} has type {array.dtype} and must have {spec.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(spec.dtype, copy=False)
    good = np.isfinite(cast) if spec.dtype.kind == "f" else cast == array
    if not good.all():
        place = tuple(map(int, np.argwhere(~good)[0]))
        what = "is not finite" if spec.dtype.kind == "f" else f"is not a value of {spec.dtype}"
        raise ValueError(f"observation {spec.name!r}: {array[place]} in row {place[0]} {what}")
    return cast
