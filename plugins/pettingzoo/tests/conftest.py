"""Small games of PettingZoo with early deaths, late arrivals and rewards between turns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pettingzoo
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Space

from rlcore import EnvironmentSettings
from rlcore_pettingzoo.base import PettingZooEnvironment
from rlcore_pettingzoo.environment import make_environment
from rlcore_pettingzoo.settings import BehaviorAgents, PettingZooSettings, WrapperSettings


class Fading(pettingzoo.ParallelEnv):
    """Agents with real actions that die at different times; ``late`` ones come at the second step.

    An agent sees the time and a number, and gets its action as reward. An agent dies at a random step from 2 to 7, and
    all are truncated after 6 steps, also one that dies then.
    """

    metadata = {"name": "fading_v0", "render_modes": []}

    def __init__(self, agents: int = 3, late: int = 0, wrong: str = "") -> None:
        self.possible_agents = [f"ghost_{number}" for number in range(agents)]
        self.agents: list[str] = []
        self.late, self.wrong = late, wrong
        self.space = Box(-10.0, 10.0, (2,))
        self.actions = Box(-1.0, 1.0, (1,))

    def observation_space(self, agent: str) -> Space[Any]:
        return self.space

    def action_space(self, agent: str) -> Space[Any]:
        return self.actions

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.generator = np.random.default_rng(seed)
        self.time = 0
        self.deaths = dict(
            zip(self.possible_agents, self.generator.integers(2, 8, len(self.possible_agents)), strict=True)
        )
        self.agents = self.possible_agents[: len(self.possible_agents) - self.late]
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, ...]:
        assert set(actions) == set(self.agents)
        self.time += 1
        rewards = {agent: float(actions[agent][0]) for agent in self.agents}
        terminated = {agent: bool(self.deaths[agent] == self.time) for agent in self.agents}
        truncated = dict.fromkeys(self.agents, self.time == 6)
        infos: dict[str, Any] = {agent: {"age": self.time} for agent in self.agents}
        seen = self._seen()
        if self.wrong == "vanish" and self.time == 2:
            self.agents = self.agents[1:]
        if self.wrong in ("rewards", "terminations", "observations"):
            {"rewards": rewards, "terminations": terminated, "observations": seen}[self.wrong].pop(self.agents[0])
        if self.wrong == "flag":
            terminated[self.agents[0]] = "no"  # type: ignore[assignment]
        if self.wrong == "reward":
            rewards[self.agents[0]] = "1"  # type: ignore[assignment]
        if self.wrong == "raise":
            raise ZeroDivisionError("division\nby zero")
        if self.wrong == "shape":
            seen[self.agents[0]] = np.zeros(3, np.float32)
        if self.wrong == "info":
            infos[self.agents[0]] = {"age": "old"}
            terminated[self.agents[0]], truncated[self.agents[0]] = True, False
        self.agents = [agent for agent in self.agents if not (terminated.get(agent) or truncated[agent])]
        if self.wrong == "returns" and self.time == 4:
            self.agents = list(self.possible_agents)
            seen |= self._seen()
        if self.time == 1 and self.late:
            new = self.possible_agents[-self.late :]
            self.agents = self.agents + new
            seen |= {agent: self._look() for agent in new}
        return seen, rewards, terminated, truncated, infos

    def _seen(self) -> dict[str, Any]:
        return {agent: self._look() for agent in self.agents}

    def _look(self) -> Any:
        return np.array([self.time, self.generator.uniform(-1, 1)], np.float32)


class Circle(pettingzoo.AECEnv):
    """Players act in turn; a move gives the next player a random reward, and may knock a random player out.

    ``masks`` is where the allowed actions are: "observation", "info" or "". The last player has won. ``backwards``, the
    last agent begins. With ``wrong="stays"``, a dead player never leaves.
    """

    metadata = {"name": "circle_v0", "render_modes": [], "is_parallelizable": False}

    def __init__(self, players: int = 3, masks: str = "observation", wrong: str = "", backwards: bool = False) -> None:
        super().__init__()
        self.possible_agents = [f"player_{number}" for number in range(players)]
        self.masks, self.wrong, self.backwards = masks, wrong, backwards
        seen = Box(1.0, 50.0, (2,))  # zeros would be outside
        mask = Box(0, 1, (4,), np.int8)
        space = Dict(observation=seen, action_mask=mask) if masks == "observation" else seen
        self.spaces = dict.fromkeys(self.possible_agents, space)
        self.actions = {agent: Discrete(4) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> Space[Any]:
        return self.spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        return self.actions[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.generator = np.random.default_rng(seed)
        self.agents = self.possible_agents[::-1] if self.backwards else self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.time = 1
        self.agent_selection = self.agents[0]
        self._draw_mask()

    def _draw_mask(self) -> None:
        self.mask = np.zeros(4, np.int8)
        self.mask[self.generator.integers(4)] = 1
        self.mask[self.generator.integers(4)] = 1
        if self.masks == "info" and self.agents:
            self.infos[self.agent_selection] = {"action_mask": self.mask}

    def observe(self, agent: str) -> Any:
        seen = np.array([self.time, 1 + self.possible_agents.index(agent)], np.float32)
        if self.masks != "observation":
            return seen
        mask = self.mask if agent == self.agent_selection else np.zeros(4, np.int8)
        return {"observation": seen, "action_mask": mask}

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            if self.wrong != "stays":
                self._was_dead_step(action)
                if self.agents and not self.terminations[self.agent_selection]:
                    self._draw_mask()
            return
        assert isinstance(action, int)
        assert self.masks == "" or self.mask[action]
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self.time += 1
        following = self.agents[(self.agents.index(agent) + 1) % len(self.agents)]
        self.rewards[following] += float(self.generator.integers(1, 5))
        self.rewards[agent] += 0.5 * action
        if self.generator.random() < 0.3:
            unlucky = self.agents[self.generator.integers(len(self.agents))]
            self.terminations[unlucky] = True
            self.rewards[unlucky] -= 10.0
            self.infos[unlucky] = {"place": len(self.agents)}
            left = [each for each in self.agents if not self.terminations[each]]
            if len(left) == 1:
                self.terminations[left[0]] = True
                self.infos[left[0]] = {"place": np.int64(1)}
            while self.terminations[following] and left and following not in left:
                following = self.agents[(self.agents.index(following) + 1) % len(self.agents)]
        self.agent_selection = following
        self._accumulate_rewards()
        self._deads_step_first()
        self._draw_mask()

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def zoo_games(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Make ``zoo_games:fading`` and ``zoo_games:circle`` names that ``environment.id`` may have."""
    module = ModuleType("zoo_games")
    module.fading, module.circle = Fading, Circle  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "zoo_games", module)
    return module


@pytest.fixture
def make() -> Callable[..., PettingZooEnvironment]:
    """Create the environment of a run: ``make("tictactoe_v3", 2, arguments={...})``."""

    def make(
        env_id: str | None,
        num_envs: int = 2,
        names: tuple[str, ...] = ("Agent",),
        behaviors: dict[str, dict[str, Any]] | None = None,
        wrappers: list[Any] | None = None,
        parameters: tuple[str, ...] = (),
        info: Any = None,
        **options: Any,
    ) -> PettingZooEnvironment:
        run = SimpleNamespace(
            behavior_names=names,
            num_envs=num_envs,
            purpose="train",
            first_env=0,
            video=None,
            config=SimpleNamespace(environment_parameters=dict.fromkeys(parameters)),
        )
        mapping = None if behaviors is None else {name: BehaviorAgents(**block) for name, block in behaviors.items()}
        around = [WrapperSettings(**each) if isinstance(each, dict) else each for each in wrappers or []]
        settings = PettingZooSettings(behaviors=mapping, wrappers=around, **options)
        return make_environment(EnvironmentSettings(id=env_id, options=settings, info=info), run)

    return make
