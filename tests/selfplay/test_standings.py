"""Standings: who is stronger, the curve of the learner, cycles, Nash averaging, and results that are not zero-sum."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import yaml
from playing_bots import chance, play, rows, self_play

from rlcore_ghost.ratings.standings import Standings, default_anchor, nash_average
from rlcore_ghost.selfplay.match_log import MatchLog

CYCLE = ("ab", "bc", "ca")


def cycle_log(*results, pairs=CYCLE):
    """Each player of a pair has these wins, losses and draws against the other one."""
    log = MatchLog(2)
    for one, other in pairs:
        play(log, one, other, *results)
    return log


def test_strength_that_adds_up_has_no_cycle_and_the_best_player_alone_in_the_mixture():
    log = MatchLog(2)
    strengths = {"a": 1000.0, "b": 1100.0, "c": 1200.0, "d": 1300.0}
    for one, other in itertools.combinations(strengths, 2):
        wins = round(600 * chance(strengths[one], strengths[other]))
        play(log, one, other, wins, 600 - wins)
    standings = Standings.of(log)
    assert standings.pay_off.cycles == () and standings.pay_off.nash == pytest.approx({"d": 1.0})
    assert [(each.name, each.elo) for each in standings.players] == [(name, None) for name in "dcba"]


@pytest.mark.parametrize(("results", "share"), yaml.safe_load((Path(__file__).parent / "data/cycles.yaml").read_text()))
def test_a_cycle_needs_clear_results_of_enough_games(results, share):
    cycles = Standings.of(cycle_log(*results)).pay_off.cycles
    assert [each.players for each in cycles] == ([] if share is None else [("a", "b", "c")])
    assert all(each.shares == pytest.approx([share] * 3) for each in cycles)


@pytest.mark.parametrize(("second", "first_wins", "share"), [(1001, 0.7, None), (4, 0.6, 0.65), (2, 0.5, 0.7)])
def test_the_first_move_makes_no_cycle(second, first_wins, share):
    """Each player wins 70% against the next one; if it always moves first, the first move explains that.

    If it moves second in every fourth game, the first move wins 60%, which explains 5% of its games.
    """
    log = MatchLog(2)
    for name in "abc":
        log.player(name)
    for one, other in ((0, 1), (1, 2), (2, 0)):
        players = rows(*[(one, other)] * 1000)
        ranks = rows(*[(0, 1)] * 700, *[(1, 0)] * 300)
        players[::second], ranks[::second] = players[::second, ::-1], ranks[::second, ::-1]
        log.add(1, players, ranks)
    standings = Standings.of(log)
    assert standings.advantages[0] == pytest.approx(200 * np.log10(first_wins / (1 - first_wins)), abs=1)
    shares = [each.shares for each in standings.pay_off.cycles]
    assert shares == ([] if share is None else [pytest.approx([share] * 3, abs=2e-3)])
    assert standings.pay_off.shares[0, 1] == 0.7


def test_nash_average_of_closed_forms():
    rps = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], float)
    # Rock wins twice as much as the others: rock-paper-scissors with values 1, 1, 2 has the mixture 1/4, 1/2, 1/4.
    assert nash_average(np.array([[0, -1, 2], [1, 0, -1], [-2, 1, 0]], float)) == pytest.approx([0.25, 0.5, 0.25])
    copies = np.kron(rps, np.ones((2, 2)))  # every player twice: copies share the weight
    assert nash_average(copies) == pytest.approx(np.full(6, 1 / 6))
    dominated = np.pad(rps, (0, 1), constant_values=1.0)
    dominated[3] = [-1, -1, -1, 0]
    assert nash_average(dominated) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0.0], abs=1e-6)
    assert nash_average(np.zeros((1, 1))).tolist() == [1.0]


def test_the_mixture_does_not_rest_on_a_few_lucky_games():
    """The weak player won the only games against two others; alone, these results would put it into the mixture."""
    log = cycle_log(600, 400)
    for other, results in (("a", (50, 450)), ("b", (1, 0)), ("c", (1, 0))):
        play(log, "weak", other, *results)
    assert Standings.of(log).pay_off.nash == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}, abs=0.02)


def test_the_curve_of_a_learner_that_improves_rises_from_its_anchor():
    """The first snapshot stays where it was pinned, and the newest are far above it."""
    log, elo = self_play([40.0] * 12)
    standings = Standings.of(log, [elo.rating(index) for index in range(len(elo))])
    assert [point.step for point in standings.curve] == [1000 * number for number in range(12)]
    fitted = [point.bradley_terry - 1200.0 for point in standings.curve]
    assert standings.anchor == "Player@0" and fitted[0] == 0
    assert fitted[-1] == pytest.approx(11 * 40, abs=150)
    assert np.polyfit(range(12), fitted, 1)[0] == pytest.approx(40, abs=12)
    assert standings.players[0].name in ("Player@11000+", "Player@11000")
    (newest,) = (each for each in standings.players if each.name.endswith("+"))
    assert (newest.name, newest.elo) == ("Player@11000+", elo.rating(0))


def test_behaviors_that_play_each_other_have_a_curve_each_and_no_mixture():
    log = MatchLog(2)
    for name in ("Striker", "Goalie", "Striker@0", "Goalie@0"):
        log.player(name)
    play(log, "Striker", "Goalie@0", 60, 40, step=500)
    log.player("Striker@1000")
    play(log, "Goalie", "Striker@1000", 50, 50, step=1500)
    standings = Standings.of(log)
    curve = [(point.learner, point.step) for point in standings.curve]
    assert curve == [("Goalie", 0), ("Striker", 0), ("Striker", 1000)] and standings.pay_off.nash == {}
    assert [point.bradley_terry for point in standings.curve].count(None) == 2  # not connected with the anchor


def test_a_long_run_shows_its_newest_generations_and_all_fixed_opponents():
    log, elo = self_play([10.0] * 100, games=20)
    play(log, "Player", "minimax", 10, 10, step=99_999)
    pay_off = Standings.of(log, [elo.rating(index) for index in range(len(elo))]).pay_off
    assert len(pay_off.names) == 64
    assert {"minimax", "Player@99000"} <= set(pay_off.names) and "Player@0" not in pay_off.names
    np.testing.assert_allclose(pay_off.shares + pay_off.shares.T, np.where(pay_off.games > 0, 1.0, np.nan))


def test_the_anchor_without_snapshots_is_the_player_with_most_games():
    log = MatchLog(2)
    assert default_anchor(log.matches()) is None
    play(log, "a", "b", 10, 0)
    play(log, "b", "c", 0, 5)
    assert default_anchor(log.matches()) == "b"
