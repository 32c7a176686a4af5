"""The match log: rows, versions of the learner, growth, and its state; the order in which games come to it."""

from collections import Counter
from types import SimpleNamespace

import attrs
import numpy as np
import pytest
from resumed_games import difference

from rlcore_ghost.selfplay.finished_games import FinishedGames
from rlcore_ghost.selfplay.match_log import MatchLog, snapshot_parts


def array(*rows):
    return np.array(rows, np.int64)


def log_of(*names, teams=2, **options):
    log = MatchLog(teams, **options)
    for name in names:
        log.player(name)
    return log


def counted(names, matches):
    """How often each lineup, by name, had each ranks."""
    found = Counter()
    for players, ranks, times in zip(*(matches[each].tolist() for each in ("players", "ranks", "count")), strict=True):
        found[(*(names[player] for player in players), *ranks)] += times
    return found


def test_names_of_snapshots():
    assert snapshot_parts("A@1@2") == ("A@1", 2) and snapshot_parts("Player@20000.3") == ("Player", 20000)
    assert not any(map(snapshot_parts, ("Player", "@5", "Player@", "Player@new", "Player@-1", "x@²")))


def test_the_learner_is_another_player_after_each_of_its_snapshots():
    log = log_of("Player", "bot")
    wins = array([0, 1]), array([0, 1])
    log.add(10, *wins)
    log.player("Player@20")  # a snapshot: the match was played before it
    log.add(35, *(np.repeat(each, 2, 0) for each in wins))
    log.player("Goalie@5")  # a snapshot of a learner that is not in this log
    log.add(39, array([0, 0]), array([0, 1]))
    for name in ("Player@40", "Player@40.1"):  # two snapshots of one step have versions of their own
        log.player(name)
        log.add(41, *wins)
    matches = log.matches()
    assert matches.names[6:] == ("Player@20+", "Player@40+", "Player@40.1+")
    met = [" ".join(matches.names[each] for each in row) for row in matches.players.tolist()]
    assert met[:3] == ["Player bot", "Player@20+ bot", "Player@20+ Player@20+"]
    assert met[3:] == ["Player@40+ bot", "Player@40.1+ bot"] and matches.count.tolist() == [1, 2, 1, 1, 1]
    assert log.rows["players"][:, 0].tolist() == [0] * 5  # the log itself keeps the learner's name


def test_wins_and_draws_of_each_pair_for_three_teams():
    log = log_of("a", "b", "c", teams=3)
    log.add(1, array([0, 1, 2], [1, 1, 0], [2, 0, 1]), array([0, 1, 1], [0, 2, 1], [2, 1, 0]))
    matches = log.matches()
    # a beats b and c, b = c; b beats a once and loses to it once; b beats a and c, a beats c
    assert matches.wins.tolist() == [[0, 2, 2], [2, 0, 1], [0, 0, 0]]
    assert matches.draws.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert matches.games.tolist() == [[0, 4, 2], [4, 0, 2], [2, 2, 0]]


def played(log, updates, rng):
    names = len(log.names)
    for update in updates:
        players = rng.integers(0, names, (5, log.teams))
        log.add(update * 10, players, rng.integers(0, log.teams, players.shape))
        if update % 50 == 49:
            log.player(f"Player@{update * 10}")


@pytest.mark.parametrize("stop", [0, 1, 149, 150])
def test_a_resumed_log_is_equal_to_one_that_never_stopped(stop):
    """Rows that were merged included: the log is small, so it merges rows several times."""
    logs = []
    for resumed in (False, True):
        log = log_of("Player", "Player@0", "bot", teams=3, max_rows=300)
        rng = np.random.default_rng(3)
        played(log, range(stop), rng)
        if resumed:
            state = log.state_dict()
            played(log, range(3), np.random.default_rng(0))  # the state is a copy
            log = MatchLog(3)
            log.load_state_dict(state)
            assert difference(log.state_dict(), state) is None
        played(log, range(stop, 301), rng)
        logs.append(log)
    assert difference(logs[0].state_dict(), logs[1].state_dict()) is None


def test_a_long_run_keeps_the_log_small_and_loses_no_match_of_any_version():
    """5,000 updates; ten snapshots. Without merging, the log would have about 25,000 rows."""
    log = log_of("Player", max_rows=500)
    rng = np.random.default_rng(0)
    expected = Counter()
    for update in range(5000):
        if update % 500 == 0:
            log.player(f"Player@{update}")
        players = np.stack((np.zeros(5, np.int64), rng.integers(1, len(log.names), 5)), 1)
        ranks = np.eye(2, dtype=np.int64)[rng.integers(0, 2, 5)]
        log.add(update + 1, players, ranks)
        version = f"Player@{update - update % 500}+"
        expected.update((version, log.names[p], *r) for p, r in zip(players[:, 1], ranks.tolist(), strict=True))
    assert len(log.rows["count"]) <= 500
    matches = log.matches()
    assert counted(matches.names, attrs.asdict(matches)) == expected
    assert (np.diff(matches.step) >= 0).all() and matches.step[-1] == 5000


def test_games_of_two_processes_are_taken_in_the_order_of_one():
    """By step, and then by the number of the environment in the run, of which each process has three."""
    sent = []
    exchange = SimpleNamespace(size=2, all_gather=lambda own: sent.append(own) or sent)
    processes = [FinishedGames(2, exchange, first_env) for first_env in (0, 3)]
    for step, envs in enumerate(([1, 4], [0, 3, 5], [2]), 1):
        processes[0].step = processes[1].step = step
        for env in envs:
            rows = np.full((1, 2), 10 * step + env)
            processes[env // 3].add(array(env % 3), players=rows, ranks=rows, owners=rows, uneven=array(0))
    processes[0].take_of_all()
    assert processes[1].take_of_all()["players"][:, 0].tolist() == [11, 14, 20, 23, 25, 32]
