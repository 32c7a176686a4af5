"""How the policies that learn did: against each player, and since statistics were last written.

Shapes: B behaviors, P players of the match log, K results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlcore import SavedValueError, saved_array, saved_count, saved_float, saved_mapping
from rlcore_ghost.arrays import Floats, Ints

__all__ = ["LearnerResults"]

# By how much a game's weight shrinks with each later game against the same opponent: the policy that learns changes,
# and about the last hundred games tell how it does now.
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
        players = self.games.shape[1]
        self.games = np.zeros((behaviors, players))
        self.score = np.zeros((behaviors, players))

    def add_player(self) -> None:
        """A player was added to the match log."""
        one_column = ((0, 0), (0, 1))
        self.games = np.pad(self.games, one_column)
        self.score = np.pad(self.score, one_column)

    def add(
        self,
        learners: Ints,
        opponents: Ints,
        owners: Ints,
        result: Floats,
    ) -> None:
        """``learners`` [K] had these results [K] against ``opponents`` [K], ghosts of the behaviors ``owners`` [K]."""
        shape = self.games.shape
        size = self.games.size
        cell = np.ravel_multi_index((owners, opponents), shape)
        games = np.bincount(cell, minlength=size).reshape(shape)
        score = np.bincount(cell, result, minlength=size).reshape(shape)
        # Games that are added together were played with nearly the same policy, and weigh the same.
        weight = MEMORY_OF_RESULTS**games
        self.games = self.games * weight + games
        self.score = self.score * weight + score
        for player in np.unique(learners).tolist():
            results = result[learners == player]
            total, count = self.totals.get(player, (0.0, 0))
            total += float(results.sum())
            self.totals[player] = (total, count + len(results))

    def against(self, owner: int, players: list[int]) -> tuple[Floats, Floats]:
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
        return {
            "games": self.games.copy(),
            "score": self.score.copy(),
            "results": totals,
        }

    def load_state_dict(self, state: Mapping[str, Any], players: int) -> None:
        """Continue from :meth:`state_dict` with so many ``players``. Raises SavedValueError if it does not fit."""
        shape = (len(self.games), players)
        games = saved_array(state, "games", np.float64, shape)
        score = saved_array(state, "score", np.float64, shape)
        self.totals = _saved_totals(saved_mapping(state, "results"), players)
        self.games = games.copy()
        self.score = score.copy()


def _saved_totals(saved: Mapping[str, Any], players: int) -> dict[int, tuple[float, int]]:
    totals = {}
    for key, pair in saved.items():
        is_player = key.isdecimal() and int(key) < players
        is_pair = isinstance(pair, list) and len(pair) == 2
        if not (is_player and is_pair):
            raise SavedValueError(f"the entry 'results' has {pair!r} for the player {key!r} of {players}")
        entry = {"sum": pair[0], "number": pair[1]}
        total = saved_float(entry, "sum")
        totals[int(key)] = (total, saved_count(entry, "number"))
    return totals
