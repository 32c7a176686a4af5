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
        if settings is None or saved.plugins.record(EnvironmentSpec, settings.type).target != TARGET:
            kind = None if settings is None else settings.type
            raise ConfigError(
                f"{run}: its environment is of type {kind!r}; rlcore play needs a game of type 'pettingzoo'"
            )
        game = find_game(settings.id, settings.options.api)
        self.title = f"{game.id}, checkpoint {saved.step}"
        environment = make_of(game, _drawing(game, settings.options), 1, saved.context.behavior_names)
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
        specs = self.environment.behaviors
        self.agents = list(environment.games[0].possible_agents)
        self.you = _seat(seat, self.agents)
        self._names = {(arrays.name, slot): name for name, (arrays, slot) in environment.seats[0].items()}
        self._person = next(place for place, name in self._names.items() if name == self.you)  # behavior and slot
        self._spec = specs[self._person[0]]
        if self._spec.continuous or len(self._spec.discrete) != 1:
            raise ConfigError(f"{self.you!r} does more than one choice at a time, which cannot be typed")
        self._game = environment.games[0] = LastView(environment.games[0])
        self._deterministic = deterministic
        seed = secrets.randbelow(2**31) if seed is None else seed
        policies = saved.policies(specs)
        # What critics alone read, such as the cards of all players, is not shown.
        read = getattr(policies[self._person[0]], "behavior", self._spec)
        self._spec = attrs.evolve(self._spec, observations=read.observations)
        self._players = {
            name: Player(policies[name], spec.slots, derive_seed(seed, name)) for name, spec in specs.items()
        }
        self._batches: Mapping[str, AgentBatch] = environment.reset(EpisodeSeeds(seed), np.zeros(1, np.int64))
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
        seen = {key: array[slot] for key, array in self._batches[name].observations.items()}
        return view_of(self._game, self.you, self._spec, seen, self._mask)

    def options(self) -> dict[int, str]:
        """Return the allowed actions, with a text for each: its number, and its name if the game has one."""
        mask = np.ones(self._spec.discrete[0]) if self._mask is None else self._mask
        return {action: self._text(self.you, action) for action in np.flatnonzero(mask).tolist()}

    def news(self) -> list[str]:
        """Return the moves of others since the last call."""
        news = self._news
        self._news = []
        return news

    def result(self) -> list[str]:
        """Return the last position, the rewards, and whether the person has won."""
        yours = self._rewards[self.you]
        others = [reward for agent, reward in self._rewards.items() if agent != self.you]
        if not others or yours > max(others):
            verdict = "You won."
        else:
            verdict = "A draw." if yours == max(others) else "You lost."
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
        actions = {each: self._players[each].act(batch, self._deterministic) for each, batch in self._batches.items()}
        choices = actions[name].discrete
        if action is not None:
            assert choices is not None
            choices = actions[name].discrete = choices.copy()
            choices[slot] = action
        elif choices is not None and choices.shape[1] == 1 and not getattr(self._game, "choices_are_hidden", False):
            agent = self._names[name, slot]
            self._news.append(f"{agent} plays {self._text(agent, int(choices[slot, 0]))}")
        self._batches = self.environment.step(actions)
        for (name, slot), agent in self._names.items():
            batch = self._batches[name]
            closed = batch.transition_closed
            if closed is None or closed[slot]:
                self._rewards[agent] += float(batch.reward[slot])
            if agent == self.you and batch.final_observations is not None and slot in batch.ended:
                row = int(np.searchsorted(batch.ended, slot))
                self._final = {key: array[row].copy() for key, array in batch.final_observations.items()}
        for name, batch in self._batches.items():
            self._players[name].observe(batch)

    def _text(self, agent: str, action: int) -> str:
        name = getattr(self._game, "action_name", None)
        return f"{action} = {name(agent, action)}" if name is not None else str(action)


def _drawing(game: Game, options: PettingZooSettings) -> PettingZooSettings:
    """Return options with which the game draws itself as text, if it can."""
    (made,) = make_games(game, options, 1)
    close_quietly(made)
    if "ansi" not in (made.metadata.get("render_modes") or ()):
        return options
    return attrs.evolve(options, arguments={**options.arguments, "render_mode": "ansi"})


def _seat(seat: str | None, agents: list[str]) -> str:
    if seat is None:
        return agents[0]
    if seat in agents:
        return seat
    if seat.isdecimal() and int(seat) < len(agents):
        return agents[int(seat)]
    there = ", ".join(agents)
    raise ConfigError(f"--seat {seat}: no agent is called so; there are {there}{did_you_mean(seat, agents)}")
