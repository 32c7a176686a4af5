"""Standings of a run: ratings of all players, the learner's rating over time, who beats whom, and cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import inf, isnan
from typing import Any, Final

import attrs
import numpy as np

from rlcore_ghost.arrays import Floats, Ints
from rlcore_ghost.ratings.fits import BradleyTerry, Skill, bradley_terry, weng_lin
from rlcore_ghost.selfplay.elo import expected_score, pairs_that_met
from rlcore_ghost.selfplay.match_log import Matches, MatchLog, snapshot_parts

__all__ = ["Cycle", "PayOff", "PlayerStanding", "RatingPoint", "Standings", "default_anchor", "nash_average"]

# A player beats another one with this share of this many games; the share must also be two standard errors above 0.5.
BEATS_SHARE: Final = 0.55
BEATS_GAMES: Final = 50
# Games, as the Bradley-Terry fit predicts them, that each pair has besides its own when Nash averaging weighs it.
PRIOR_GAMES: Final = 10.0
# Players of a pay-off matrix: cycles and Nash averaging look at all triples, and at all pairs.
MOST_PLAYERS: Final = 64
MOST_CYCLES: Final = 10


@attrs.frozen
class PlayerStanding:
    """The results of one player.

    Attributes:
        name: The player; ``"Player@20000+"`` is the learner after its snapshot of step 20,000.
        games: Games against other players.
        share: Share of its games that it won; draws count as half a win.
        elo: Its live rating; for a learner, that of now. None if there are no live ratings.
        bradley_terry: Its rating by the fit of all matches; None if no chain of matches connects it to the anchor.
        skill: Its rating by OpenSkill.
    """

    name: str
    games: int
    share: float
    elo: float | None
    bradley_terry: float | None
    skill: Skill


@attrs.frozen
class RatingPoint:
    """The rating of a learner at one of its snapshots, or at the end of the log.

    Attributes:
        learner: The name of the learner.
        step: The step of the snapshot.
        elo: The live rating of the snapshot; None if there are no live ratings.
        bradley_terry: The rating of the snapshot by the fit; None for a snapshot without matches.
    """

    learner: str
    step: int
    elo: float | None
    bradley_terry: float | None


@attrs.frozen
class Cycle:
    """Three players of which each beats the next one, and the last one the first.

    Attributes:
        players: The names.
        shares: The share of its games that each won against the next one, without what the fit explains by the teams.
    """

    players: tuple[str, str, str]
    shares: tuple[float, float, float]


@attrs.frozen(eq=False)
class PayOff:
    """The results between generations: a snapshot together with the learner after it, or a fixed opponent.

    Of more than 64 players, the newest generations and the fixed opponents are here. G is their number.

    Attributes:
        names: The G players: the generations, each under the name of its snapshot, and then the fixed opponents.
        games: [G, G] games between two players.
        wins: [G, G] wins of the player of the row against the one of the column.
        draws: [G, G] draws.
        cycles: At most ten cycles, the clearest first. A player beats another one with at least 55% of at least 50
            games (a draw is half a win), if that is more than half by two standard errors. What the fit explains by the
            teams that they played does not count.
        nash: Nash averaging: the mixture of players that no player beats in the mean, by name. Of several, the one
            whose largest probability is smallest. A single player means that it beats or equals all; several mean that
            no order of strength describes them. Empty for snapshots of several behaviors, which do not play each
            other; None without scipy.
    """

    names: tuple[str, ...]
    games: Ints
    wins: Ints
    draws: Ints
    cycles: tuple[Cycle, ...]
    nash: Mapping[str, float] | None

    @property
    def shares(self) -> Floats:
        """[G, G] share of the games that the player of the row won, draws as half; NaN if two never met."""
        return _shares(self.wins + self.draws / 2.0, self.games)


@attrs.frozen(eq=False)
class Standings:
    """All that the match log of a run says.

    Attributes:
        anchor: The player whose Bradley-Terry rating is fixed at ``initial``.
        initial: The rating of the anchor.
        advantages: Rating points of each team over the average of the teams, by the fit; empty without matches.
        matches: Number of matches.
        self_matches: How many of them one player played alone; they change no rating.
        not_zero_sum: How many of them had results that did not add up to zero. Ratings only use the order of results.
        players: Fixed opponents, snapshots and the newest version of each learner, the strongest first.
        curve: The ratings of each learner by step.
        pay_off: Who beats whom.
    """

    anchor: str | None
    initial: float
    advantages: tuple[float, ...]
    matches: int
    self_matches: int
    not_zero_sum: int
    players: tuple[PlayerStanding, ...]
    curve: tuple[RatingPoint, ...]
    pay_off: PayOff

    @classmethod
    def of(
        cls, log: MatchLog, live: Sequence[float] = (), anchor: str | None = None, initial: float = 1200.0
    ) -> Standings:
        """Compute the standings of a log, with its live ratings if there are any.

        ``anchor`` is :func:`default_anchor` by default; its rating is ``initial``. ``live`` are the
        live Elo ratings of the players of the log; those that were added later have none.
        """
        matches = log.matches()
        anchor = default_anchor(matches) if anchor is None else anchor
        fitted = BradleyTerry({}, ())
        if anchor is not None:
            fitted = bradley_terry(matches, anchor, initial)
        first_player = matches.players[:, :1]
        alone = (matches.players == first_player).all(axis=1)
        return cls(
            anchor=anchor,
            initial=initial,
            advantages=fitted.advantages,
            players=_players(log, matches, live, fitted.ratings),
            curve=_curve(log, live, fitted.ratings),
            pay_off=_pay_off(matches, fitted),
            matches=int(matches.count.sum()),
            self_matches=int(matches.count[alone].sum()),
            not_zero_sum=log.not_zero_sum,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the standings as JSON values; a share of players that never met is None."""
        standings = attrs.asdict(self)
        pay_off = standings["pay_off"]
        for player in standings["players"]:
            skill = player.pop("skill")
            player |= skill._asdict()
        for name in ("games", "wins", "draws"):
            pay_off[name] = pay_off[name].tolist()
        pay_off["shares"] = []
        for row in self.pay_off.shares.tolist():
            pay_off["shares"].append([None if isnan(share) else share for share in row])
        standings["cycles"] = pay_off.pop("cycles")
        standings["nash"] = pay_off.pop("nash")
        return standings


def default_anchor(matches: Matches) -> str | None:
    """Return the first snapshot that has games; without one, the player with most games. None without games."""
    games = matches.games.sum(axis=1)
    if not games.any():
        return None
    for name, played in zip(matches.names, games, strict=True):
        if played and snapshot_parts(name):
            return name
    return matches.names[int(games.argmax())]


def nash_average(advantages: Floats) -> Floats:
    """Return the probabilities [G] of the symmetric Nash equilibrium of a zero-sum game between players.

    ``advantages`` [G, G] is antisymmetric: what the player of the row wins of the player of the column in the mean. No
    player wins of the mixture. Of several equilibria, it is one whose largest probability is smallest, so that equal
    players share their weight. See Balduzzi et al., "Re-evaluating evaluation" (NeurIPS 2018).
    """
    from scipy.optimize import linprog

    size = len(advantages)
    ones = np.ones((size, 1))
    zeros = np.zeros((size, 1))
    # The variables are the probabilities and, last, the largest one of them, which is to be small.
    cost = np.append(np.zeros(size), 1.0)
    no_row_wins = np.hstack([advantages, zeros])
    none_is_larger = np.hstack([np.eye(size), -ones])
    # The value of an antisymmetric game is 0; the slack is for rounding.
    limits = np.append(np.full(size, 1e-9), np.zeros(size))
    at_most = np.vstack([no_row_wins, none_is_larger])
    sums_to_one = np.append(np.ones(size), 0.0)
    solution = linprog(cost, at_most, limits, sums_to_one[None], [1.0], bounds=(0.0, 1.0))
    mixture = np.asarray(solution.x[:size], np.float64)
    return np.clip(mixture, 0.0, 1.0)


def _players(
    log: MatchLog, matches: Matches, live: Sequence[float], fit: Mapping[str, float]
) -> tuple[PlayerStanding, ...]:
    skills = weng_lin(matches)
    games = matches.games.sum(axis=1)
    points = (matches.wins + matches.draws / 2.0).sum(axis=1)
    logged = len(log.names)
    # For each player, the places of its results and of its live rating.
    places = {name: (index, index) for index, name in enumerate(log.names)}
    newest: dict[str, int] = {}  # version of each learner, a place of results
    for index, name in enumerate(matches.names[logged:], logged):
        learner, _ = snapshot_parts(name.removesuffix("+")) or ("", 0)
        newest[learner] = index
    for learner, index in newest.items():
        # The live rating of a learner is that of now; the learner before its first snapshot is left out.
        _, rated = places.pop(learner)
        places[matches.names[index]] = (index, rated)
    players = []
    for name, (index, rated) in places.items():
        if games[index]:
            share = float(points[index] / games[index])
            elo = _live_rating(live, rated)
            player = PlayerStanding(name, int(games[index]), share, elo, fit.get(name), skills[name])
            players.append(player)
    players.sort(key=_strength)
    return tuple(reversed(players))


def _strength(player: PlayerStanding) -> float:
    """The rating by the fit; players without one come last."""
    if player.bradley_terry is None:
        return -inf
    return player.bradley_terry


def _curve(log: MatchLog, live: Sequence[float], fit: Mapping[str, float]) -> tuple[RatingPoint, ...]:
    points = []
    for index, name in enumerate(log.names):
        learner, step = snapshot_parts(name) or ("", 0)
        if learner in log.names:
            elo = _live_rating(live, index)
            points.append(RatingPoint(learner, step, elo, fit.get(name)))
    points.sort(key=lambda point: (point.learner, point.step))
    return tuple(points)


def _live_rating(live: Sequence[float], index: int) -> float | None:
    """The live rating of a player; None for one that was added later, such as a fixed opponent of a round robin."""
    return live[index] if index < len(live) else None


def _pay_off(matches: Matches, fitted: BradleyTerry) -> PayOff:
    generations = matches.by_generation()
    played = np.flatnonzero(generations.games.any(axis=1))
    snapshots = [index for index in played if snapshot_parts(generations.names[index])]
    fixed = [index for index in played if index not in snapshots]
    newest = max(1, MOST_PLAYERS - len(fixed))
    kept = snapshots[-newest:] + fixed[:MOST_PLAYERS]
    names = tuple(generations.names[index] for index in kept)
    at = np.ix_(kept, kept)
    wins = generations.wins[at]
    draws = generations.draws[at]
    games = generations.games[at]
    points = wins + draws / 2.0 - _by_teams(generations, fitted)[at]
    shares = np.clip(_shares(points, games), 0.0, 1.0)
    learners = set()
    for name in names:
        parts = snapshot_parts(name)
        if parts is not None:
            learners.add(parts[0])
    # Snapshots of several behaviors do not play each other.
    nash = {} if len(learners) > 1 else _nash(names, points, games, fitted.ratings)
    cycles = _cycles(names, shares, games)
    return PayOff(names, games, wins, draws, cycles, nash)


def _by_teams(matches: Matches, fitted: BradleyTerry) -> Floats:
    """[P, P] points that each player owes to the teams that it played against each other one, by the fit."""
    owed = np.zeros(matches.games.shape)
    if fitted.advantages:
        pairs = pairs_that_met(matches.players, matches.ranks, matches.count)
        ratings = np.array([fitted.ratings.get(name, 0.0) for name in matches.names])
        difference = ratings[pairs.player] - ratings[pairs.opponent]
        advantages = np.array(fitted.advantages)
        with_teams = difference + advantages[pairs.team] - advantages[pairs.other_team]
        more = expected_score(with_teams) - expected_score(difference)
        points = pairs.games * more
        np.add.at(owed, (pairs.player, pairs.opponent), points)
    return owed - owed.T


def _shares(points: Floats, games: Ints) -> Floats:
    shares = np.full(games.shape, np.nan)
    np.divide(points, games, out=shares, where=games > 0)
    return shares


def _cycles(names: tuple[str, ...], shares: Floats, games: Ints) -> tuple[Cycle, ...]:
    # The standard error of a share is at most 0.5 / sqrt(games).
    standard_error = 0.5 / np.sqrt(np.maximum(games, 1))
    certain = shares - 0.5 > 2.0 * standard_error
    beats = (shares >= BEATS_SHARE) & (games >= BEATS_GAMES) & certain
    # [a, b, c]: a beats b, b beats c, and c beats a.
    chains = beats[:, :, None] & beats[None, :, :]
    closed = beats.T[:, None, :]
    triples = np.argwhere(chains & closed)
    cycles = []
    for a, b, c in triples.tolist():
        if a < b and a < c:  # a cycle is found from each of its players
            players = (names[a], names[b], names[c])
            shares_won = (float(shares[a, b]), float(shares[b, c]), float(shares[c, a]))
            cycles.append(Cycle(players, shares_won))
    cycles.sort(key=lambda cycle: -min(cycle.shares))
    return tuple(cycles[:MOST_CYCLES])


def _nash(names: tuple[str, ...], points: Floats, games: Ints, fit: Mapping[str, float]) -> dict[str, float] | None:
    """Nash averaging of the players that have a rating; pairs with few games are weighed with what it predicts."""
    if find_spec("scipy") is None:
        return None
    rated = [index for index, name in enumerate(names) if name in fit]
    if not rated:
        return {}
    ratings = np.array([fit[names[index]] for index in rated])
    at = np.ix_(rated, rated)
    predicted = expected_score(ratings[:, None] - ratings)
    weighted = points[at] + PRIOR_GAMES * predicted
    advantages = weighted / (games[at] + PRIOR_GAMES) - 0.5
    mixture = nash_average((advantages - advantages.T) / 2.0)
    shares = {}
    for index, share in zip(rated, mixture.tolist(), strict=True):
        if share > 1e-6:
            shares[names[index]] = share
    return shares
