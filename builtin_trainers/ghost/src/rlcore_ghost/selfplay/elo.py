"""Live Elo ratings of players during training.

A difference of 400 rating points is a factor of 10 in the odds of a win (Elo, "The Rating of Chessplayers", 1978).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore import SavedValueError, saved_array
from rlcore_ghost.arrays import Floats, Ints
from rlcore_ghost.selfplay.match_log import meetings

__all__ = ["EloTable", "Pairs", "expected_score", "pairs_that_met"]

# Most rating points that one player can be moved by in one step of an update with many matches.
STEP_POINTS: Final = 32.0
# How much a match moves the advantages of teams, as a share of what it moves ratings. Larger, the progress of a learner
# is taken for an advantage of its team; smaller, the advantage is known later.
ADVANTAGE_SHARE: Final = 0.25


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
        if rating is None:
            rating = self.initial
        self._ratings = np.append(self._ratings, rating)

    def update(self, players: NDArray[Any], ranks: NDArray[Any]) -> None:
        """Rate M matches that ended in one step.

        ``players`` and ``ranks`` [M, T] are those of :meth:`rlcore_ghost.selfplay.match_log.MatchLog.add`.

        One match is rated by the textbook's formula. Many matches of one player are rated in small steps, each with an
        equal share of every match, which gives what playing them one after the other gives in expectation: a rating
        does not overshoot, and the order of the matches does not matter. Teams with one player do not count against
        each other.
        """
        with_sides = bool(len(self._sides))
        once = np.ones(len(players))
        pairs = pairs_that_met(players, ranks, once, by_team=with_sides)
        games = pairs.games
        count = len(games)
        if not count:
            return
        opponents = players.shape[1] - 1  # of each team in a match
        both = np.concatenate((pairs.player, pairs.opponent))
        games_of_both = np.concatenate((games, games))
        games_of_players = np.bincount(both, games_of_both)
        most_matches = float(games_of_players.max()) / opponents
        matches_in_step = max(1.0, STEP_POINTS / self.k)
        steps = ceil(most_matches / matches_in_step)
        k = self.k / opponents

        # A column for each pair: its expected score comes from the difference of the numbers with the signs +1 and -1.
        rated, row = np.unique(both, return_inverse=True)
        signs = _signs(len(rated), row[:count], row[count:])
        change = k / steps * signs * games
        if with_sides:
            team_signs = _signs(len(self._sides), pairs.team, pairs.other_team)
            # Different players have the teams of two sides, so their games do not tell an advantage from strength.
            same_side = self._sides[pairs.team] == self._sides[pairs.other_team]
            comparable = np.where(same_side, games, 0.0)
            team_change = ADVANTAGE_SHARE * k / steps * comparable * team_signs
            signs = np.concatenate((signs, team_signs))
            change = np.concatenate((change, team_change))
        # All pairs move at once from the numbers before, so the order of matches does not matter.
        differences = signs.T / -400.0
        numbers = np.concatenate((self._ratings[rated], self.advantages))
        for _ in range(steps):
            expected = 1.0 / (1.0 + 10.0 ** (differences @ numbers))
            numbers = numbers + change @ (pairs.score - expected)
        self._ratings[rated] = numbers[: len(rated)]
        self.advantages = numbers[len(rated) :]

    def state_dict(self) -> dict[str, Any]:
        """Return the ratings, advantages, and ``initial``, for those who read the state."""
        return {
            "initial": self.initial,
            "ratings": self._ratings.copy(),
            "advantages": self.advantages.copy(),
        }

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


def _signs(rows: int, plus: Ints, minus: Ints) -> Floats:
    """A matrix [rows, U] that has, in each column, 1 in the row ``plus`` [U] and -1 in the row ``minus`` [U]."""
    count = len(plus)
    signs = np.zeros((rows, count))
    columns = np.arange(count)
    signs[plus, columns] = 1.0
    signs[minus, columns] = -1.0
    return signs


class Pairs(NamedTuple):
    """U pairs of different players that met; ``player`` has the lower index.

    Attributes:
        player: [U] the first player.
        opponent: [U] the second player.
        score: [U] mean result of the first player, from 0 to 1.
        games: [U] number of games.
        team: [U] team of the first player; 0 for pairs of all teams together.
        other_team: [U] team of the second player; 0 for pairs of all teams together.
    """

    player: Ints
    opponent: Ints
    score: Floats
    games: NDArray[Any]
    team: Ints
    other_team: Ints


def pairs_that_met(players: NDArray[Any], ranks: NDArray[Any], count: NDArray[Any], by_team: bool = True) -> Pairs:
    """The pairs of players that met, ``by_team`` apart for each pair of teams.

    ``players`` and ``ranks`` are [M, T]; each of the M matches was played ``count`` [M] times.
    """
    matches, teams = players.shape
    first, second, result = meetings(ranks)
    player = players[:, first].ravel().astype(np.int64)
    opponent = players[:, second].ravel().astype(np.int64)
    score = (result.ravel() + 1) / 2.0

    # One order for each pair, whatever the teams of its players.
    swapped = player > opponent
    low = np.where(swapped, opponent, player)
    high = np.where(swapped, player, opponent)
    score = np.where(swapped, 1.0 - score, score)
    team_pair = np.zeros(len(low), np.int64)
    if by_team:
        as_played = np.tile(first * teams + second, matches)
        reversed_pair = np.tile(second * teams + first, matches)
        team_pair = np.where(swapped, reversed_pair, as_played)

    # Each pair of players and of teams has a number; games with one number are added up.
    met = low != high
    low = low[met]
    high = high[met]
    score = score[met]
    played = np.repeat(count, len(first))[met]
    size = int(high.max(initial=0)) + 1
    player_pair = low * size + high
    number = player_pair * teams**2 + team_pair[met]
    numbers, pair = np.unique(number, return_inverse=True)
    games = np.bincount(pair, played, len(numbers))
    points = np.bincount(pair, score * played, len(numbers))
    player_pair, team_pair = np.divmod(numbers, teams**2)
    player, opponent = np.divmod(player_pair, size)
    team, other_team = np.divmod(team_pair, teams)
    return Pairs(player, opponent, points / games, games, team, other_team)
