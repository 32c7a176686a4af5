"""Games of OpenSpiel as AEC environments of PettingZoo.

Shimmy's ``OpenSpielCompatibilityV0`` (2.0.1) counts chance moves against the length of a game, which cuts every game of
Kuhn poker off after its first action, and gives the last reward of the second player twice. Here, rewards are
differences of ``returns()``, and a game ends where OpenSpiel ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pettingzoo
import pyspiel
from gymnasium import spaces
from numpy.typing import NDArray

ACTION_MASK = "action_mask"


@cache
def game_names() -> tuple[str, ...]:
    """Return the short names of the games that OpenSpiel can load."""
    return tuple(sorted(pyspiel.registered_names()))


class OpenSpielGame(pettingzoo.AECEnv):  # type: ignore[misc]
    """A sequential or simultaneous game of OpenSpiel, with the agents ``player_0``, ``player_1``, ...

    Players see their information state if ``observation`` is ``"information_state"``, which also has what they have
    seen before, and the current observation if it is ``"observation"``; by default, the information state if the game
    has one as numbers. ``info["action_mask"]`` has the legal actions of the player whose turn it is. Chance moves are
    drawn with the seed of the reset. In a simultaneous state, players choose one after another without seeing the
    choices of others. All other arguments are parameters of the game, such as ``players=3``.
    """

    def __init__(
        self, game: str, render_mode: str | None = None, observation: str | None = None, **parameters: Any
    ) -> None:
        super().__init__()
        self.metadata = {"render_modes": ["ansi"], "name": game, "is_parallelizable": False}
        self.render_mode = render_mode
        self._game = pyspiel.load_game(game, dict(parameters))
        self._observed, shape = _tensor_of(self._game, game, observation)
        players = self._game.num_players()
        self.possible_agents = [f"player_{player}" for player in range(players)]
        self._number = {agent: player for player, agent in enumerate(self.possible_agents)}
        self._actions = self._game.num_distinct_actions()
        numbers = spaces.Box(-np.inf, np.inf, tuple(shape), np.float32)
        self.observation_spaces = dict.fromkeys(self.possible_agents, numbers)
        self.action_spaces = {agent: spaces.Discrete(self._actions) for agent in self.possible_agents}
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        self._generator = np.random.default_rng(seed)
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._returns = [0.0] * len(self.agents)
        self._chosen: list[int] = []  # by the first players of a simultaneous state
        self._state = self._game.new_initial_state()
        self._go_on()

    def step(self, action: int | None) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        nothing_allowed = np.zeros(self._actions, np.int8)
        # An agent that has acted keeps its info until its next turn: an old mask would allow old actions.
        self.infos[agent] = {ACTION_MASK: nothing_allowed}
        assert action is not None
        if self._state.is_simultaneous_node():
            self._chosen.append(int(action))
            if self._complete_choices():
                self._state.apply_actions(self._chosen)
                self._chosen = []
                self._go_on()
        else:
            self._state.apply_action(int(action))
            self._go_on()
        self._accumulate_rewards()

    def observe(self, agent: str) -> NDArray[np.float32]:
        space = self.observation_spaces[agent]
        if self._state.is_chance_node():  # OpenSpiel shows nothing there; only a game that was cut off ends there
            return np.zeros(space.shape, np.float32)
        tensor_of = getattr(self._state, self._observed)
        tensor = np.asarray(tensor_of(self._number[agent]), np.float32)
        return tensor.reshape(space.shape)

    def render(self) -> str | None:
        """Return the state as text with ``render_mode="ansi"``."""
        return str(self._state) if self.render_mode == "ansi" else None

    def action_name(self, agent: str, action: int) -> str:
        """Return the name of an action in the current state."""
        return str(self._state.action_to_string(self._number[agent], action))

    def text_for(self, agent: str) -> str:
        """Return what a player knows as text; the whole state if the game has no such text."""
        kind = self._game.get_type()
        player = self._number[agent]
        if kind.provides_information_state_string:
            return str(self._state.information_state_string(player))
        if kind.provides_observation_string:
            return str(self._state.observation_string(player))
        return str(self._state)

    @property
    def choices_are_hidden(self) -> bool:
        """Whether players choose without seeing the choices of others: in a simultaneous state."""
        return bool(self._state.is_simultaneous_node())

    def close(self) -> None:
        """Nothing is open."""

    def _go_on(self) -> None:
        """Draw chance moves, give rewards, and find who acts next."""
        state = self._state
        while state.is_chance_node():
            actions, chances = zip(*state.chance_outcomes(), strict=True)
            weights = np.asarray(chances)
            probabilities = weights / weights.sum()  # chances add up to 1 but for rounding
            drawn = self._generator.choice(actions, p=probabilities)
            state.apply_action(int(drawn))
        returns = state.returns()
        for agent in self.agents:
            player = self._number[agent]
            self.rewards[agent] = returns[player] - self._returns[player]
        self._returns = returns
        if state.is_terminal():
            self.terminations = dict.fromkeys(self.agents, True)
            self.agent_selection = self.agents[0]
        elif state.is_simultaneous_node():
            if self._complete_choices():
                raise ValueError("no player has a legal action")
        else:
            self._select(state.current_player())

    def _complete_choices(self) -> bool:
        """Let the next player with legal actions choose; return whether all have chosen."""
        while len(self._chosen) < len(self.agents):
            player = len(self._chosen)
            if self._state.legal_actions(player):
                self._select(player)
                return False
            self._chosen.append(pyspiel.INVALID_ACTION)  # what OpenSpiel takes for a player without a choice
        return True

    def _select(self, player: int) -> None:
        self.agent_selection = self.possible_agents[player]
        mask = np.zeros(self._actions, np.int8)
        mask[self._state.legal_actions(player)] = 1
        self.infos[self.agent_selection] = {ACTION_MASK: mask}


def _tensor_of(game: Any, name: str, wanted: str | None) -> tuple[str, list[int]]:
    """Return the method of a state that gives what a player sees as numbers, and their shape."""
    kind = game.get_type()
    if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise ValueError(f"{name} is a mean-field game, which is played by a distribution of agents")
    kinds = ("information_state", "observation")
    tensors = [tensor for tensor in kinds if getattr(kind, f"provides_{tensor}_tensor")]
    if not tensors:
        raise ValueError(f"{name} shows its players no numbers, only text")
    if wanted is not None and wanted not in tensors:
        raise ValueError(f"observation={wanted!r}: {name} has {' and '.join(tensors)}")
    method = f"{wanted or tensors[0]}_tensor"
    return method, getattr(game, f"{method}_shape")()
