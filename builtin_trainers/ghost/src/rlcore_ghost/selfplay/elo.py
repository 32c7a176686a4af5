"""Live Elo ratings of players during training.

A difference of 400 rating points is a factor of 10 in the odds of a win (Elo, "The Rating of Chessplayers", 1978).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlcore import SavedValueError, saved_array

__all__ = ["EloTable", "expected_score", "pairs_that_met"]

# Most rating points that one player can be moved by in one step of an update with many matches.
STEP_POINTS: Final = 32.0
# How much a match moves the advantages of teams, as a share of what it moves ratings. Larger, the progress of a learner
# is taken for an advantage of its team; smaller, the advantage is known later.
ADVANTAGE_SHARE: Final = 0.25

Floats = NDArray[np.float64]


def expected_score(difference: Floats | float) -> Any:
    """Return the expected result in [0, 1] of a player rated ``difference`` points above its opponent.

    Wins count 1 and draws 0.5: ``1 / (1 + 10^(-difference / 400))``.
    """
    return 1.0 / (1.0 + 10.0 ** (np.asarray(difference) / -400.0))


class EloTable:
    """Live Elo ratings of the players of a match log, by index.

    A match of T teams is T(T - 1)/2 games between pairs of teams, with the factor k / (T - 1) each: what one player
    wins another one loses, so the sum of the ratings stays. With ``k=1`` and two teams, the arithmetic is that of
    ML-Agents (``GhostController.compute_elo_rating_changes``).

    With ``sides``, the advantage of a team, such as the first move, is estimated too: expected results then contain
    it, and ratings do not rise and fall with the team that a player has. A match moves the advantages of its teams by a
    quarter of what it moves the ratings. Only teams of one side are compared, because different players have the
    others; the advantages of a side add up to zero.

    Attributes:
        advantages: [T] points of each team over the mean of its side; empty without ``sides``.
    """

    def __init__(self, initial: float = 1200.0, k: float = 16.0, sides: Sequence[int] = ()) -> None:
        """``sides`` [T] is a number for each team; the same players can have all teams with one number."""
        self.initial = initial
        self.k = k
        self.advantages = np.zeros(len(sides))
        self._sides = np.array(sides, np.int64)
        self._ratings = np.zeros(0, np.float64)  # [P]

    def __len__(self) -> int:
        return len(self._ratings)

    def rating(self, index: int) -> float:
        """Return the rating of the player ``index``."""
        return float(self._ratings[index])

    def add(self, rating: float | None = None) -> None:
        """Add the next player, with a rating; None is ``initial``. Start a snapshot with the rating of its learner."""
        self._ratings = np.append(self._ratings, self.initial if rating is None else rating)

    def update(self, players: NDArray[Any], ranks: NDArray[Any]) -> None:
        """Rate M matches that ended in one step.

        ``players`` and ``ranks`` [M, T] are those of :meth:`rlcore_ghost.selfplay.match_log.MatchLog.add`.

        One match is rated by the textbook's formula. Many matches of one player are rated in small steps, each with an
        equal share of every match, which gives what playing them one after the other gives in expectation: a rating
        does not overshoot, and the order of the matches does not matter. Teams with one player do not count against
        each other.
        """
        count = np.ones(len(players))
        one, other, score, games, first, second = pairs_that_met(players, ranks, count, bool(len(self._sides)))
        if not len(one):
            return
        busy = np.bincount(np.concatenate((one, other)), np.concatenate((games, games)))
        k = self.k / (players.shape[1] - 1)
        matches = float(busy.max()) / (players.shape[1] - 1)  # of the player with most of them
        steps = ceil(matches / max(1.0, STEP_POINTS / self.k))
        there, at = np.unique(np.concatenate((one, other)), return_inverse=True)
        signs = np.zeros((len(there), len(one)), np.float64)  # [players here, pairs]
        signs[at[: len(one)], np.arange(len(one))] = 1.0
        signs[at[len(one) :], np.arange(len(one))] = -1.0
        moved = k / steps * signs * games
        if len(self._sides):
            seats = np.zeros((len(self._sides), len(one)), np.float64)  # [T, pairs]
            seats[first, np.arange(len(one))] = 1.0
            seats[second, np.arange(len(one))] = -1.0
            same = self._sides[first] == self._sides[second]
            moved = np.concatenate((moved, ADVANTAGE_SHARE * k / steps * np.where(same, games, 0.0) * seats))
            signs = np.concatenate((signs, seats))
        differences = signs.T / -400.0
        numbers = np.concatenate((self._ratings[there], self.advantages))
        for _ in range(steps):
            numbers = numbers + moved @ (score - 1.0 / (1.0 + 10.0 ** (differences @ numbers)))
        self._ratings[there] = numbers[: len(there)]
        self.advantages = numbers[len(there) :]

    def state_dict(self) -> dict[str, Any]:
        """Return the ratings, advantages, and ``initial``, for those who read the state."""
        return {"initial": self.initial, "ratings": self._ratings.copy(), "advantages": self.advantages.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`; ``initial``, ``k`` and ``sides`` stay what they are.

        Raises RunStateError, changing nothing, if the state does not fit.
        """
        ratings = saved_array(state, "ratings", np.float64, (None,))
        advantages = saved_array(state, "advantages", np.float64, (None,))
        for name, numbers in (("ratings", ratings), ("advantages", advantages)):
            if not np.isfinite(numbers).all():
                raise SavedValueError(f"the entry {name!r} has a number that is not finite")
        if len(advantages) != len(self._sides):
            raise SavedValueError(
                f"the ratings have advantages of {len(advantages)} teams, not of {len(self._sides)}; resume with the "
                "elo_advantage that the run had"
            )
        self._ratings = ratings.copy()
        self.advantages = advantages.copy()


def pairs_that_met(
    players: NDArray[Any], ranks: NDArray[Any], count: NDArray[Any], by_team: bool = True
) -> tuple[Any, ...]:
    """The pairs of players that met, ``by_team`` apart for each pair of teams: six arrays [U].

    They are both players, the mean result of the first one, the games, and the teams of both. ``players`` and ``ranks``
    are [M, T]; each of the M matches was played ``count`` [M] times.
    """
    teams = players.shape[1]
    first, second = np.triu_indices(teams, 1)
    one = players[:, first].ravel().astype(np.int64)
    other = players[:, second].ravel().astype(np.int64)
    score = (np.sign(ranks[:, second].astype(np.int64) - ranks[:, first]).ravel() + 1) / 2.0
    swapped = one > other
    low = np.where(swapped, other, one)
    high = np.where(swapped, one, other)
    score = np.where(swapped, 1.0 - score, score)
    seats = np.zeros(len(low), np.int64)
    if by_team:
        seats = np.where(
            swapped, *(np.tile(each, len(players)) for each in (second * teams + first, first * teams + second))
        )
    met = low != high
    played = np.repeat(count, len(first))[met]
    low = low[met]
    high = high[met]
    score = score[met]
    seats = seats[met]
    size = int(high.max()) + 1 if len(high) else 1
    pairs, at = np.unique((low * size + high) * teams**2 + seats, return_inverse=True)
    games = np.bincount(at, played, len(pairs))
    seats = pairs % teams**2
    pairs = pairs // teams**2
    mean = np.bincount(at, score * played, len(games)) / games
    return pairs // size, pairs % size, mean, games, seats // teams, seats % teams
