"""Ratings of players: live Elo during training, and fits of the whole match log.

A difference of 400 rating points is a factor of 10 in the odds of a win (Elo, "The Rating of Chessplayers", 1978).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log
from typing import Any, Final, NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import SavedValueError, saved_array
from rlcore_ghost.match_log import Matches, MatchLog

__all__ = ["BradleyTerry", "EloTable", "Skill", "bradley_terry", "expected_score", "weng_lin"]

POINTS_PER_LOGIT: Final = 400.0 / log(10.0)
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
        self._pinned = np.zeros(0, np.bool_)  # [P]

    def __len__(self) -> int:
        return len(self._ratings)

    def rating(self, index: int) -> float:
        """Return the rating of the player ``index``. Raises IndexError for a player that was not added."""
        if not 0 <= index < len(self._ratings):
            raise IndexError(f"player {index} has no rating; add it first")
        return float(self._ratings[index])

    def add(self, index: int, rating: float | None = None, pinned: bool = False) -> None:
        """Add the player ``index``, the next one, with a rating; None is ``initial``.

        Start a snapshot with the rating of its learner. A ``pinned`` player keeps its rating: it anchors the scale, and
        the sum of the ratings then changes by what it would have won. Raises ValueError if ``index`` is not the next.
        """
        if index != len(self._ratings):
            raise ValueError(f"the next player is {len(self._ratings)}, not {index}")
        self._ratings = np.append(self._ratings, self.initial if rating is None else rating)
        self._pinned = np.append(self._pinned, pinned)

    def update(self, players: NDArray[Any], ranks: NDArray[Any]) -> None:
        """Rate M matches that ended in one step: ``players`` and ``ranks`` [M, T] as in :meth:`MatchLog.add`.

        One match is rated by the textbook's formula. Many matches of one player are rated in small steps, each with an
        equal share of every match, which gives what playing them one after the other gives in expectation: a rating
        does not overshoot, and the order of the matches does not matter. Teams with one player do not count against
        each other.
        """
        one, other, score, games, first, second = _pairs(players, ranks, bool(len(self._sides)))
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
        moved = np.where(self._pinned[there], 0.0, k / steps)[:, None] * signs * games
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
        """Return the ratings, which of them are pinned, advantages, and ``initial``, for those who read the state."""
        return {
            "initial": self.initial,
            "ratings": self._ratings.copy(),
            "pinned": self._pinned.copy(),
            "advantages": self.advantages.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`; ``initial``, ``k`` and ``sides`` stay what they are.

        Raises RunStateError, changing nothing, if the state does not fit.
        """
        ratings = saved_array(state, "ratings", np.float64, (None,))
        pinned = saved_array(state, "pinned", np.bool_, ratings.shape)
        advantages = saved_array(state, "advantages", np.float64, (None,))
        for name, numbers in (("ratings", ratings), ("advantages", advantages)):
            if not np.isfinite(numbers).all():
                raise SavedValueError(f"the entry {name!r} has a number that is not finite")
        if len(advantages) != len(self._sides):
            raise SavedValueError(
                f"the ratings have advantages of {len(advantages)} teams, not of {len(self._sides)}; resume with the "
                "elo_advantage that the run had"
            )
        self._ratings, self._pinned = ratings.copy(), pinned.copy()
        self.advantages = advantages.copy()


def _pairs(players: NDArray[Any], ranks: NDArray[Any], by_team: bool) -> tuple[Any, ...]:
    """The pairs of players that met, ``by_team`` apart for each pair of teams: six arrays [U].

    They are both players, the mean result of the first one, the games, and the teams of both.
    """
    teams = players.shape[1]
    first, second = np.triu_indices(teams, 1)
    one, other = players[:, first].ravel().astype(np.int64), players[:, second].ravel().astype(np.int64)
    score = (np.sign(ranks[:, second].astype(np.int64) - ranks[:, first]).ravel() + 1) / 2.0
    swapped = one > other
    low, high = np.where(swapped, other, one), np.where(swapped, one, other)
    score = np.where(swapped, 1.0 - score, score)
    seats = np.zeros(len(low), np.int64)
    if by_team:
        seats = np.where(
            swapped, *(np.tile(each, len(players)) for each in (second * teams + first, first * teams + second))
        )
    met = low != high
    low, high, score, seats = low[met], high[met], score[met], seats[met]
    size = int(high.max()) + 1 if len(high) else 1
    pairs, at = np.unique((low * size + high) * teams**2 + seats, return_inverse=True)
    games = np.bincount(at, minlength=len(pairs)).astype(np.float64)
    seats, pairs = pairs % teams**2, pairs // teams**2
    mean = np.bincount(at, score, len(games)) / games
    return pairs // size, pairs % size, mean, games, seats // teams, seats % teams


@attrs.frozen
class BradleyTerry:
    """Ratings on Elo's scale that explain all matches of a log at once.

    Attributes:
        ratings: The rating of each player. Players that no chain of matches connects with the anchor are missing.
        advantages: Points that each of the T teams has over the average of the teams, with the same player: the value
            of the first move, for example.
    """

    ratings: Mapping[str, float]
    advantages: tuple[float, ...]


def bradley_terry(log: MatchLog | Matches, anchor: str, initial: float = 1200.0) -> BradleyTerry:
    """Fit ratings to all matches, whatever their order: the log-odds of a win are the difference of two strengths.

    The strength is the player's rating and the advantage of its team (Bradley and Terry, 1952, with order effects as in
    Davidson and Beaver, 1977), so a learner that played the worse team is not taken for a worse player. A draw counts
    as half a win of both. The rating of ``anchor`` is ``initial``, so fits of different times can be compared. Each
    player has one more game, a draw, shared out over its opponents in proportion to their games: it keeps players
    finite that never lost or never won.

    Raises ValueError if ``anchor`` is not a player.
    """
    from scipy.sparse import csr_array  # training does not need scipy

    matches = log.matches() if isinstance(log, MatchLog) else log
    if anchor not in matches.names:
        raise ValueError(f"anchor: the log has no player {anchor!r}")
    pinned = matches.names.index(anchor)
    teams = matches.players.shape[1]
    one, other, first, second, points, games = seated_pairs(matches, _connected(matches.games, pinned))
    size = len(matches.names)
    played = np.bincount(one, games, size) + np.bincount(other, games, size)
    drawn = games * (1.0 / played[one] + 1.0 / played[other]) / 2.0
    rows = np.arange(len(one))
    ones = np.ones(len(one))
    there, column = np.unique(np.concatenate((one, other, [pinned])), return_inverse=True)
    columns = np.concatenate((column[:-1], len(there) + first, len(there) + second))
    signs = np.concatenate((ones, -ones, ones, -ones))
    design = csr_array((signs, (np.tile(rows, 4), columns)), shape=(len(one), len(there) + teams))
    # Advantages are held by a weak prior only; it decides where teams cannot be told from the players in them.
    holds = np.concatenate((np.zeros(len(there)), np.full(teams, 1e-3)))
    free = np.arange(len(there) + teams) != column[-1]
    strengths = np.zeros(len(free))
    strengths[free] = _logistic_fit(design[:, free], points + drawn / 2.0, games + drawn, holds[free])
    scaled = strengths * POINTS_PER_LOGIT
    advantages = scaled[len(there) :] - scaled[len(there) :].mean()
    return BradleyTerry(
        {matches.names[index]: initial + float(each) for index, each in zip(there, scaled, strict=False)},
        tuple(float(each) for each in advantages),
    )


def seated_pairs(matches: Matches, among: NDArray[np.int64]) -> tuple[Any, ...]:
    """The pairs of players in ``among`` that met, by their teams: six arrays [U].

    They are both players, their teams, the points of the first one (draws are half a point), and the games.
    """
    size, teams = len(matches.names), matches.players.shape[1]
    first, second = np.triu_indices(teams, 1)
    one, other = matches.players[:, first].astype(np.int64), matches.players[:, second].astype(np.int64)
    met = (one != other) & np.isin(one, among)
    key = ((one * size + other) * teams + first) * teams + second
    score = (np.sign(matches.ranks[:, second].astype(np.int64) - matches.ranks[:, first]) + 1) / 2.0
    count = np.broadcast_to(matches.count[:, None], met.shape)[met].astype(np.float64)
    keys, at = np.unique(key[met], return_inverse=True)
    points, games = np.bincount(at, score[met] * count, len(keys)), np.bincount(at, count, len(keys))
    players, seats = keys // teams**2, keys % teams**2
    return players // size, players % size, seats // teams, seats % teams, points, games


def _logistic_fit(design: Any, points: Floats, games: Floats, holds: Floats) -> Floats:
    """Newton's method for the weights of a logistic regression; ``holds`` are the precisions of priors around 0."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import spsolve
    from scipy.special import expit

    def loss(weights: Floats) -> float:
        logits = design @ weights
        fitted = games @ np.logaddexp(0.0, logits) - points @ logits
        return float(fitted + 0.5 * holds @ weights**2)

    weights = np.zeros(design.shape[1])
    if not len(points):
        return weights
    value = loss(weights)
    for _ in range(100):
        expected = expit(design @ weights)
        gradient = design.T @ (points - games * expected) - holds * weights
        curvature = design.T @ (design * (games * expected * (1.0 - expected))[:, None]) + diags_array(holds)
        step = np.atleast_1d(spsolve(curvature.tocsc(), gradient))
        share = 1.0
        while (reached := loss(weights + share * step)) > value and share > 1e-6:
            share /= 2.0
        weights, value = weights + share * step, min(value, reached)
        if np.abs(step).max() < 1e-9:
            break
    return weights


def _connected(games: NDArray[Any], start: int) -> NDArray[np.int64]:
    """The players that a chain of matches connects with the player ``start``."""
    reached = np.zeros(len(games), np.bool_)
    edge = reached.copy()
    edge[start] = True
    while edge.any():
        reached |= edge
        edge = (games[edge] > 0).any(axis=0) & ~reached
    return np.flatnonzero(reached)


class Skill(NamedTuple):
    """A normal distribution of a player's strength.

    Attributes:
        mu: The mean; players begin with 25.
        sigma: The standard deviation; players begin with 25/3, and it falls with each match.
    """

    mu: float
    sigma: float


def weng_lin(log: MatchLog | Matches, at_most: int = 20_000) -> dict[str, Skill]:
    """Rate all players of matches of any number of teams (Weng and Lin, JMLR 2011; OpenSkill's Plackett-Luce model).

    Matches are rated in the order of their steps, those of one flush in an order drawn with a fixed seed. Of more than
    ``at_most`` matches, that many are rated, spread evenly over the log. A player of several teams changes by what all
    of them change by. Matches of a player against itself alone are left out, as are players without other matches.
    """
    from openskill.models import PlackettLuce

    matches = log.matches() if isinstance(log, MatchLog) else log
    model = PlackettLuce()
    new = Skill(model.mu, model.sigma)
    skills: dict[int, Skill] = {}
    for row in _sample(matches, at_most):
        players = [int(each) for each in matches.players[row]]
        before = [skills.get(each, new) for each in players]
        teams = [[model.rating(skill.mu, skill.sigma)] for skill in before]
        rated = model.rate(teams, ranks=matches.ranks[row].tolist())
        for player, old, [skill] in zip(players, before, rated, strict=True):
            mu, sigma = skills.get(player, new)
            skills[player] = Skill(mu + skill.mu - old.mu, sigma * skill.sigma / old.sigma)
    return {matches.names[index]: skill for index, skill in sorted(skills.items())}


def _sample(matches: Matches, at_most: int) -> NDArray[np.int64]:
    """Rows in the order in which their matches are rated, each as often as it is rated."""
    different = np.flatnonzero((matches.players != matches.players[:, :1]).any(axis=1))
    ends = np.cumsum(matches.count[different])
    total = int(ends[-1]) if len(ends) else 0
    rated = min(total, at_most)
    chosen = (np.arange(rated) * 2 + 1) * total // (2 * max(rated, 1))  # the number of each match
    rows = different[np.searchsorted(ends, chosen, side="right")]
    shuffled = np.random.default_rng(0).permutation(len(rows))
    return rows[shuffled[np.argsort(matches.step[rows[shuffled]], kind="stable")]]
