"""A game of a person against policies."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    AgentBatch,
    ConfigError,
    EnvironmentSpec,
    EpisodeSeeds,
    Player,
    SavedRun,
    derive_seed,
    did_you_mean,
)
from rlcore_pettingzoo.board import LastView, as_text, view_of
from rlcore_pettingzoo.environment import make_of
from rlcore_pettingzoo.games import Game, close_quietly, find_game, make_games
from rlcore_pettingzoo.settings import PettingZooSettings
from rlcore_pettingzoo.turns import TurnEnvironment

TARGET = "rlcore_pettingzoo.environment:make_environment"


class Table:
    """One environment in which a person has the seat of one agent, and policies have those of the others."""

    def __init__(
        self, run: Path, seat: str | None, checkpoint: str, deterministic: bool, seed: int | None, allow_local: bool
    ) -> None:
        """Set up the game of a run with the policies of one of its checkpoints.

        Raises ConfigError for a game that a person cannot play, and for a ``seat`` that is not an agent of it.
        """
        saved = SavedRun.open(run, checkpoint, allow_local)
        settings = saved.config.environment
        is_game = settings is not None and saved.plugins.record(EnvironmentSpec, settings.type).target == TARGET
        if settings is None or not is_game:
            kind = None if settings is None else settings.type
            raise ConfigError(
                f"{run}: its environment is of type {kind!r}; rlcore play needs a game of type 'pettingzoo'"
            )
        game = find_game(settings.id, settings.options.api)
        self.title = f"{game.id}, checkpoint {saved.step}"
        options = _drawing(game, settings.options)
        environment = make_of(game, options, 1, saved.context.behavior_names)
        try:
            if not isinstance(environment, TurnEnvironment):
                raise ConfigError(
                    f"{run}: in {game.id}, all agents act at once; rlcore play needs a game that is played in turns"
                )
            self.environment = environment
            self._sit_down(saved, seat, deterministic, seed)
        except BaseException:
            close_quietly(environment)
            raise

    def _sit_down(self, saved: SavedRun, seat: str | None, deterministic: bool, seed: int | None) -> None:
        environment = self.environment
        specs = environment.behaviors
        self.agents = list(environment.games[0].possible_agents)
        self.you = _seat(seat, self.agents)
        self._names: dict[tuple[str, int], str] = {}  # of the agents, by behavior and slot
        for name, (arrays, slot) in environment.seats[0].items():
            self._names[arrays.name, slot] = name
        arrays, slot = environment.seats[0][self.you]
        self._person = (arrays.name, slot)
        self._spec = specs[arrays.name]
        if self._spec.continuous or len(self._spec.discrete) != 1:
            raise ConfigError(f"{self.you!r} does more than one choice at a time, which cannot be typed")
        self._game = LastView(environment.games[0])
        environment.games[0] = self._game
        self._deterministic = deterministic
        if seed is None:
            seed = secrets.randbelow(2**31)
        policies = saved.policies(specs)
        # What critics alone read, such as the cards of all players, is not shown.
        played_by = policies[arrays.name]
        observations = getattr(played_by, "behavior", self._spec).observations
        self._spec = attrs.evolve(self._spec, observations=observations)
        self._players = {}
        for name, spec in specs.items():
            player_seed = derive_seed(seed, name)
            self._players[name] = Player(policies[name], spec.slots, player_seed)
        first_episodes = np.zeros(1, np.int64)
        self._batches: Mapping[str, AgentBatch] = environment.reset(EpisodeSeeds(seed), first_episodes)
        self.begin()

    # ------------------------------------------------------------ a game

    def begin(self) -> None:
        """Begin with the position that the environment is in."""
        self._episode = int(self.environment.episodes[0])
        self._news: list[str] = []
        self._final: dict[str, NDArray[Any]] = {}  # what the person saw last, once the game is over for them
        self._rewards = dict.fromkeys(self.agents, 0.0)

    @property
    def over(self) -> bool:
        """Whether the game is over: the environment has started the next one."""
        return int(self.environment.episodes[0]) > self._episode

    @property
    def your_turn(self) -> bool:
        """Whether the person acts next."""
        return self._acting == self._person

    def view(self) -> str:
        """Return what the person sees."""
        name, slot = self._person
        observations = self._batches[name].observations
        seen = {key: array[slot] for key, array in observations.items()}
        return view_of(self._game, self.you, self._spec, seen, self._mask)

    def options(self) -> dict[int, str]:
        """Return the allowed actions, with a text for each: its number, and its name if the game has one."""
        allowed = list(range(self._spec.discrete[0]))
        if self._mask is not None:
            allowed = np.flatnonzero(self._mask).tolist()
        return {action: self._text(self.you, action) for action in allowed}

    def news(self) -> list[str]:
        """Return the moves of others since the last call."""
        news = self._news
        self._news = []
        return news

    def result(self) -> list[str]:
        """Return the last position, the rewards, and whether the person has won."""
        yours = self._rewards[self.you]
        others = [reward for agent, reward in self._rewards.items() if agent != self.you]
        verdict = "You lost."
        if not others or yours > max(others):
            verdict = "You won."
        elif yours == max(others):
            verdict = "A draw."
        rewards = ", ".join(f"{agent} {reward:g}" for agent, reward in self._rewards.items())
        position = self._game.last_position or as_text(self._spec, self._final, None)
        return [position, f"{verdict} Rewards: {rewards}"]

    # ------------------------------------------------------------ steps

    @property
    def _acting(self) -> tuple[str, int]:
        arrays, slot = self.environment.acting[0]
        return arrays.name, slot

    @property
    def _mask(self) -> NDArray[np.bool_] | None:
        name, slot = self._person
        mask = self._batches[name].action_mask
        return None if mask is None else mask[slot]

    def step(self, action: int | None = None) -> None:
        """Step with the policies' actions, and with ``action`` in the person's seat if it is the person's turn."""
        name, slot = self._acting
        actions = {}
        for behavior, batch in self._batches.items():
            actions[behavior] = self._players[behavior].act(batch, self._deterministic)
        choices = actions[name].discrete
        hidden = getattr(self._game, "choices_are_hidden", False)
        if action is not None:
            assert choices is not None
            choices = choices.copy()
            choices[slot] = action
            actions[name].discrete = choices
        elif choices is not None and choices.shape[1] == 1 and not hidden:
            agent = self._names[name, slot]
            chosen = int(choices[slot, 0])
            self._news.append(f"{agent} plays {self._text(agent, chosen)}")
        self._batches = self.environment.step(actions)
        for (name, slot), agent in self._names.items():
            batch = self._batches[name]
            closed = batch.transition_closed
            if closed is None or closed[slot]:
                self._rewards[agent] += float(batch.reward[slot])
            final = batch.final_observations
            if agent == self.you and final is not None and slot in batch.ended:
                row = int(np.searchsorted(batch.ended, slot))
                self._final = {key: array[row].copy() for key, array in final.items()}
        for name, batch in self._batches.items():
            self._players[name].observe(batch)

    def _text(self, agent: str, action: int) -> str:
        name_of = getattr(self._game, "action_name", None)
        if name_of is None:
            return str(action)
        return f"{action} = {name_of(agent, action)}"


def _drawing(game: Game, options: PettingZooSettings) -> PettingZooSettings:
    """Return options with which the game draws itself as text, if it can."""
    (made,) = make_games(game, options, 1)
    close_quietly(made)
    if "ansi" not in (made.metadata.get("render_modes") or ()):
        return options
    arguments = {**options.arguments, "render_mode": "ansi"}
    return attrs.evolve(options, arguments=arguments)


def _seat(seat: str | None, agents: list[str]) -> str:
    if seat is None:
        return agents[0]
    if seat in agents:
        return seat
    if seat.isdecimal() and int(seat) < len(agents):
        return agents[int(seat)]
    hint = did_you_mean(seat, agents)
    raise ConfigError(f"--seat {seat}: no agent is called so; there are {', '.join(agents)}{hint}")
