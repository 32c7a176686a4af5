"""The games that are open: which agents have ended their episode in them, and with which results.

A *game* of an environment is over when every agent with self-play has ended its episode. Its result is a number for
each team, the mean over those of its agents that have a number; more is better, and equal numbers are a draw. A game
is not rated if an agent's episode was aborted or cut, or, by default, truncated, or if a team has no number.

In environments with ``many_games``, nothing says which agents play with one another, and each side of the learning team
is a game of its own: see :mod:`rlcore_ghost.selfplay.sides`.

Shapes: N environments, T teams, S slots of a behavior, K episodes that ended in one step, M games that ended in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import SavedValueError, fill, saved_mapping
from rlcore_ghost.arrays import Bools, Floats, Ints
from rlcore_ghost.selfplay.sides import FinishedSides

__all__ = ["AgentResults", "EndedGames", "OpenGames"]

# Attributes of the state: [N], or [N, T].
ARRAYS = ("open", "value", "counted", "players", "void")
# Sums of rewards that cancel each other leave a rest; above this share of the largest result, it is none.
ROUNDING = 1e-6


@attrs.frozen(eq=False)
class AgentResults:
    """How the episodes of K agents of a behavior ended.

    Attributes:
        slots: [K] the slots of the agents.
        player: [K] who played, an index in the match log.
        value: [K] the result for the agent, NaN for none.
        void: [K] whether the game is not to be rated.
        cut_off: [K] whether a time limit ended it, so that it is not rated.
    """

    slots: Ints
    player: Ints
    value: Floats
    void: Bools
    cut_off: Bools

    def take(self, chosen: Bools) -> AgentResults:
        """Return those that are ``chosen`` [K]."""
        return AgentResults(
            slots=self.slots[chosen],
            player=self.player[chosen],
            value=self.value[chosen],
            void=self.void[chosen],
            cut_off=self.cut_off[chosen],
        )


@attrs.frozen(eq=False)
class EndedGames:
    """M games that are over and to be rated, with the arrays of ``FinishedGames``.

    Attributes:
        env: [M] the environment of each, ascending.
        columns: The other arrays by name.
        cut_off: How many games more a time limit has ended, which are not rated.
    """

    env: Ints
    columns: Mapping[str, NDArray[Any]]
    cut_off: int = 0


class OpenGames:
    """The latest game of each environment.

    Attributes:
        open: [N] agents that have not ended their episode of the game.
        value: [N, T] sums of the results of those that have.
        counted: [N, T] how many of those have a result.
        players: [N, T] the player of each team, an index in the match log.
        void: [N] whether the game is not to be rated.
    """

    def __init__(self, agents: Ints, teams: int) -> None:
        """``agents`` [N] is the number of agents with self-play of each environment."""
        envs = len(agents)
        self._agents = agents
        self.open = agents.copy()
        self.value = np.zeros((envs, teams))
        self.counted = np.zeros((envs, teams), np.int64)
        self.players = np.zeros((envs, teams), np.int64)
        self.void = np.zeros(envs, np.bool_)
        self._owner = np.zeros((envs, teams), np.int64)  # behavior of each team, by its place among the names
        self._reported: dict[str, Bools] = {}  # by behavior, [S] slots that are part of the sums
        self._envs: dict[str, Ints] = {}  # by behavior, [S]
        self._teams: dict[str, Ints] = {}  # by behavior, [S]

    @property
    def behaviors(self) -> list[str]:
        """The names of the behaviors, sorted."""
        return sorted(self._reported)

    @property
    def joining_order(self) -> list[str]:
        """The names of the behaviors in the order in which they joined."""
        return list(self._reported)

    def join(self, name: str, env_index: Ints, team: Ints) -> None:
        """Add a behavior whose slots have these environments [S] and teams [S]."""
        self._reported[name] = np.zeros(len(env_index), np.bool_)
        self._envs[name] = env_index
        self._teams[name] = team
        for owner, behavior in enumerate(self.behaviors):
            self._owner[self._envs[behavior], self._teams[behavior]] = owner

    def behavior_of(self, team: int) -> str:
        """The behavior whose agents are in the team with this index."""
        return next(name for name, teams in self._teams.items() if team in teams)

    def clear(self, over: Bools) -> None:
        """New games begin in the environments ``over`` [N]."""
        self.open[over] = self._agents[over]
        self.value[over] = 0.0
        self.counted[over] = 0
        self.void[over] = False
        for name, reported in self._reported.items():
            reported[over[self._envs[name]]] = False

    def end_episodes(self, name: str, results: AgentResults) -> EndedGames | None:
        """Add the results of a behavior's agents; return the games that are over now, None if none is."""
        # The agents of a behavior that ended early play their next episodes while another behavior still plays this
        # game. The first episode of an agent is the one that counts.
        reported = self._reported[name]
        results = results.take(~reported[results.slots])
        slots = results.slots
        reported[slots] = True
        env = self._envs[name][slots]
        team = self._teams[name][slots]

        has_value = ~np.isnan(results.value)
        cell = (env[has_value], team[has_value])
        np.add.at(self.value, cell, results.value[has_value])
        np.add.at(self.counted, cell, 1)
        self.players[env, team] = results.player
        void = results.void | results.cut_off
        self.void[env[void]] = True

        self.open -= np.bincount(env, minlength=len(self.open))
        over = (self.open == 0) & (self._agents > 0)
        if not over.any():
            return None
        # Without a number for each team, a game has no ranks.
        every_team_has_a_value = self.counted.all(1)
        rated = over & ~self.void & every_team_has_a_value
        columns = self._columns(rated)
        envs_cut_off = np.unique(env[results.cut_off])
        cut_off = int(np.count_nonzero(over[envs_cut_off]))
        self.clear(over)
        return EndedGames(np.flatnonzero(rated), columns, cut_off)

    def _columns(self, rated: Bools) -> dict[str, NDArray[Any]]:
        """The columns of the games ``rated`` [N], of which M are True."""
        values = self.value[rated] / self.counted[rated]
        # Equal values give equal ranks, so that a draw is one.
        better = values[:, None, :] > values[:, :, None]  # [M, T, T]
        rest = np.abs(values.sum(1))
        largest = np.abs(values).max(1, initial=1.0)
        return {
            "players": self.players[rated],
            "ranks": better.sum(2),  # the number of teams that did better
            "owners": self._owner[rated],
            "uneven": rest > ROUNDING * largest,
        }

    def of_sides(self, name: str, player: int, sides: FinishedSides) -> list[EndedGames]:
        """The games of sides of the behavior ``name``, whose ``player`` learns: one against each other team.

        How the others did is not known: each has lost what the side has won.
        """
        rated = np.flatnonzero(~sides.void)
        envs = self._envs[name][sides.slot[rated]]
        by_env = np.argsort(envs, kind="stable")  # as the games of a step are listed
        rated = rated[by_env]
        slot = sides.slot[rated]
        value = sides.value[rated]
        env = self._envs[name][slot]
        team = self._teams[name][slot]
        rows = np.arange(len(rated))
        teams = self._owner.shape[1]
        games = []
        for distance in range(1, teams):
            other = (team + distance) % teams
            # All teams but the side's are the other one, so that no third player is rated.
            players = _for_each_team(sides.opponents[rated, other], teams)
            behind = (value > 0).astype(np.int64)
            ranks = _for_each_team(behind, teams)
            owners = _for_each_team(self._owner[env, other], teams)
            players[rows, team] = player
            ranks[rows, team] = value < 0
            owners[rows, team] = self._owner[env, team]
            columns = {
                "players": players,
                "ranks": ranks,
                "owners": owners,
                "uneven": np.zeros(len(rated), np.bool_),
            }
            games.append(EndedGames(env, columns))
        return games

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The arrays, and which slots are part of them."""
        arrays = {name: getattr(self, name).copy() for name in ARRAYS}
        reported = {name: slots.copy() for name, slots in self._reported.items()}
        return {**arrays, "reported": reported}

    def load_state_dict(self, state: Mapping[str, Any], players: int) -> None:
        """Continue from :meth:`state_dict` of a run with so many ``players``.

        Raises SavedValueError if it does not fit, and is in no use then.
        """
        for name in ARRAYS:
            fill(getattr(self, name), state, name)
        behaviors = saved_mapping(state, "reported")
        for name, reported in self._reported.items():
            fill(reported, behaviors, name)
        if self.players.size and not 0 <= self.players.min() <= self.players.max() < players:
            raise SavedValueError("the entry 'players' has a player without a name")


def _for_each_team(column: Ints, teams: int) -> Ints:
    """The column [M] for every team, [M, T]."""
    return np.repeat(column[:, None], teams, axis=1)
