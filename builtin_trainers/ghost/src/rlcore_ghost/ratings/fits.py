"""Fits of the whole match log: Bradley-Terry ratings, and OpenSkill's."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import log
from typing import Any, Final, NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore_ghost.arrays import Floats, Ints
from rlcore_ghost.selfplay.elo import pairs_that_met
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
    one, other, share, games, first, second = (each[np.isin(pairs[0], rated)] for each in pairs)
    played = np.bincount(one, games, len(matches.names)) + np.bincount(other, games, len(matches.names))
    drawn = games * (1.0 / played[one] + 1.0 / played[other]) / 2.0
    size = len(rated)
    teams = matches.players.shape[1]
    columns = np.stack((*np.searchsorted(rated, (one, other)), size + first, size + second))  # [4, U]
    # Weak priors decide what the games leave open: the level of all ratings, which the anchor then shifts, and
    # advantages where teams cannot be told from the players in them.
    holds = np.concatenate((np.full(size, 1e-9), np.full(teams, 1e-3)))
    scaled = POINTS_PER_LOGIT * _logistic_fit(columns, share * games + drawn / 2.0, games + drawn, holds)
    ratings = initial + scaled[:size] - scaled[np.searchsorted(rated, pinned)]
    advantages = scaled[size:] - scaled[size:].mean()
    return BradleyTerry(
        {matches.names[index]: float(rating) for index, rating in zip(rated, ratings, strict=True)},
        tuple(advantages.tolist()),
    )


SIGNS = np.array([1.0, -1.0, 1.0, -1.0])  # of the weights that make the log-odds of a pair


def _logistic_fit(columns: Ints, points: Floats, games: Floats, holds: Floats) -> Floats:
    """Newton's method for the W weights of a logistic regression.

    ``columns`` [4, U] are the weights that make up the log-odds of each pair; ``holds`` [W] are the precisions of
    priors around 0.
    """
    size = len(holds)
    signed = list(zip(SIGNS, columns, strict=True))

    def loss(weights: Floats) -> float:
        odds = SIGNS @ weights[columns]
        return float(games @ np.logaddexp(0.0, odds) - points @ odds + 0.5 * holds @ weights**2)

    weights = np.zeros(size)
    step = np.ones(size)
    for _ in range(100):
        expected = 0.5 * (1.0 + np.tanh(0.5 * (SIGNS @ weights[columns])))
        left = points - games * expected
        spread = games * expected * (1.0 - expected)
        gradient = sum(sign * np.bincount(at, left, size) for sign, at in signed) - holds * weights
        curvature = np.diag(holds)
        for (sign, at), (other_sign, other) in product(signed, signed):
            np.add.at(curvature, (at, other), sign * other_sign * spread)
        step = np.linalg.solve(curvature, gradient)
        while loss(weights + step) > loss(weights) and np.abs(step).max() > 1e-9:
            step /= 2.0
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return weights


def _connected(games: NDArray[Any], start: int) -> Ints:
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
        players = [int(each) for each in matches.players[row]]
        before = [skills.get(each, new) for each in players]
        teams = [[model.rating(skill.mu, skill.sigma)] for skill in before]
        rated = model.rate(teams, ranks=matches.ranks[row].tolist())
        for player, old, [skill] in zip(players, before, rated, strict=True):
            mu, sigma = skills.get(player, new)
            skills[player] = Skill(mu + skill.mu - old.mu, sigma * skill.sigma / old.sigma)
    return {matches.names[index]: skill for index, skill in sorted(skills.items())}


def _sample(matches: Matches, at_most: int) -> Ints:
    """Rows in the order in which their matches are rated, each as often as it is rated."""
    different = np.flatnonzero((matches.players != matches.players[:, :1]).any(axis=1))
    ends = np.cumsum(matches.count[different])
    total = int(ends[-1]) if len(ends) else 0
    rated = min(total, at_most)
    chosen = (np.arange(rated) * 2 + 1) * total // (2 * max(rated, 1))  # the number of each match
    rows = different[np.searchsorted(ends, chosen, side="right")]
    shuffled = np.random.default_rng(0).permutation(len(rows))
    return rows[shuffled[np.argsort(matches.step[rows[shuffled]], kind="stable")]]
