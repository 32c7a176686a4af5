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

Bools = NDArray[np.bool_]


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
        first_episodes = np.zeros(1, np.int64)
        self._batches = environment.reset(EpisodeSeeds(0), first_episodes)
        waiting = [batch.needs_action for batch in self._batches.values()]
        at_once = all(needs_action is None for needs_action in waiting)
        self.metadata = {"name": name, "render_modes": [], "is_parallelizable": at_once}
        self.render_mode = None
        self._seats: dict[str, tuple[BehaviorSpec, int]] = {}  # behavior and slot of each agent
        self._masked: set[str] = set()  # behaviors that observe their masks
        self.observation_spaces = {}
        self.action_spaces = {}
        for spec in environment.behaviors.values():
            has_mask = self._batches[spec.name].action_mask is not None
            masked = has_mask and len(spec.discrete) == 1
            if masked:
                self._masked.add(spec.name)
            for slot in range(spec.slots):
                agent = f"{spec.name}_{slot}"
                self._seats[agent] = (spec, slot)
                self.observation_spaces[agent] = _observation_space(spec, masked)
                self.action_spaces[agent] = _action_space(spec)
        self.possible_agents = list(self._seats)
        self.agents: list[str] = []

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
        episodes = np.array([self._episode])
        self._batches = self._environment.reset(self._seeds, episodes)
        self.agents = self.possible_agents[:]
        self._results = {agent: self._result(agent) for agent in self.agents}
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
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
        over = [agent for agent in self.agents if self.terminations[agent] or self.truncations[agent]]
        return [agent for agent in self.agents if agent not in over]

    def _choosers(self) -> list[str]:
        return [agent for agent in self._living() if self._results[agent].needs_action]

    def _move(self) -> None:
        """Move the environment with what was chosen; agents without an action take any that is allowed."""
        actions: dict[str, Actions] = {}
        for name, spec in self._environment.behaviors.items():
            agents = [f"{name}_{slot}" for slot in range(spec.slots)]
            choices = [self._chosen.get(agent) for agent in agents]
            masks = self._batches[name].action_mask
            actions[name] = _actions(spec, choices, masks)
        self._batches = self._environment.step(actions)
        self._chosen = {}
        for agent in self._living():
            result = self._result(agent)
            self._results[agent] = result
            self.rewards[agent] += result.reward
            self.terminations[agent] = result.terminated
            self.truncations[agent] = result.truncated
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
            for name, numbers in (batch.final_info or {}).items():
                info[name] = float(numbers[row])
        if batch.group_reward is not None:
            info["group_reward"] = float(batch.group_reward[slot])
        values = {}
        for part in spec.observations:
            # A copy: the arrays of a batch are filled again by the next step.
            value = observations[part.name][row]
            values[part.name] = value.astype(part.dtype)
        observation: Any = values
        if len(values) == 1:
            (observation,) = values.values()
        mask = _allowed(None if masks is None else masks[row], spec)
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
    parts: dict[str, spaces.Space[Any]] = {}
    for observation in spec.observations:
        parts[observation.name] = _box(observation)
    if masked:
        parts[ACTION_MASK] = spaces.Box(0, 1, (spec.mask_size,), np.int8)
    elif len(parts) == 1:
        return next(iter(parts.values()))
    return spaces.Dict(parts)


def _box(spec: ObservationSpec) -> spaces.Box:
    default_low = -np.inf
    default_high = np.inf
    if spec.dtype == np.uint8:
        default_low = 0
        default_high = 255
    elif spec.kind == "one_hot":
        default_low = 0
        default_high = 1
    lowest = default_low if spec.low is None else spec.low
    highest = default_high if spec.high is None else spec.high
    low = np.broadcast_to(lowest, spec.shape).astype(spec.dtype)
    high = np.broadcast_to(highest, spec.shape).astype(spec.dtype)
    return spaces.Box(low, high, spec.shape, spec.dtype)


def _action_space(spec: BehaviorSpec) -> spaces.Space[Any]:
    parts: list[spaces.Space[Any]] = []
    if len(spec.discrete) == 1:
        parts.append(spaces.Discrete(spec.discrete[0]))
    elif spec.discrete:
        parts.append(spaces.MultiDiscrete(list(spec.discrete)))
    if spec.continuous:
        parts.append(spaces.Box(spec.low, spec.high, (spec.continuous,), np.float32))
    return parts[0] if len(parts) == 1 else spaces.Tuple(parts)


def _actions(spec: BehaviorSpec, choices: list[Any], masks: Bools | None) -> Actions:
    zeros = np.zeros(spec.continuous)
    nearest_to_zero = np.clip(zeros, spec.low, spec.high)
    continuous = np.tile(nearest_to_zero, (spec.slots, 1))
    branches = len(spec.discrete)
    discrete = np.zeros((spec.slots, branches), np.int64)
    for slot, action in enumerate(choices):
        if action is None:
            mask = _allowed(None if masks is None else masks[slot], spec)
            discrete[slot] = [branch.argmax() for branch in _split(mask, spec)]
        elif spec.discrete and spec.continuous:
            discrete[slot], continuous[slot] = action
        elif spec.discrete:
            discrete[slot] = action
        else:
            continuous[slot] = action
    return Actions(
        continuous.astype(np.float32) if spec.continuous else None,
        discrete if spec.discrete else None,
    )


def _allowed(mask: Bools | None, spec: BehaviorSpec) -> NDArray[np.int8]:
    """Return a mask [mask_size] as zeros and ones; ones without a mask."""
    if mask is None:
        return np.ones(spec.mask_size, np.int8)
    return mask.astype(np.int8)


def _split(mask: NDArray[np.int8], spec: BehaviorSpec) -> tuple[NDArray[np.int8], ...]:
    """Return the part of each branch, as MultiDiscrete takes masks."""
    if not spec.discrete:
        return ()
    ends = np.cumsum(spec.discrete)
    return tuple(np.split(mask, ends[:-1]))
