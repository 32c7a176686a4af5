"""How the policies that learn did: against each player, and since statistics were last written.

Shapes: B behaviors, P players of the match log, K results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import SavedValueError, saved_array, saved_count, saved_float, saved_mapping

__all__ = ["LearnerResults"]

# By how much a game's weight shrinks with each later game against the same opponent.
MEMORY_OF_RESULTS = 0.99


class LearnerResults:
    """Results of rated games in which one side learned: 1 for a game won, 0.5 for a draw, 0 for one lost.

    Attributes:
        games: [B, P] games against each player as a ghost of each behavior, in the order of their names; later games
            count more.
        score: [B, P] sum of the results of these games.
        totals: Sum and number of the results of each player that learns, until statistics take them.
    """

    def __init__(self) -> None:
        self.games = np.zeros((0, 0))
        self.score = np.zeros((0, 0))
        self.totals: dict[int, tuple[float, int]] = {}

    def begin(self, behaviors: int) -> None:
        """Count from 0 for so many behaviors, which is before the first game."""
        shape = (behaviors, self.games.shape[1])
        self.games = np.zeros(shape)
        self.score = np.zeros(shape)

    def add_player(self) -> None:
        """A player was added to the match log."""
        self.games = np.pad(self.games, ((0, 0), (0, 1)))
        self.score = np.pad(self.score, ((0, 0), (0, 1)))

    def add(
        self, us: NDArray[np.int64], them: NDArray[np.int64], owner: NDArray[np.int64], result: NDArray[np.float64]
    ) -> None:
        """Learning players ``us`` [K] had these results against the players ``them`` [K], ghosts of each ``owner``."""
        shape = self.games.shape
        size = self.games.size
        cell = owner * shape[1] + them
        played = np.bincount(cell, minlength=size).reshape(shape)
        won = np.bincount(cell, result, minlength=size).reshape(shape)
        weight = MEMORY_OF_RESULTS**played
        self.games = self.games * weight + played
        self.score = self.score * weight + won
        for player in np.unique(us).tolist():
            total, count = self.totals.get(player, (0.0, 0))
            of_player = result[us == player]
            self.totals[player] = (total + float(of_player.sum()), count + len(of_player))

    def against(self, owner: int, players: list[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The games [K] against these K players as ghosts of the behavior ``owner``, and the mean result of each.

        The mean is 0.5 without games.
        """
        games = self.games[owner, players]
        score = self.score[owner, players]
        mean = score / np.maximum(games, 1e-12)
        return games, np.where(games > 0, mean, 0.5)

    def state_dict(self) -> dict[str, Any]:
        """All of it; players by their index as a text."""
        totals = {str(player): list(total) for player, total in self.totals.items()}
        return {"games": self.games.copy(), "score": self.score.copy(), "results": totals}

    def load_state_dict(self, state: Mapping[str, Any], players: int) -> None:
        """Continue from :meth:`state_dict` with so many ``players``. Raises SavedValueError if it does not fit."""
        shape = (len(self.games), players)
        games = saved_array(state, "games", np.float64, shape)
        score = saved_array(state, "score", np.float64, shape)
        self.totals = _saved_totals(saved_mapping(state, "results"), players)
        self.games = games.copy()
        self.score = score.copy()


def _saved_totals(totals: Mapping[str, Any], players: int) -> dict[int, tuple[float, int]]:
    found = {}
    for key, total in totals.items():
        is_player = key.isdecimal() and int(key) < players
        if not (is_player and isinstance(total, list) and len(total) == 2):
            raise SavedValueError(f"the entry 'results' has {total!r} for the player {key!r} of {players}")
        parts = {"sum": total[0], "number": total[1]}
        found[int(key)] = (saved_float(parts, "sum"), saved_count(parts, "number"))
    return found
