"""Environments of rlcore as environments of PettingZoo, for libraries and tests that take those.

:func:`parallel_env` is for environments in which all agents act at once, :func:`aec_env` for all, also those that are
played in turns. Both take an environment with one copy (``num_envs`` is 1)::

    from rlcore_pettingzoo.adapters import aec_env

    game = aec_env(TinyCorridor(1))

An agent is called ``BEHAVIOR_NUMBER``. Its only observation is a Box; several are a Dict. Where the environment has
action masks, the observation is a Dict with ``action_mask``. An action is a Discrete, a MultiDiscrete or a Box, and a
Tuple of both if it has discrete and real parts.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pettingzoo
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo.utils import aec_to_parallel

from rlcore import Actions, BehaviorSpec, Environment, EpisodeSeeds, ObservationSpec
from rlcore_pettingzoo.arrays import ACTION_MASK


@attrs.frozen
class _Result:
    """What one agent receives from a step."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    needs_action: bool
    info: dict[str, Any]


class AecAdapter(pettingzoo.AECEnv):  # type: ignore[misc]
    """An environment of rlcore as one in which agents act one after another.

    Agents that act in one step choose in the order of ``possible_agents``; the environment moves when all have chosen.
    An agent whose episode has ended stays out.

    Attributes:
        possible_agents: All agents, ordered by behavior and slot.
        agents: The agents whose episode is open, and those whose last turn, without an action, is to come.
        metadata: Name and render modes, of which there are none.
        render_mode: None: nothing is drawn.
        rewards: Reward of each agent in the last step.
        terminations: Whether the task ended the episode of each agent.
        truncations: Whether the episode of each agent was cut off.
        infos: The info of each agent.
        agent_selection: The agent that acts next.
    """

    def __init__(self, environment: Environment, name: str = "rlcore_v0") -> None:
        """Adapt an environment of one copy. Raises ValueError for several copies."""
        super().__init__()
        if environment.num_envs != 1:
            raise ValueError(f"needs an environment with one copy, not {environment.num_envs}")
        self._environment = environment
        self._seeds = EpisodeSeeds(secrets.randbelow(2**31))
        self._episode = -1
        self._batches = environment.reset(EpisodeSeeds(0), np.zeros(1, np.int64))
        at_once = all(batch.needs_action is None for batch in self._batches.values())
        self.metadata = {"name": name, "render_modes": [], "is_parallelizable": at_once}
        self.render_mode = None
        specs = environment.behaviors.values()
        self._seats = {f"{spec.name}_{slot}": (spec, slot) for spec in specs for slot in range(spec.slots)}
        self.possible_agents = list(self._seats)
        self.agents: list[str] = []
        masked = {name for name, batch in self._batches.items() if batch.action_mask is not None}
        self._masked = {spec.name for spec in specs if spec.name in masked and len(spec.discrete) == 1}
        self.observation_spaces = {
            agent: _observation_space(spec, spec.name in self._masked) for agent, (spec, _) in self._seats.items()
        }
        self.action_spaces = {agent: _action_space(spec) for agent, (spec, _) in self._seats.items()}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return what an agent sees."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return what an agent does."""
        return self.action_spaces[agent]

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Start an episode: with a seed, the first of this seed, else the next one. ``options`` has no effect."""
        if seed is not None:
            self._seeds = EpisodeSeeds(seed)
            self._episode = -1
        self._episode += 1
        self._batches = self._environment.reset(self._seeds, np.array([self._episode]))
        self.agents = self.possible_agents[:]
        self._results = {agent: self._result(agent) for agent in self.agents}
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0.0) for _ in range(2))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos = {agent: result.info for agent, result in self._results.items()}
        self._chosen: dict[str, Any] = {}
        self._waiting = self._choosers()
        while not self._waiting:
            self._move()
        self.agent_selection = self._waiting.pop(0)

    def observe(self, agent: str) -> Any:
        """Return what an agent saw last."""
        return self._results[agent].observation

    def step(self, action: Any) -> None:
        """Take the action of the agent whose turn it is; None from an agent whose episode is over."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self._chosen[agent] = action
        while not self._waiting and self._living():
            self._move()
        self._accumulate_rewards()
        if self._waiting:
            self.agent_selection = self._waiting.pop(0)
        self._deads_step_first()

    def _living(self) -> list[str]:
        return [agent for agent in self.agents if not (self.terminations[agent] or self.truncations[agent])]

    def _choosers(self) -> list[str]:
        return [agent for agent in self._living() if self._results[agent].needs_action]

    def _move(self) -> None:
        """Move the environment with what was chosen; agents without an action take any that is allowed."""
        actions: dict[str, Actions] = {}
        for name, spec in self._environment.behaviors.items():
            choices = [self._chosen.get(f"{name}_{slot}") for slot in range(spec.slots)]
            actions[name] = _actions(spec, choices, self._batches[name].action_mask)
        self._batches = self._environment.step(actions)
        self._chosen = {}
        for agent in self._living():
            result = self._results[agent] = self._result(agent)
            self.rewards[agent] += result.reward
            self.terminations[agent], self.truncations[agent] = result.terminated, result.truncated
            self.infos[agent] = result.info
        self._waiting = self._choosers()

    def _result(self, agent: str) -> _Result:
        spec, slot = self._seats[agent]
        batch = self._batches[spec.name]
        row = slot
        observations = batch.observations
        masks = batch.action_mask
        info: dict[str, Any] = {}
        if slot in batch.ended:
            assert batch.final_observations is not None
            row = int(np.searchsorted(batch.ended, slot))
            observations = batch.final_observations
            masks = batch.final_action_mask
            info = {name: float(numbers[row]) for name, numbers in (batch.final_info or {}).items()}
        if batch.group_reward is not None:
            info["group_reward"] = float(batch.group_reward[slot])
        mask = _allowed(None if masks is None else masks[row], spec)
        values = {each.name: observations[each.name][row].astype(each.dtype) for each in spec.observations}
        observation: Any = values if len(values) > 1 else next(iter(values.values()))
        if spec.name in self._masked:
            observation = {**values, ACTION_MASK: mask}
        elif batch.action_mask is not None:
            info[ACTION_MASK] = _split(mask, spec)
        lost = batch.aborted is not None and bool(batch.aborted[slot])
        return _Result(
            observation,
            float(batch.reward[slot]),
            bool(batch.terminated[slot]),
            bool(batch.truncated[slot]) or lost,
            batch.needs_action is None or bool(batch.needs_action[slot]),
            info,
        )


aec_env = AecAdapter


def parallel_env(environment: Environment, name: str = "rlcore_v0") -> pettingzoo.ParallelEnv:
    """An environment of rlcore in which all agents act at once, as a ParallelEnv."""
    return aec_to_parallel(AecAdapter(environment, name))


def _observation_space(spec: BehaviorSpec, masked: bool) -> spaces.Space[Any]:
    parts: dict[str, spaces.Space[Any]] = {each.name: _box(each) for each in spec.observations}
    if masked:
        parts[ACTION_MASK] = spaces.Box(0, 1, (spec.mask_size,), np.int8)
    elif len(parts) == 1:
        return next(iter(parts.values()))
    return spaces.Dict(parts)


def _box(spec: ObservationSpec) -> spaces.Box:
    low, high = -np.inf, np.inf
    if spec.dtype == np.uint8:
        low, high = 0, 255
    elif spec.kind == "one_hot":
        low, high = 0, 1
    lowest = np.broadcast_to(low if spec.low is None else spec.low, spec.shape)
    highest = np.broadcast_to(high if spec.high is None else spec.high, spec.shape)
    return spaces.Box(lowest.astype(spec.dtype), highest.astype(spec.dtype), spec.shape, spec.dtype)


def _action_space(spec: BehaviorSpec) -> spaces.Space[Any]:
    parts: list[spaces.Space[Any]] = []
    if len(spec.discrete) == 1:
        parts.append(spaces.Discrete(spec.discrete[0]))
    elif spec.discrete:
        parts.append(spaces.MultiDiscrete(list(spec.discrete)))
    if spec.continuous:
        parts.append(spaces.Box(spec.low, spec.high, (spec.continuous,), np.float32))
    return parts[0] if len(parts) == 1 else spaces.Tuple(parts)


def _actions(spec: BehaviorSpec, choices: list[Any], masks: NDArray[np.bool_] | None) -> Actions:
    continuous: NDArray[np.float32] = np.tile(np.clip(np.zeros(spec.continuous), spec.low, spec.high), (spec.slots, 1))
    discrete: NDArray[np.int64] = np.zeros((spec.slots, len(spec.discrete)), np.int64)
    for slot, action in enumerate(choices):
        if action is None:
            allowed = _split(_allowed(None if masks is None else masks[slot], spec), spec)
            discrete[slot] = [branch.argmax() for branch in allowed]
        elif spec.discrete and spec.continuous:
            discrete[slot], continuous[slot] = action
        elif spec.discrete:
            discrete[slot] = action
        else:
            continuous[slot] = action
    return Actions(continuous.astype(np.float32) if spec.continuous else None, discrete if spec.discrete else None)


def _allowed(mask: NDArray[np.bool_] | None, spec: BehaviorSpec) -> NDArray[np.int8]:
    """Return a mask [mask_size] as zeros and ones; ones without a mask."""
    return np.ones(spec.mask_size, np.int8) if mask is None else mask.astype(np.int8)


def _split(mask: NDArray[np.int8], spec: BehaviorSpec) -> tuple[NDArray[np.int8], ...]:
    """Return the part of each branch, as MultiDiscrete takes masks."""
    return tuple(np.split(mask, np.cumsum(spec.discrete)[:-1])) if spec.discrete else ()
