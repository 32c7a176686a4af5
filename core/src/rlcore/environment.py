"""The environment contract: N environments stepped together, everything an array over slots.

A *slot* is one row of a behavior's arrays: the place of one live agent. With one agent each, slot i is
environment i.

Shapes: S slots, N environments, K rows whose episode ended in this step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.errors import ConfigError, did_you_mean
from rlcore.seeding import EpisodeSeeds

ObservationKind = Literal["vector", "image", "one_hot"]
Parameters = Mapping[str, NDArray[np.float64]]  # by name, [N]: for each environment


@attrs.frozen
class ObservationSpec:
    """One named observation of an agent.

    ``kind`` says how a network reads it: ``vector`` (any shape, flattened, may be normalized), ``image``
    (height, width, channels) or ``one_hot`` (an indicator vector, never normalized). An image of dtype uint8 spans 0
    to 255.

    ``low`` and ``high`` are the bounds of the values: numbers or arrays that broadcast to ``shape``, infinite where
    there is no bound; None if nothing is known. A run compares the first observations with them and warns once about a
    value outside. It neither clips nor scales.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] = attrs.field(converter=np.dtype)
    kind: ObservationKind = "vector"
    low: NDArray[Any] | float | None = attrs.field(default=None, eq=False, repr=False, kw_only=True)
    high: NDArray[Any] | float | None = attrs.field(default=None, eq=False, repr=False, kw_only=True)

    size: int = attrs.field(init=False)  # number of values of one agent's observation

    @size.default
    def _size(self) -> int:
        return math.prod(self.shape)

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


@attrs.frozen(eq=False)
class BehaviorSpec:
    """The observations and actions of the agents of one behavior, and the environment of each slot.

    An action has ``continuous`` real parts, bounded by ``low``/``high`` (shape [continuous], infinite where
    unbounded), and one choice for each entry of ``discrete`` (the number of options of each branch). Both at once
    is a hybrid action.
    """

    name: str
    observations: tuple[ObservationSpec, ...]
    continuous: int = 0
    discrete: tuple[int, ...] = ()
    low: NDArray[np.float32] = attrs.field(factory=lambda: np.empty(0, np.float32))  # [continuous]
    high: NDArray[np.float32] = attrs.field(factory=lambda: np.empty(0, np.float32))  # [continuous]
    env_index: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(1, np.int64))  # [S] environment of each slot
    team: NDArray[np.int64] | None = None  # [S]; None: one team
    group: NDArray[np.int64] | None = None  # [S]; None: no rewards are shared

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
    """The next action of every slot. Rows that need no action are present and ignored."""

    continuous: NDArray[np.float32] | None = None  # [S, continuous], in the environment's own units
    discrete: NDArray[np.int64] | None = None  # [S, branches]

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
    """The data that the agents of one behavior receive after one environment step.

    Same-step autoreset: where ``terminated`` or ``truncated`` is set, the row of ``observations`` already holds the
    first observation of the next episode, and ``final_observations`` has the last one of the ended episode.

    A slot whose transition stays open gets no reward: rlcore takes a reward when the transition closes, which is when
    the agent acts next or its episode ends. The environment adds up what the agent gets until then.

    The arrays belong to the environment and are valid until its next ``step`` or ``reset``: copy what is to be kept.
    """

    observations: dict[str, NDArray[Any]]  # each [S, *shape]
    reward: NDArray[np.float32]  # [S] since the slot's last action; 0 in rows outside `transition_closed`
    terminated: NDArray[np.bool_]  # [S] the episode ended by the task's own rule
    truncated: NDArray[np.bool_]  # [S] the episode was cut off (time limit): bootstrap from the final observation
    ended: NDArray[np.intp] = attrs.field()  # [K] rows whose episode ended, ascending
    final_observations: dict[str, NDArray[Any]] | None = None  # each [K, *shape], rows in the order of `ended`
    group_reward: NDArray[np.float32] | None = None  # [S] since the slot's last action, like `reward`
    needs_action: NDArray[np.bool_] | None = None  # [S]; None: every row acts
    action_mask: NDArray[np.bool_] | None = None  # [S, mask_size], True = allowed; None: everything is
    aborted: NDArray[np.bool_] | None = (
        None  # [S] the environment was lost: its open episode is dropped, it did not terminate
    )

    @ended.default
    def _ended(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.terminated | self.truncated)

    @property
    def transition_closed(self) -> NDArray[np.bool_] | None:
        """Rows [S] whose transition closed in this step: the agent acts next, or its episode ended. None: all rows."""
        return None if self.needs_action is None else self.needs_action | self.terminated | self.truncated

    def take(self, slots: NDArray[np.integer[Any]]) -> AgentBatch:
        """Return the batch of these ``slots`` [R] alone, in this order, as copies: what R agents receive."""
        terminated, truncated = self.terminated[slots], self.truncated[slots]
        ended = np.flatnonzero(terminated | truncated)
        final = None
        if ended.size and self.final_observations is not None:
            rows = np.searchsorted(self.ended, slots[ended])
            final = {name: array[rows] for name, array in self.final_observations.items()}
        optional = ("group_reward", "needs_action", "action_mask", "aborted")
        arrays = {name: array[slots] for name in optional if (array := getattr(self, name)) is not None}
        observations = {name: array[slots] for name, array in self.observations.items()}
        return AgentBatch(observations, self.reward[slots], terminated, truncated, ended, final, **arrays)


@runtime_checkable
class Environment(Protocol):
    """N environments of one kind that step together.

    Rules, all checked by :class:`rlcore.testing.EnvironmentConformance`:

    * ``reset`` starts an episode in every environment: environment ``c`` plays the episode numbered ``episodes[c]``
      with the seed ``seeds(c, episodes[c])``. After an automatic reset it plays the next number, with the seed of that
      number. An episode therefore does not depend on when, or in which process, it is played. If all N environments
      share one random generator, ``reset`` seeds it with ``seeds(0, episodes.sum())``.
    * ``episodes`` [N] counts up as environments start episodes; a checkpoint stores it.
    * Equal seeds, equal parameters and equal actions give equal batches.
    """

    behaviors: Mapping[str, BehaviorSpec]
    num_envs: int
    episodes: NDArray[np.int64]  # [N] number of each environment's episode

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Start episode ``episodes[c]`` in every environment c; the batches have no reward and no ended rows."""
        ...

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        """Move every environment once."""
        ...

    def set_parameters(self, parameters: Parameters) -> None:
        """Set the parameters of the next episode of every environment, also of one that ``reset`` starts.

        Open episodes keep their values. ``parameters[name][c]`` is the value for environment c. A parameter that is
        not in ``parameters`` keeps its previous value. The caller owns the arrays and changes them only before it calls
        this method again: the environment may keep them, but must not write into them.

        Raises ConfigError for a name the environment does not have, with those it has.
        """
        ...

    def close(self) -> None:
        """Free what the environment holds; may be called twice."""
        ...


@runtime_checkable
class SavesState(Protocol):
    """An environment that can save its state; checkpoints then do not end its open episodes."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state as nested mappings of arrays and JSON values; see :mod:`rlcore.storage.checkpoint`."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        """Continues from ``state`` and returns the current batches (observations and masks; no reward)."""
        ...


def refuse_unknown_parameters(names: Iterable[str], known: Iterable[str], environment: str) -> None:
    """Raise ConfigError for the first of the parameter ``names`` that is not in ``known``; for ``set_parameters``.

    The message lists the ``known`` names, and calls the environment ``environment``.
    """
    known = tuple(known)
    for name in names:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(
                f"environment_parameters.{name}: {environment} has no such parameter; {has}{did_you_mean(name, known)}",
                key=("environment_parameters", name),
            )
