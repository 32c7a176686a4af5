"""The arrays of one behavior over all environments, filled one agent at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, ObservationSpec, UnsupportedSpace
from rlcore_gymnasium.episode_info import Wanted, final_info
from rlcore_gymnasium.spaces import ActionCodec, MismatchedValue, ObservationCodec
from rlcore_gymnasium.spaces.values import action_mask, final_mask, flag, refuse_wrong_reward
from rlcore_pettingzoo.agents import Cast

ACTION_MASK = "action_mask"  # the entry of a Dict observation, or of an info, with the allowed actions


Bools = NDArray[np.bool_]


class BehaviorArrays:
    """The rows of the agents of one behavior. With A agents in an environment, slot ``env * A + a`` is agent a.

    A step calls :meth:`begin`, then :meth:`turn` or :meth:`end` for the agents that receive something, then
    :meth:`batch`. :meth:`first` and :meth:`waits` start the episode of an agent.
    """

    def __init__(self, cast: Cast, num_envs: int, game: str, reported: Wanted) -> None:
        agents = len(cast.agents)
        slots = num_envs * agents
        self.agents = agents
        self.name = cast.behavior
        example = cast.agents[0]  # the spaces of all are equal
        observed, mask_space = _without_mask(example.observation_space)
        self._observing = ObservationCodec.of(observed, game)
        self._observing.say_what_is_left_out()
        self._acting = ActionCodec.of(example.action_space, game)
        env_index = np.repeat(np.arange(num_envs), agents)
        of_one_env = np.array(cast.teams, np.int64)
        teams = np.tile(of_one_env, num_envs)
        self.spec = self._acting.behavior(cast.behavior, self._observing.specs, env_index, teams)
        mask_size = self.spec.mask_size
        if mask_space is not None and (mask_space.shape != (mask_size,) or not self.spec.discrete):
            raise UnsupportedSpace(
                f"{game}: the mask {mask_space} of behavior {self.name!r} does not fit its actions; expected one entry "
                f"for each of {mask_size} options"
            )
        self._masked_by_observation = mask_space is not None
        self._mask: Bools | None = None  # [S, mask_size] if agents have masks
        self._final_mask: Bools | None = None  # as large
        self._observations = self._observing.buffers(slots)
        self._write = self._observing.row_writer(self._observations)
        # Written before the next reset, because a game may reuse the array that it returned.
        self._finals = self._observing.buffers(slots)  # the first K rows: of the episodes that ended last
        self._write_final = self._observing.row_writer(self._finals)
        self._reward: NDArray[np.float32] = np.zeros(slots, np.float32)
        self._terminated = np.zeros(slots, np.bool_)
        self._truncated = np.zeros(slots, np.bool_)
        self._needs_action = np.zeros(slots, np.bool_)
        self._ended: list[int] = []
        self._reported = reported
        self._final_infos: list[dict[str, float]] = []  # of the episodes in `_ended`
        self._actions: Any = ()  # the action of each slot
        # A row that no game has filled has values within its bounds.
        self._blank = {}
        for spec in self._observing.specs:
            low = -np.inf if spec.low is None else spec.low
            high = np.inf if spec.high is None else spec.high
            self._blank[spec.name] = np.clip(0, low, high)

    # ------------------------------------------------------------ an observation that all agents of a game share

    def add_observation(self, spec: ObservationSpec) -> None:
        """Add an observation that :meth:`show_all` writes."""
        observations = (*self.spec.observations, spec)
        self.spec = attrs.evolve(self.spec, observations=observations)
        shape = (self.spec.slots, *spec.shape)
        self._observations[spec.name] = np.zeros(shape, spec.dtype)
        self._finals[spec.name] = np.zeros(shape, spec.dtype)

    def seen(self, env: int, name: str) -> NDArray[Any]:
        """Return the observation ``name`` of the agents of an environment, [A, *shape]."""
        first = env * self.agents
        return self._observations[name][first : first + self.agents]

    def show_all(self, env: int, name: str, value: NDArray[Any], final: bool) -> None:
        """Show ``value`` [*shape] to all agents of an environment; if it is ``final``, also where an episode ended."""
        self.seen(env, name)[:] = value
        if not final:
            return
        for row, slot in enumerate(self._ended):
            if slot // self.agents == env:
                self._finals[name][row] = value

    # ------------------------------------------------------------ a step

    def forget(self, masked_by_info: bool) -> None:
        """Start from nothing, before a reset of every environment."""
        self._clear()
        self._mask = None
        self._final_mask = None
        if self._masked_by_observation or (masked_by_info and self.spec.discrete):
            shape = (self.spec.slots, self.spec.mask_size)
            self._mask = np.ones(shape, np.bool_)
            self._final_mask = self._mask.copy()  # the first K rows

    def begin(self, actions: Actions) -> None:
        """Take the actions of all slots for a step in which no slot has received anything yet."""
        rows = self._acting.rows(actions)
        if not isinstance(rows, np.ndarray):
            self._actions = list(rows)
        elif rows.ndim == 1:  # a game computes faster with integers of Python
            self._actions = rows.tolist()
        else:
            self._actions = rows
        self._clear()

    def _clear(self) -> None:
        for array in (self._reward, self._terminated, self._truncated, self._needs_action):
            array[:] = 0
        self._ended = []
        self._final_infos = []

    def action(self, slot: int) -> Any:
        """Return the action of a slot as a value of the game's space."""
        return self._actions[slot]

    def turn(self, slot: int, observation: Any, reward: Any, info: Mapping[str, Any]) -> None:
        """Let a slot act next, and give it its reward since its last action."""
        refuse_wrong_reward(reward)
        self._reward[slot] = reward
        self.first(slot, observation, info)

    def first(self, slot: int, observation: Any, info: Mapping[str, Any]) -> None:
        """Let a slot act next, without a reward: its episode has begun."""
        self._write(slot, observation)
        self._needs_action[slot] = True
        if self._mask is not None:
            value = observation if self._masked_by_observation else info
            if ACTION_MASK not in value:
                raise MismatchedValue(f"no {ACTION_MASK!r} for an agent that acts next, although there was one before")
            mask = self._mask[slot]
            allowed = _concatenated(value[ACTION_MASK])
            mask[:] = action_mask(allowed, mask.shape)
        elif info and ACTION_MASK in info:
            raise MismatchedValue(f"an info with {ACTION_MASK!r}, which the infos of the first reset did not have")

    def waits(self, slot: int, observation: Any) -> None:
        """Show a slot, whose episode has begun, what it sees before its first turn; None for one that is not there."""
        if observation is not None:
            self._write(slot, observation)
        else:
            for name, blank in self._blank.items():
                self._observations[name][slot] = blank
        if self._mask is not None:
            self._mask[slot] = True

    def end(
        self, slot: int, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Mapping[str, Any] | None
    ) -> None:
        """End the episode of a slot, which then waits until the next one begins."""
        refuse_wrong_reward(reward)
        terminated = flag(terminated, "terminated")
        truncated = flag(truncated, "truncated")
        self._reward[slot] = reward
        self._terminated[slot] = terminated
        self._truncated[slot] = truncated and not terminated  # an episode ends in one way
        row = len(self._ended)
        if observation is None:  # a game need not show anything to an agent that is out of it
            for name, final in self._finals.items():
                final[row] = self._observations[name][slot]
        else:
            self._write_final(row, observation)
            self._write(slot, observation)
        if self._final_mask is not None:
            value = observation if self._masked_by_observation else info
            mask = None if value is None else _concatenated(value.get(ACTION_MASK))
            self._final_mask[row] = final_mask(mask, (self.spec.mask_size,), self.spec.discrete)
        self._ended.append(slot)
        columns = final_info([info], self._reported) or {}  # at once: a game may reuse the info at its next reset
        numbers = {name: float(column[0]) for name, column in columns.items()}
        self._final_infos.append(numbers)

    def batch(self) -> AgentBatch:
        """Return what all slots received."""
        ended = np.array(self._ended, np.intp)
        order = np.argsort(ended)  # the batch has slots in ascending order, games end episodes in any
        batch = AgentBatch(
            self._observations,
            self._reward,
            self._terminated,
            self._truncated,
            ended[order],
            needs_action=None if self._needs_action.all() else self._needs_action,
            action_mask=self._mask,
        )
        if order.size:
            batch.final_observations = {name: array[order] for name, array in self._finals.items()}
            infos = [self._final_infos[row] for row in order]
            batch.final_info = final_info(infos, self._reported)
            if self._final_mask is not None:
                batch.final_action_mask = self._final_mask[order]
        return batch


def _without_mask(space: spaces.Space[Any]) -> tuple[spaces.Space[Any], spaces.Space[Any] | None]:
    """Return what an agent sees, and the space of its mask if that is an entry of the observation."""
    if not isinstance(space, spaces.Dict) or ACTION_MASK not in space.spaces:
        return space, None
    parts = dict(space.spaces)
    mask = parts.pop(ACTION_MASK)
    return spaces.Dict(parts), mask


def _concatenated(mask: Any) -> Any:
    """A mask with one part for each branch, as Gymnasium's MultiDiscrete takes masks, as one array."""
    return np.concatenate(mask) if isinstance(mask, tuple) else mask
