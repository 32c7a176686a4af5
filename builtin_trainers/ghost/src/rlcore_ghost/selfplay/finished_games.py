"""Games that are over and wait to be rated, of all processes of a run.

Each process has the games of its own environments. They are rated in the order of a run in one process: by the step in
which they ended, and then by the number of their environment.

M games of T teams are a structured array [M] with these fields:

- ``players`` [T]: player of each team, an index in the match log;
- ``ranks`` [T]: rank of each team: 0 is best, equal ranks are a draw;
- ``owners`` [T]: behavior of each team, by its place among the names;
- ``uneven``: whether the results of the teams do not add up to 0;
- ``order`` [2]: step in which the game ended, and number of its environment in the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import Ranks, SavedValueError, saved_array, saved_count
from rlcore_ghost.arrays import Ints

__all__ = ["FinishedGames"]

Games = NDArray[np.void]


class FinishedGames:
    """The games of this process's environments that ended since they were last taken.

    Attributes:
        step: Number of steps that were observed since the games of all processes were taken.
    """

    def __init__(self, teams: int, exchange: Ranks, first_env: int) -> None:
        """``first_env`` is the number, in the run, of the first environment of this process."""
        self._exchange = exchange
        self._first_env = first_env
        fields = [
            ("players", np.int64, (teams,)),
            ("ranks", np.int64, (teams,)),
            ("owners", np.int64, (teams,)),
            ("uneven", np.bool_),
            ("order", np.int64, (2,)),
        ]
        self._games: Games = np.zeros(0, fields)
        self.step = 0

    def __len__(self) -> int:
        return len(self._games)

    def add(self, env: Ints, **columns: NDArray[Any]) -> None:
        """Games ended in the environments ``env`` [M] of this process, which are ascending."""
        step = np.full(len(env), self.step)
        env_of_run = env + self._first_env
        columns["order"] = np.stack([step, env_of_run], axis=1)
        games = self._from_columns(columns)
        self._games = np.concatenate((self._games, games))

    def take(self) -> Games:
        """Take the games of this process."""
        games = self._games
        self._games = games[:0]
        return games

    def take_of_all(self) -> Games:
        """Take the games of all processes, which call this at the same step."""
        observed = self.step
        self.step = 0
        if self._exchange.size == 1:
            return self.take()
        # All processes count the same steps, so they agree here without a message.
        if not observed:
            return self._games[:0]
        parts = self._exchange.all_gather(_columns(self.take()))
        games = np.concatenate([self._from_columns(columns) for columns in parts])
        step, env = games["order"].T
        return games[np.lexsort((env, step))]

    def _from_columns(self, columns: Mapping[str, NDArray[Any]]) -> Games:
        count = len(columns["players"])
        games = np.zeros(count, self._games.dtype)
        for name, column in columns.items():
            games[name] = column
        return games

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The games of this process; with several processes, also when each ended."""
        state = _columns(self._games)
        if self._exchange.size == 1:
            del state["order"]
            return state
        return {**state, "step": self.step}

    def load_state_dict(self, state: Mapping[str, Any], behaviors: int, players: int) -> None:
        """Continue from :meth:`state_dict`. Raises SavedValueError if it does not fit.

        There are ``behaviors`` that own teams, and ``players`` in the match log.
        """
        several = self._exchange.size > 1
        count = len(saved_array(state, "uneven", np.bool_, (None,)))
        self.step = saved_count(state, "step") if several else 0
        columns = {}
        for name, empty in _columns(self._games[:0]).items():
            if several or name != "order":
                shape = (count, *empty.shape[1:])
                columns[name] = saved_array(state, name, empty.dtype, shape)
        for name, end in (("owners", behaviors), ("players", players)):
            if count and not 0 <= columns[name].min() <= columns[name].max() < end:
                raise SavedValueError(f"the entry {name!r} has a number that is not from 0 to {end - 1}")
        self._games = self._from_columns(columns)


def _columns(games: Games) -> dict[str, Any]:
    return {name: games[name].copy() for name in games.dtype.names or ()}
