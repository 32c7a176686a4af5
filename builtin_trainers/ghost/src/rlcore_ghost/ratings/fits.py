"""Fits of the whole match log: Bradley-Terry ratings, and OpenSkill's."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any, Final, NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore_ghost.selfplay.match_log import Matches, MatchLog

__all__ = ["BradleyTerry", "Skill", "bradley_terry", "seated_pairs", "weng_lin"]

POINTS_PER_LOGIT: Final = 400.0 / log(10.0)  # Elo's scale

Floats = NDArray[np.float64]


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
    matches = log.matches() if isinstance(log, MatchLog) else log
    if anchor not in matches.names:
        raise ValueError(f"anchor: the log has no player {anchor!r}")
    pinned = matches.names.index(anchor)
    teams = matches.players.shape[1]
    one, other, first, second, points, games = seated_pairs(matches, _connected(matches.games, pinned))
    size = len(matches.names)
    played = np.bincount(one, games, size) + np.bincount(other, games, size)
    drawn = games * (1.0 / played[one] + 1.0 / played[other]) / 2.0
    there, column = np.unique(np.concatenate((one, other, [pinned])), return_inverse=True)
    size = len(there)
    ours, theirs = column[: len(one)], column[len(one) : -1]
    columns = np.stack((ours, theirs, size + first, size + second))  # [4, U]
    # Advantages are held by a weak prior only; it decides where teams cannot be told from the players in them.
    holds = np.concatenate((np.zeros(size), np.full(teams, 1e-3)))
    strengths = _logistic_fit(columns, points + drawn / 2.0, games + drawn, holds, int(column[-1]))
    scaled = strengths * POINTS_PER_LOGIT
    advantages = scaled[size:] - scaled[size:].mean()
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


SIGNS = np.array([1.0, -1.0, 1.0, -1.0])  # of the weights that make the log-odds of a pair


def _logistic_fit(columns: NDArray[np.int64], points: Floats, games: Floats, holds: Floats, zero: int) -> Floats:
    """Newton's method for the W weights of a logistic regression; the weight ``zero`` stays 0.

    ``columns`` [4, U] are the weights that make up the log-odds of each pair; ``holds`` [W] are the precisions of
    priors around 0.
    """
    size = len(holds)
    free = np.arange(size) != zero

    def logits(weights: Floats) -> Floats:
        found: Floats = SIGNS @ weights[columns]
        return found

    def loss(weights: Floats) -> float:
        odds = logits(weights)
        return float(games @ np.logaddexp(0.0, odds) - points @ odds + 0.5 * holds @ weights**2)

    weights = np.zeros(size)
    if not len(points):
        return weights
    value = loss(weights)
    for _ in range(100):
        expected = 0.5 * (1.0 + np.tanh(0.5 * logits(weights)))
        left = points - games * expected
        gradient = sum(sign * np.bincount(at, left, size) for sign, at in zip(SIGNS, columns, strict=True))
        spread = games * expected * (1.0 - expected)
        curvature = np.diag(holds)
        for sign, at in zip(SIGNS, columns, strict=True):
            for other_sign, other in zip(SIGNS, columns, strict=True):
                np.add.at(curvature, (at, other), sign * other_sign * spread)
        step = np.zeros(size)
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], (gradient - holds * weights)[free])
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
