"""Ratings against the textbook, closed-form win probabilities and simulated players of known strength."""

import itertools

import numpy as np
import pytest
from playing_bots import chance, random_pairs

from rlcore_ghost.ratings.fits import bradley_terry, weng_lin
from rlcore_ghost.selfplay.elo import EloTable, expected_score
from rlcore_ghost.selfplay.match_log import MatchLog


def textbook(ratings, player, opponent, result, k):
    """One game of sequential Elo; ratings is a dict."""
    change = k * (result - chance(ratings[player], ratings[opponent]))
    ratings[player] += change
    ratings[opponent] -= change


def table(ratings, k=16.0):
    elo = EloTable(1200.0, k)
    for index, rating in enumerate(ratings):
        elo.add(index, rating)
    return elo


def ratings_of(elo):
    return [elo.rating(index) for index in range(len(elo))]


RESULTS = {(0, 1): 1.0, (1, 0): 0.0, (0, 0): 0.5, (1, 1): 0.5}


@pytest.mark.parametrize("k", [1.0, 16.0, 32.0, 64.0])
@pytest.mark.parametrize(("ranks", "result"), list(RESULTS.items()))
def test_one_match_is_the_textbooks_formula(k, ranks, result):
    elo, expected = table([1300.0, 1180.0, 900.0], k), {0: 1300.0, 1: 1180.0, 2: 900.0}
    elo.update(np.array([[0, 1]]), np.array([ranks]))
    textbook(expected, 0, 1, result, k)
    assert ratings_of(elo) == pytest.approx(list(expected.values()), abs=1e-9)


def test_matches_one_after_the_other_are_sequential_elo():
    rng = np.random.default_rng(2)
    elo, expected = table([1200.0] * 6), dict.fromkeys(range(6), 1200.0)
    for _ in range(2000):
        one, other = rng.choice(6, 2, replace=False)
        ranks = [(0, 1), (1, 0), (0, 0)][rng.integers(3)]
        elo.update(np.array([[one, other]]), np.array([ranks]))
        textbook(expected, one, other, RESULTS[ranks], 16.0)
    assert ratings_of(elo) == pytest.approx(list(expected.values()), abs=1e-6)


def test_matches_of_different_players_at_once_are_as_if_one_after_the_other():
    elo, expected = table([1000.0, 1200.0, 1500.0, 1400.0]), {0: 1000.0, 1: 1200.0, 2: 1500.0, 3: 1400.0}
    elo.update(np.array([[0, 1], [3, 2]]), np.array([[0, 1], [1, 1]]))
    textbook(expected, 0, 1, 1.0, 16.0)
    textbook(expected, 3, 2, 0.5, 16.0)
    assert ratings_of(elo) == pytest.approx(list(expected.values()), abs=1e-9)


@pytest.mark.parametrize("k", [1.0, 16.0, 40.0])
@pytest.mark.parametrize("wins", [500, 750, 1000])
def test_a_thousand_matches_at_once_equal_sequential_play_in_expectation(k, wins):
    elo = table([1200.0, 1250.0], k)
    elo.update(np.array([[0, 1]] * 1000), np.array([[0, 1]] * wins + [[1, 0]] * (1000 - wins)))
    ends = []
    rng = np.random.default_rng(5)
    for _ in range(100):
        ratings = {0: 1200.0, 1: 1250.0}
        for result in rng.permutation([1.0] * wins + [0.0] * (1000 - wins)):
            textbook(ratings, 0, 1, result, k)
        ends.append(ratings[0])
    spread = np.std(ends) / 10  # of the mean of 100
    # The noise of single games moves the mean, because the win probability is a curve.
    assert elo.rating(0) == pytest.approx(np.mean(ends), abs=4 * spread + 0.015 * abs(np.mean(ends) - 1200.0) + k / 16)


def test_no_batch_overshoots_the_rating_that_explains_it():
    """75% against a player of equal rating: 190.8 points at most, approached from below, whatever the batch."""
    exact, before = 400 * np.log10(3), 0.0
    for size in (4, 40, 400, 4000, 40_000):
        elo = table([1200.0, 1200.0])
        elo.update(np.array([[0, 1]] * size), np.array([[0, 1], [0, 1], [0, 1], [1, 0]] * (size // 4)))
        gap = elo.rating(0) - elo.rating(1)
        assert before <= gap <= exact + 1e-9
        before = gap
    assert before == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("teams", [2, 3, 4])
def test_the_sum_of_ratings_stays_for_any_number_of_teams_and_draws(teams):
    """Gate R4; players meet themselves too, as in self-play."""
    rng = np.random.default_rng(teams)
    elo = table(rng.uniform(800, 1800, 9))
    before = sum(ratings_of(elo))
    for _ in range(1000):
        size = rng.integers(1, 65)
        elo.update(rng.integers(0, 9, (size, teams)), rng.integers(0, teams, (size, teams)))
        assert sum(ratings_of(elo)) == pytest.approx(before, abs=1e-6)
    assert np.ptp(ratings_of(elo)) > 1.0


def test_a_player_against_itself_changes_nothing():
    elo = table([1200.0, 1300.0, 1400.0])
    elo.update(np.array([[1, 1]] * 50), np.array([[0, 1]] * 50))
    assert ratings_of(elo) == [1200.0, 1300.0, 1400.0]
    elo.update(np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64))
    assert ratings_of(elo) == [1200.0, 1300.0, 1400.0]


@pytest.mark.parametrize("teams", [3, 4])
def test_a_match_of_many_teams_is_a_game_of_each_pair_with_a_share_of_k(teams):
    start = [1200.0, 1300.0, 1250.0, 1100.0][:teams]
    ranks = [1, 0, 1, 2][:teams]
    elo = table(start)
    elo.update(np.arange(teams)[None], np.array([ranks]))
    expected = list(start)
    for one, other in itertools.combinations(range(teams), 2):
        result = 1.0 if ranks[one] < ranks[other] else 0.5 if ranks[one] == ranks[other] else 0.0
        change = 16.0 / (teams - 1) * (result - chance(start[one], start[other]))
        expected[one] += change
        expected[other] -= change
    assert ratings_of(elo) == pytest.approx(expected, abs=1e-9)


def test_a_pinned_player_keeps_its_rating():
    """Gate R6: the anchor holds the scale, and its opponents change as usual."""
    elo, expected = EloTable(), {0: 1200.0, 1: 1200.0}
    elo.add(0, pinned=True)
    elo.add(1)
    for _ in range(100):
        elo.update(np.array([[0, 1]]), np.array([[1, 0]]))
        expected[1] += 16.0 * (1.0 - chance(expected[1], 1200.0))
    assert elo.rating(0) == 1200.0
    assert elo.rating(1) == pytest.approx(expected[1])


def test_ratings_survive_a_resume_bit_for_bit():
    elo = table([1200.0, 1300.0])
    elo.add(2, pinned=True)
    elo.update(np.array([[0, 1], [1, 2]]), np.array([[0, 1], [0, 1]]))
    other = EloTable()
    other.load_state_dict(elo.state_dict())
    for each in (elo, other):
        each.update(np.array([[2, 0], [1, 2]]), np.array([[0, 1], [0, 1]]))
    assert ratings_of(other) == ratings_of(elo)


def test_players_are_added_in_order():
    elo = table([1200.0])
    with pytest.raises(ValueError, match="the next player is 1, not 2"):
        elo.add(2)
    with pytest.raises(IndexError, match="player 1 has no rating"):
        elo.rating(1)


def simulated(strengths, games, seed=0, live=None):
    """A log of random pairs of players of known strength; `live` rates the same matches."""
    points = np.array(strengths)
    names = [f"bot{index}" for index in range(len(points))]
    return random_pairs(names, games, seed, lambda a, b, rng: rng.random(len(a)) < chance(points[a], points[b]), live)


STRENGTHS = [1200.0 + 150 * index for index in range(8)]


@pytest.mark.parametrize("seed", range(5))
def test_live_ratings_predict_as_the_fit_does_after_5000_games(seed):
    """Gate R2: expected results by live Elo (K = 16) and by Bradley-Terry differ by at most 0.05 in the mean."""
    live = table([1200.0] * 8)
    fit = bradley_terry(simulated(STRENGTHS, 5000, seed, live), "bot0").ratings
    gaps, errors = [], []
    for one, other in itertools.combinations(range(8), 2):
        fitted = chance(fit[f"bot{one}"], fit[f"bot{other}"])
        gaps.append(abs(chance(live.rating(one), live.rating(other)) - fitted))
        errors.append(abs(fitted - chance(STRENGTHS[one], STRENGTHS[other])))
    assert np.mean(gaps) <= 0.05
    assert max(gaps) <= 0.15
    assert np.mean(errors) <= 0.02


def test_the_fit_finds_known_strengths_from_exact_results():
    """Results in the exact proportions of the closed form, with draws; many games, so that the prior is small."""
    log, strengths = MatchLog(2), [1200.0, 1300.0, 1550.0]
    for index in range(3):
        log.player(str(index))
    for one, other in itertools.combinations(range(3), 2):
        size, drawn = 100_000, 20_000
        wins = round(size * chance(strengths[one], strengths[other]) - drawn / 2)
        ranks = np.array([[0, 1]] * wins + [[0, 0]] * drawn + [[1, 0]] * (size - drawn - wins))
        log.add(1, np.array([[one, other]] * size), ranks)
    fit = bradley_terry(log, "0").ratings
    assert fit == pytest.approx({"0": 1200.0, "1": 1300.0, "2": 1550.0}, abs=0.1)


def test_the_fit_is_that_of_hunters_algorithm():
    """Hunter (2004), eq. 3, on the games and the drawn games of the prior; each pair plays both teams equally often."""
    log, results = MatchLog(2), np.array([[0, 30, 14], [10, 0, 8], [2, 24, 0]])
    for name in "abc":
        log.player(name)
    for one, other in itertools.permutations(range(3), 2):
        half = np.full(results[one, other] // 2, 1)[:, None]
        log.add(1, half * [one, other], half * [0, 1])
        log.add(1, half * [other, one], half * [1, 0])
    games = results + results.T
    share = 1 / games.sum(1)
    drawn = games * (share[:, None] + share) / 2
    wins, games, strengths = (results + drawn / 2).sum(1), games + drawn, np.ones(3)
    for _ in range(5000):
        strengths = wins / (games / (strengths[:, None] + strengths)).sum(1)
    expected = 400 * np.log10(strengths / strengths[0]) + 1200
    fit = bradley_terry(log, "a")
    assert fit.ratings == pytest.approx(dict(zip("abc", expected, strict=True)), abs=1e-6)
    assert fit.advantages == pytest.approx((0.0, 0.0), abs=1e-6)


def test_the_advantage_of_a_team_is_not_taken_for_the_strength_of_its_players():
    """The first move is worth 200 points; player 0 moves first in nine of ten games, and is the weakest."""
    log, strengths, move = MatchLog(2), [1200.0, 1250.0, 1300.0], 200.0
    for index in range(3):
        log.player(str(index))
    for one, other in itertools.permutations(range(3), 2):
        size = {0: 90_000}.get(one, {0: 10_000}.get(other, 50_000))
        wins = round(size * chance(strengths[one] + move, strengths[other]))
        log.add(1, np.array([[one, other]] * size), np.array([[0, 1]] * wins + [[1, 0]] * (size - wins)))
    fit = bradley_terry(log, "0")
    assert fit.ratings == pytest.approx({"0": 1200.0, "1": 1250.0, "2": 1300.0}, abs=0.5)
    assert fit.advantages == pytest.approx((100.0, -100.0), abs=0.5)


def test_teams_that_cannot_be_told_from_their_players_have_no_advantage():
    """Two behaviors that never change sides."""
    log = MatchLog(2)
    log.player("striker"), log.player("goalie")
    log.add(1, np.array([[0, 1]] * 1000), np.array([[0, 1]] * 750 + [[1, 0]] * 250))
    fit = bradley_terry(log, "goalie")
    assert fit.ratings["striker"] == pytest.approx(1200 + 400 * np.log10(3), abs=1)
    assert fit.advantages == pytest.approx((0.0, 0.0), abs=0.5)


def test_the_anchor_is_pinned_and_other_anchors_only_shift_the_scale():
    """Gate R6."""
    log = simulated(STRENGTHS, 2000)
    first, last = bradley_terry(log, "bot0").ratings, bradley_terry(log, "bot7", initial=500.0).ratings
    assert (first["bot0"], last["bot7"]) == (1200.0, 500.0)
    shift = first["bot7"] - last["bot7"]
    assert {name: rating + shift for name, rating in last.items()} == pytest.approx(first, abs=1e-3)
    with pytest.raises(ValueError, match="the log has no player 'bot9'"):
        bradley_terry(log, "bot9")


def test_unbeaten_players_stay_finite_and_unconnected_ones_have_no_rating():
    log = MatchLog(2)
    for name in ("anchor", "best", "worst", "far", "away", "idle"):
        log.player(name)
    log.add(1, np.array([[1, 0]] * 50 + [[0, 2]] * 5 + [[3, 4]] * 5), np.array([[0, 1]] * 60))
    fit = bradley_terry(log, "anchor").ratings
    assert fit.keys() == {"anchor", "best", "worst"}
    assert fit["anchor"] == 1200.0
    assert fit["worst"] < 1100 < 1500 < fit["best"] < 2500
    assert bradley_terry(log, "idle").ratings == {"idle": 1200.0}


def test_the_fit_does_not_depend_on_the_order_of_matches():
    log, back = simulated(STRENGTHS, 400), MatchLog(2)
    for name in log.names:
        back.player(name)
    for row in reversed(range(len(log.count))):
        size = log.count[row]
        back.add(1, np.tile(log.players[row][::-1], (size, 1)), np.tile(log.ranks[row][::-1], (size, 1)))
    assert bradley_terry(back, "bot0").ratings == pytest.approx(bradley_terry(log, "bot0").ratings, abs=1e-6)


def test_weng_lin_orders_players_of_any_number_of_teams():
    rng, log = np.random.default_rng(0), MatchLog(4)
    for index in range(6):
        log.player(str(index))
    for step in range(400):
        players = rng.permutation(6)[None, :4]
        scores = players + rng.normal(0, 0.5, players.shape)
        log.add(step, players, np.argsort(np.argsort(-scores)))
    skills = weng_lin(log)
    means = [skills[str(index)].mu for index in range(6)]
    assert means == sorted(means)
    assert all(0 < skill.sigma < 25 / 3 for skill in skills.values())


def test_weng_lin_is_openskill_in_the_order_of_the_log():
    from openskill.models import PlackettLuce

    log, model = MatchLog(2), PlackettLuce()
    teams = [[model.rating()] for _ in range(3)]
    for index in range(3):
        log.player(str(index))
    for step, (one, other, ranks) in enumerate([(0, 1, (0, 1)), (1, 2, (0, 0)), (2, 0, (0, 1)), (2, 1, (1, 0))]):
        log.add(step, np.array([[one, other]]), np.array([ranks]))
        log.flush()
        teams[one], teams[other] = model.rate([teams[one], teams[other]], ranks=list(ranks))
    for index, skill in enumerate(weng_lin(log).values()):
        assert (skill.mu, skill.sigma) == pytest.approx((teams[index][0].mu, teams[index][0].sigma))


def test_weng_lin_leaves_out_matches_against_oneself_and_thins_long_logs():
    log = MatchLog(2)
    log.player("alone"), log.player("a"), log.player("b")
    log.add(1, np.array([[0, 0]] * 9), np.array([[0, 1]] * 9))
    assert weng_lin(log) == {}
    log.add(2, np.array([[1, 2]] * 100_000), np.array([[0, 1], [0, 1], [0, 1], [1, 0]] * 25_000))
    skills = weng_lin(log, at_most=400)
    assert skills.keys() == {"a", "b"}
    assert 0.6 < expected_score((skills["a"].mu - skills["b"].mu) * 400 / 25) < 0.95
