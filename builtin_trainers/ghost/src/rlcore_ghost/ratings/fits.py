"""Fits of the whole match log: Bradley-Terry ratings, and OpenSkill's."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any, Final, NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore_ghost.arrays import Floats, Ints
from rlcore_ghost.selfplay.elo import Pairs, pairs_that_met
from rlcore_ghost.selfplay.match_log import Matches

__all__ = ["BradleyTerry", "Skill", "bradley_terry", "weng_lin"]

POINTS_PER_LOGIT: Final = 400.0 / log(10.0)  # Elo's scale


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


def bradley_terry(matches: Matches, anchor: str, initial: float = 1200.0) -> BradleyTerry:
    """Fit ratings to all matches, whatever their order: the log-odds of a win are the difference of two strengths.

    The strength is the player's rating and the advantage of its team (Bradley and Terry, 1952, with order effects as in
    Davidson and Beaver, 1977), so a learner that played the worse team is not taken for a worse player. A draw counts
    as half a win of both. The rating of ``anchor`` is ``initial``, so fits of different times can be compared. Each
    player has one more game, a draw, shared out over its opponents in proportion to their games: it keeps players
    finite that never lost or never won.
    """
    pinned = matches.names.index(anchor)
    rated = _connected(matches.games, pinned)
    pairs = pairs_that_met(matches.players, matches.ranks, matches.count)
    connected = np.isin(pairs.player, rated)
    pairs = Pairs._make(column[connected] for column in pairs)
    games = pairs.games
    size = len(matches.names)
    as_first = np.bincount(pairs.player, games, size)
    as_second = np.bincount(pairs.opponent, games, size)
    played = as_first + as_second
    # The additional game of a player is shared out in proportion to its games, and half of it is won.
    of_player = 1.0 / played[pairs.player]
    of_opponent = 1.0 / played[pairs.opponent]
    drawn = games * (of_player + of_opponent) / 2.0
    points = pairs.score * games + drawn / 2.0

    players = len(rated)
    teams = matches.players.shape[1]
    player = np.searchsorted(rated, pairs.player)
    opponent = np.searchsorted(rated, pairs.opponent)
    team = players + pairs.team  # advantages follow the ratings
    other_team = players + pairs.other_team
    columns = np.stack((player, opponent, team, other_team))  # [4, U]
    # Weak priors decide what the games leave open: the level of all ratings, which the anchor then shifts, and
    # advantages where teams cannot be told from the players in them.
    of_ratings = np.full(players, 1e-9)
    of_advantages = np.full(teams, 1e-3)
    precisions = np.concatenate((of_ratings, of_advantages))
    weights = _logistic_fit(columns, points, games + drawn, precisions)
    scaled = POINTS_PER_LOGIT * weights
    of_anchor = scaled[np.searchsorted(rated, pinned)]
    ratings = initial + scaled[:players] - of_anchor
    advantages = scaled[players:] - scaled[players:].mean()
    names = [matches.names[index] for index in rated]
    by_name = dict(zip(names, ratings.tolist(), strict=True))
    return BradleyTerry(by_name, tuple(advantages.tolist()))


SIGNS = np.array([1.0, -1.0, 1.0, -1.0])  # of the weights that make the log-odds of a pair
TOLERANCE = 1e-9  # of a weight


def _logistic_fit(columns: Ints, points: Floats, games: Floats, precisions: Floats) -> Floats:
    """Newton's method for the W weights of a logistic regression.

    ``columns`` [4, U] are the weights that make up the log-odds of each pair; ``precisions`` [W] are those of priors
    around 0.
    """
    size = len(precisions)
    signed = list(zip(SIGNS, columns, strict=True))

    def loss(weights: Floats) -> float:
        odds = SIGNS @ weights[columns]
        prior = 0.5 * precisions @ weights**2
        of_games = games @ np.logaddexp(0.0, odds) - points @ odds
        return float(of_games + prior)

    weights = np.zeros(size)
    for _ in range(100):
        odds = SIGNS @ weights[columns]
        expected = 0.5 * (1.0 + np.tanh(0.5 * odds))  # the logistic function, without overflow
        residual = points - games * expected
        spread = games * expected * (1.0 - expected)
        gradient = np.zeros(size)
        curvature = np.diag(precisions)
        for sign, column in signed:
            gradient += sign * np.bincount(column, residual, size)
            for other_sign, other in signed:
                product = sign * other_sign * spread
                np.add.at(curvature, (column, other), product)
        gradient -= precisions * weights
        step = np.linalg.solve(curvature, gradient)
        # Far from the optimum, a whole step may overshoot.
        while loss(weights + step) > loss(weights):
            if np.abs(step).max() <= TOLERANCE:
                break
            step /= 2.0
        weights += step
        if np.abs(step).max() < TOLERANCE:
            break
    return weights


def _connected(games: NDArray[Any], start: int) -> Ints:
    """The players that a chain of matches connects with the player ``start``."""
    reached = np.zeros(len(games), np.bool_)
    edge = reached.copy()
    edge[start] = True
    while edge.any():
        reached |= edge
        met = (games[edge] > 0).any(axis=0)
        edge = met & ~reached
    return np.flatnonzero(reached)


class Skill(NamedTuple):
    """A normal distribution of a player's strength.

    Attributes:
        mu: The mean; players begin with 25.
        sigma: The standard deviation; players begin with 25/3, and it falls with each match.
    """

    mu: float
    sigma: float


def weng_lin(matches: Matches, at_most: int = 20_000) -> dict[str, Skill]:
    """Rate all players of matches of any number of teams (Weng and Lin, JMLR 2011; OpenSkill's Plackett-Luce model).

    Matches are rated in the order of their steps, those of one step in an order drawn with a fixed seed. Of more than
    ``at_most`` matches, that many are rated, spread evenly over the log. A player of several teams changes by what all
    of them change by. Matches of a player against itself alone are left out, as are players without other matches.
    """
    from openskill.models import PlackettLuce

    model = PlackettLuce()
    new = Skill(model.mu, model.sigma)
    skills: dict[int, Skill] = {}
    for row in _sample(matches, at_most):
        players = matches.players[row].tolist()
        before = [skills.get(player, new) for player in players]
        teams = [[model.rating(skill.mu, skill.sigma)] for skill in before]
        ranks = matches.ranks[row].tolist()
        after = model.rate(teams, ranks=ranks)
        for player, old, [skill] in zip(players, before, after, strict=True):
            # A player of several teams has changed already, by an earlier one of them.
            mu, sigma = skills.get(player, new)
            mu += skill.mu - old.mu
            sigma = sigma * skill.sigma / old.sigma
            skills[player] = Skill(mu, sigma)
    return {matches.names[index]: skill for index, skill in sorted(skills.items())}


def _sample(matches: Matches, at_most: int) -> Ints:
    """Rows in the order in which their matches are rated, each as often as it is rated."""
    first_player = matches.players[:, :1]
    has_others = (matches.players != first_player).any(axis=1)
    different = np.flatnonzero(has_others)
    ends = np.cumsum(matches.count[different])
    total = int(ends[-1]) if len(ends) else 0
    rated = min(total, at_most)
    # The middles of equal stretches of the log, in whole numbers.
    middles = np.arange(rated) * 2 + 1
    chosen = middles * total // (2 * max(rated, 1))  # the number of each match
    rows = different[np.searchsorted(ends, chosen, side="right")]
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = rows[order]
    by_step = np.argsort(matches.step[shuffled], kind="stable")
    return shuffled[by_step]
