"""Ratings against the textbook, closed-form win probabilities and simulated players of known strength."""

import itertools

import numpy as np
import pytest
from playing_bots import chance

from rlcore_ghost.ratings.fits import bradley_terry, weng_lin
from rlcore_ghost.selfplay.elo import EloTable, expected_score
from rlcore_ghost.selfplay.match_log import MatchLog


def table(ratings, k=16.0, sides=()):
    elo = EloTable(1200.0, k, sides)
    for rating in ratings:
        elo.add(rating)
    return elo


def ratings_of(elo):
    return [elo.rating(index) for index in range(len(elo))]


def log_of(names, *matches):
    """A log of players; ``matches`` are pairs of arrays [M, T], players and ranks."""
    log = MatchLog(2)
    for name in names:
        log.player(name)
    for players, ranks in matches:
        log.add(1, np.array(players), np.array(ranks))
    return log


# ------------------------------------------------------------ live ratings


def test_no_batch_overshoots_the_rating_that_explains_it():
    """75% against a player of equal rating: 190.8 points at most, approached from below, whatever the batch."""
    exact = 400 * np.log10(3)
    before = 0.0
    for size in (4, 40, 400, 4000, 40_000):
        elo = table([1200.0, 1200.0])
        elo.update(np.array([[0, 1]] * size), np.array([[0, 1], [0, 1], [0, 1], [1, 0]] * (size // 4)))
        gap = elo.rating(0) - elo.rating(1)
        assert before <= gap <= exact + 1e-9
        before = gap
    assert before == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(("teams", "sides"), [(2, ()), (4, ()), (2, (0, 0)), (3, (0, 0, 1)), (4, (0, 1, 0, 1))])
def test_ratings_and_the_advantages_of_each_side_keep_their_sums(teams, sides):
    """Players meet themselves too, as in self-play."""
    rng = np.random.default_rng(teams)
    elo = table(rng.uniform(800, 1800, 9), sides=sides)
    before = sum(ratings_of(elo))
    for _ in range(200):
        size = rng.integers(1, 65)
        elo.update(rng.integers(0, 9, (size, teams)), rng.integers(0, teams, (size, teams)))
        assert sum(ratings_of(elo)) == pytest.approx(before, abs=1e-6)
    for side in set(sides):
        assert elo.advantages[np.array(sides) == side].sum() == pytest.approx(0, abs=1e-9)
    assert np.ptp(ratings_of(elo)) > 1.0 and (not sides or np.abs(elo.advantages).max() > 0)


@pytest.mark.parametrize("teams", [3, 4])
def test_a_match_of_many_teams_is_a_game_of_each_pair_with_a_share_of_k(teams):
    start = [1200.0, 1300.0, 1250.0, 1100.0][:teams]
    ranks = [1, 0, 1, 2][:teams]
    elo = table(start)
    expected = list(start)
    elo.update(np.arange(teams)[None], np.array([ranks]))
    for one, other in itertools.combinations(range(teams), 2):
        result = (1 + np.sign(ranks[other] - ranks[one])) / 2
        change = 16.0 / (teams - 1) * (result - chance(start[one], start[other]))
        expected[one] += change
        expected[other] -= change
    assert ratings_of(elo) == pytest.approx(expected, abs=1e-9)


# ------------------------------------------------------------ advantages of teams


def test_one_match_moves_ratings_and_advantages_by_the_formula():
    """K = 16 and a quarter of it; the second match of the same seats expects what the first one taught."""
    elo = table([1200.0, 1200.0], sides=(0, 0))
    rating = 1200.0
    advantage = 0.0
    for _ in range(3):
        surprise = 1 - 1 / (1 + 10 ** (-(2 * (rating - 1200.0) + 2 * advantage) / 400))
        rating = rating + 16 * surprise
        advantage = advantage + 4 * surprise
        elo.update(np.array([[0, 1]]), np.array([[0, 1]]))
        assert ratings_of(elo) == pytest.approx([rating, 2400 - rating])
        assert elo.advantages == pytest.approx([advantage, -advantage])


# ------------------------------------------------------------ fits of all matches


def test_the_fit_is_that_of_hunters_algorithm():
    """Hunter (2004), eq. 3, on the games and the drawn games of the prior; each pair plays both teams equally often."""
    log = log_of("abc")
    results = np.array([[0, 30, 14], [10, 0, 8], [2, 24, 0]])
    for one, other in itertools.permutations(range(3), 2):
        half = np.full(results[one, other] // 2, 1)[:, None]
        log.add(1, half * [one, other], half * [0, 1])
        log.add(1, half * [other, one], half * [1, 0])
    games = results + results.T
    share = 1 / games.sum(1)
    drawn = games * (share[:, None] + share) / 2
    wins = (results + drawn / 2).sum(1)
    games = games + drawn
    strengths = np.ones(3)
    for _ in range(5000):
        strengths = wins / (games / (strengths[:, None] + strengths)).sum(1)
    expected = 400 * np.log10(strengths / strengths[1]) + 500
    fit = bradley_terry(log.matches(), "b", initial=500.0)
    assert fit.ratings == pytest.approx(dict(zip("abc", expected, strict=True)), abs=1e-6)
    assert fit.advantages == pytest.approx((0.0, 0.0), abs=1e-6)


def test_unbeaten_players_stay_finite_and_unconnected_ones_have_no_rating():
    matches = [[1, 0]] * 50 + [[0, 2]] * 5 + [[3, 4]] * 5
    log = log_of(("anchor", "best", "worst", "far", "away", "idle"), (matches, [[0, 1]] * 60))
    fit = bradley_terry(log.matches(), "anchor").ratings
    assert fit.keys() == {"anchor", "best", "worst"} and fit["anchor"] == 1200.0
    assert fit["worst"] < 1100 < 1500 < fit["best"] < 2500
    assert bradley_terry(log.matches(), "idle").ratings == {"idle": 1200.0}


def test_weng_lin_is_openskill_in_the_order_of_the_log():
    from openskill.models import PlackettLuce

    log = MatchLog(3)
    model = PlackettLuce()
    ratings = [[model.rating()] for _ in range(4)]
    for index in range(4):
        log.player(str(index))
    played = [((0, 1, 3), (0, 1, 2)), ((1, 2, 0), (0, 0, 1)), ((2, 0, 3), (0, 2, 1)), ((2, 1, 3), (1, 0, 1))]
    for step, (players, ranks) in enumerate(played):
        log.add(step, np.array([players]), np.array([ranks]))
        rated = model.rate([ratings[each] for each in players], ranks=list(ranks))
        for player, rating in zip(players, rated, strict=True):
            ratings[player] = rating
    for index, skill in enumerate(weng_lin(log.matches()).values()):
        assert (skill.mu, skill.sigma) == pytest.approx((ratings[index][0].mu, ratings[index][0].sigma))


def test_weng_lin_leaves_out_matches_against_oneself_and_thins_long_logs():
    log = log_of(("alone", "a", "b"), ([[0, 0]] * 9, [[0, 1]] * 9))
    assert weng_lin(log.matches()) == {}
    log.add(2, np.array([[1, 2]] * 100_000), np.array([[0, 1], [0, 1], [0, 1], [1, 0]] * 25_000))
    skills = weng_lin(log.matches(), at_most=400)
    assert skills.keys() == {"a", "b"}
    assert 0.6 < expected_score((skills["a"].mu - skills["b"].mu) * 400 / 25) < 0.95
