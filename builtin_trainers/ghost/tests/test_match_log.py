"""The match log: rows, versions of the learner, growth, and its state."""

from collections import Counter

import numpy as np
import pytest

from rlcore import RunStateError
from rlcore_ghost.ratings.standings import Standings
from rlcore_ghost.selfplay.match_log import MatchLog, snapshot_name, snapshot_parts


def array(*rows):
    return np.array(rows, np.int64)


def test_equal_matches_of_a_flush_are_one_row_in_sorted_order():
    log = MatchLog(2)
    me, old = log.player("Player"), log.player("bot")
    log.add(8, array([old, me], [me, old], [me, old]), array([0, 1], [1, 0], [0, 0]))
    log.add(16, array([me, old]), array([1, 0]))
    log.flush()
    assert log.step.tolist() == [16, 16, 16]
    assert log.players.tolist() == [[me, old], [me, old], [old, me]]
    assert log.ranks.tolist() == [[0, 0], [1, 0], [0, 1]]
    assert log.count.tolist() == [1, 2, 1]
    assert [each.dtype for each in (log.step, log.players, log.ranks, log.count)] == [
        np.int64,
        np.int32,
        np.int8,
        np.int64,
    ]


def test_every_match_is_counted_once_whatever_the_batches():
    rng = np.random.default_rng(1)
    log, expected = MatchLog(3), Counter()
    for name in ("Player", "Player@100", "minimax"):
        log.player(name)
    for step in range(200):
        players, ranks = rng.integers(0, 3, (rng.integers(0, 9), 3)), None
        ranks = rng.integers(0, 3, players.shape)
        log.add(step, players, ranks)
        expected.update((*p, *r) for p, r in zip(players.tolist(), ranks.tolist(), strict=True))
        if step % 7 == 0:
            log.flush()
    log.flush()
    got = Counter()
    for players, ranks, count in zip(log.players.tolist(), log.ranks.tolist(), log.count.tolist(), strict=True):
        got[(*players, *ranks)] += count
    assert got == expected
    rows = list(zip(log.step.tolist(), log.players.tolist(), log.ranks.tolist(), strict=True))
    assert rows == sorted(rows)
    assert len({str(row) for row in rows}) == len(rows)


def test_names_of_snapshots():
    assert snapshot_name("Player", 20000) == "Player@20000"
    assert snapshot_parts("Player@20000") == ("Player", 20000)
    assert snapshot_parts("A@1@2") == ("A@1", 2)
    assert snapshot_parts("Player@20000.3") == ("Player", 20000)
    assert [snapshot_parts(name) for name in ("Player", "@5", "Player@", "Player@new", "Player@-1", "x@²")] == [
        None
    ] * 6


def test_the_learner_is_another_player_after_each_of_its_snapshots():
    log = MatchLog(2)
    me, bot = log.player("Player"), log.player("bot")
    wins = array([me, bot]), array([0, 1])
    log.add(10, *wins)
    log.player("Player@20")  # a snapshot: the pending match was played before it
    log.add(30, *wins)
    log.flush()
    log.add(35, *wins)
    log.player("Goalie@5")  # a snapshot of a learner that is not in this log
    log.add(39, array([me, me]), array([0, 1]))
    log.player("Player@40")
    log.add(41, *wins)
    matches = log.matches()
    assert matches.names == ("Player", "bot", "Player@20", "Goalie@5", "Player@40", "Player@20+", "Player@40+")
    rows = [([matches.names[each] for each in row]) for row in matches.players.tolist()]
    assert rows == [
        ["Player", "bot"],
        ["Player@20+", "bot"],
        ["Player@20+", "bot"],
        ["Player@20+", "Player@20+"],
        ["Player@40+", "bot"],
    ]
    assert log.players[:, 0].tolist() == [me] * 5  # the log itself keeps the learner's name


def test_two_snapshots_of_one_step_have_versions_of_their_own():
    log = MatchLog(2)
    me, bot = log.player("Player"), log.player("bot")
    for name in ("Player@20", "Player@20.1"):
        log.player(name)
        log.add(21, array([me, bot]), array([0, 1]))
    assert log.matches().names[4:] == ("Player@20+", "Player@20.1+")


def test_wins_and_draws_of_each_pair_for_three_teams():
    log = MatchLog(3)
    a, b, c = (log.player(name) for name in "abc")
    log.add(1, array([a, b, c], [b, b, a], [c, a, b]), array([0, 1, 1], [0, 2, 1], [2, 1, 0]))
    matches = log.matches()
    # a beats b and c, b = c; b beats a once and loses to it once; b beats a and c, a beats c
    assert matches.wins.tolist() == [[0, 2, 2], [2, 0, 1], [0, 0, 0]]
    assert matches.draws.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert matches.games.tolist() == [[0, 4, 2], [4, 0, 2], [2, 2, 0]]


def test_an_empty_log_and_empty_batches():
    log = MatchLog(2)
    log.add(5, np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64))
    log.flush()
    assert len(log.step) == 0
    assert log.matches().names == ()
    other = MatchLog(2)
    other.load_state_dict(log.state_dict())
    assert other.matches().games.shape == (0, 0)


@pytest.mark.parametrize(
    ("players", "ranks", "message"),
    [
        (array([0, 1, 0]), array([0, 1, 1]), r"players \(1, 3\) and ranks \(1, 3\): both must be \[M, 2\]"),
        (array([0, 1]), array([0], [1]), "both must be"),
        (array([0, 2]), array([0, 1]), "the log has 2 players"),
        (array([-1, 1]), array([0, 1]), "the log has 2 players"),
        (array([0, 1]), array([0, 2]), "ranks: must be from 0 to 1"),
        (array([0, 1]), array([-1, 0]), "ranks: must be from 0 to 1"),
    ],
)
def test_bad_matches_are_refused_and_not_added(players, ranks, message):
    log = MatchLog(2)
    log.player("a"), log.player("b")
    with pytest.raises(ValueError, match=message):
        log.add(1, players, ranks)
    log.flush()
    assert len(log.count) == 0


def played(log, updates, rng):
    names = len(log.names)
    for update in updates:
        players = rng.integers(0, names, (5, log.teams))
        log.add(update * 10, players, rng.integers(0, log.teams, players.shape))
        if update % 2:
            log.flush()
        if update % 50 == 49:
            log.player(snapshot_name("Player", update * 10))


def equal(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("stop", [0, 1, 2, 149, 150, 300])
def test_a_resumed_log_is_equal_to_one_that_never_stopped(stop):
    """Pending matches and rows that were merged included: the log is small, so it merges rows several times."""
    logs = []
    for resumed in (False, True):
        log, rng = MatchLog(3, max_rows=300), np.random.default_rng(3)
        for name in ("Player", "Player@0", "bot"):
            log.player(name)
        played(log, range(stop), rng)
        if resumed:
            state = log.state_dict()
            log = MatchLog(3)
            log.load_state_dict(state)
            assert equal(log.state_dict(), state)
        played(log, range(stop, 301), rng)
        logs.append(log)
    assert equal(logs[0].state_dict(), logs[1].state_dict())


def test_the_state_is_a_copy():
    log = MatchLog(2)
    log.player("a"), log.player("b")
    log.add(1, array([0, 1]), array([0, 1]))
    state = log.state_dict()
    log.add(2, array([0, 1]), array([0, 1]))
    log.flush()
    log.player("c")
    assert state["names"] == ["a", "b"]
    assert len(state["pending"]["players"]) == 1
    assert len(state["rows"]["count"]) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.update(teams=3), "the match log has 3 teams, and the game 2"),
        (lambda state: state.update(names=["a", "a"]), "'names' has a name twice"),
        (lambda state: state.update(names=["a"]), "a player without a name"),
        (lambda state: state["rows"].update(count=np.full(1, 2**62)), "'count' has a number that is not from 0 to"),
        (lambda state: state["rows"].update(count=np.full(1, -1)), "'count' has a number"),
        (lambda state: state["rows"].update(known=np.full(1, 3, np.int32)), "'known' has a number that is not from 0"),
        (lambda state: state["rows"].update(ranks=np.full((1, 2), 2, np.int8)), "'ranks' has a rank that is not from"),
        (lambda state: state.update(not_zero_sum=2**62), "matches or more"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(change, message):
    log = MatchLog(2)
    log.player("a"), log.player("b")
    log.add(1, array([0, 1]), array([0, 1]))
    log.flush()
    log.add(2, array([1, 0]), array([0, 1]))
    before, state = log.state_dict(), log.state_dict()
    change(state)
    with pytest.raises(RunStateError, match=message):
        log.load_state_dict(state)
    assert equal(log.state_dict(), before)


def test_a_log_of_more_players_than_tables_hold_is_refused():
    """30,000 names; a table of them would take 7 GB."""
    log = MatchLog(2)
    for number in range(30_000):
        log.player(f"bot {number}")
    log.add(1, array([0, 1]), array([0, 1]))
    with pytest.raises(RunStateError, match="has 30,000 players; at most 6,000 are rated"):
        Standings.of(log)


def test_a_long_run_keeps_the_log_small_and_loses_no_match_of_any_version():
    """20,000 flushes; ten snapshots. Without merging, the log would have about 100,000 rows."""
    log, rng = MatchLog(2, max_rows=1000), np.random.default_rng(0)
    log.player("Player")
    expected: Counter[tuple[str, str, int]] = Counter()
    for update in range(20_000):
        if update % 2000 == 0:
            log.player(snapshot_name("Player", update))
        players = np.stack((np.zeros(5, np.int64), rng.integers(1, len(log.names), 5)), 1)
        ranks = np.eye(2, dtype=np.int64)[rng.integers(0, 2, 5)]
        log.add(update + 1, players, ranks)
        log.flush()
        version = f"Player@{update - update % 2000}+"
        expected.update((version, log.names[p], int(r)) for p, r in zip(players[:, 1], ranks[:, 0], strict=True))
    assert len(log.count) <= 1000
    matches, got = log.matches(), Counter()
    for players, ranks, count in zip(matches.players.tolist(), matches.ranks, matches.count.tolist(), strict=True):
        got[(matches.names[players[0]], matches.names[players[1]], int(ranks[0]))] += count
    assert got == expected
    assert (np.diff(log.step) >= 0).all()
    assert log.step[-1] == 20_000


def test_a_log_whose_rows_cannot_be_merged_grows():
    log = MatchLog(2, max_rows=4)
    for step in range(100):
        index = log.player(f"Player@{step}")
        log.add(step, array([index, 0]), array([0, 1]))
        log.flush()
    assert log.count.sum() == len(log.count) == 100
