"""The match log of a run: who played whom, how it ended, and when. ``rlcore ratings`` computes from it.

A *player* is a policy with a name: the learner of a behavior (``"Player"``), one of its snapshots (``"Player@20000"``,
the policy of step 20,000), or a fixed opponent (``"minimax"``). A *match* has T teams, each played by one player, and
ends with a rank for each team.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import attrs
import numpy as np

from rlcore import RunStateError, SavedValueError, saved_array, saved_count, saved_entry, saved_mapping
from rlcore_ghost.arrays import Bools, Ints

__all__ = ["STATE_ENTRY", "MatchLog", "Matches", "meetings", "snapshot_parts"]

# The entry of the state of the first self-play behavior (by name) that holds the log and the live ratings of a run:
# {"log": MatchLog.state_dict(), "elo": EloTable.state_dict()}.
STATE_ENTRY: Final = "self_play_log"
# Rows before those between two snapshots are added up; 26 bytes each for two teams.
MAX_ROWS: Final = 2**17
# Players of whom tables [P, P] are made, 0.3 GB each: snapshots, and the learner after each of them.
MAX_RATED: Final = 6_000
MAX_MATCHES: Final = 2**53  # of a row; a float counts them exactly
_SNAPSHOT: Final = re.compile(r"(?P<learner>.+)@(?P<step>[0-9]{1,18})(\.[0-9]{1,18})?", re.DOTALL)
_COLUMNS: Final = {
    "step": np.int64,
    "players": np.int32,
    "ranks": np.int8,
    "count": np.int64,
    "known": np.int32,
}
_OF_TEAMS: Final = ("players", "ranks")  # columns with a number for each team


def snapshot_parts(name: str) -> tuple[str, int] | None:
    """Return the learner and the step of the snapshot called ``name``; None if it is not the name of a snapshot.

    A second snapshot of a step has a number after it: ``"Player@20000.2"``.
    """
    match = _SNAPSHOT.fullmatch(name)
    if match is None:
        return None
    return match["learner"], int(match["step"])


def meetings(ranks: Ints) -> tuple[Ints, Ints, Ints]:
    """The pairs of teams that met in matches with these ``ranks`` [M, T].

    Returns the first team and the second team of each pair, two arrays [pairs], and the result of the first one in each
    match [M, pairs]: 1 if it won, 0 for a draw, -1 if it lost.
    """
    first, second = np.triu_indices(ranks.shape[1], 1)
    wide = ranks.astype(np.int64)  # small unsigned ranks would wrap below 0
    difference = wide[:, second] - wide[:, first]
    return first, second, np.sign(difference)


@attrs.frozen(eq=False, slots=False)
class Matches:
    """Matches between players that do not change. P is the number of players, T the number of teams.

    Attributes:
        names: The P players.
        step: [rows] the learner's step when they were added, or at the last ones between two snapshots.
        players: [rows, T] index in ``names`` of the player of each team.
        ranks: [rows, T] rank of each team: 0 is best, equal ranks are a draw.
        count: [rows] number of such matches.
    """

    names: tuple[str, ...]
    step: Ints
    players: Ints
    ranks: Ints
    count: Ints

    @property
    def wins(self) -> Ints:
        """[P, P] how often the player of the row was ranked before the player of the column. The diagonal is 0."""
        return self._pairs[0]

    @property
    def draws(self) -> Ints:
        """[P, P] how often both players had one rank; symmetric. The diagonal is 0."""
        return self._pairs[1]

    @property
    def games(self) -> Ints:
        """[P, P] how often two players met in opposing teams; symmetric. A match of T teams has T(T - 1)/2 pairs."""
        games: Ints = self.wins + self.wins.T + self.draws
        return games

    def by_generation(self) -> Matches:
        """Return the matches with one player for a snapshot and the learner after it (``"Player@20000+"``).

        Snapshots do not play each other while they are trained, but generations do, so that cycles can be found.
        """
        index = {name: number for number, name in enumerate(self.names)}
        generation = np.arange(len(self.names))
        for name, number in index.items():
            snapshot = name.removesuffix("+")
            if snapshot_parts(snapshot):
                generation[number] = index.get(snapshot, number)
        return attrs.evolve(self, players=generation[self.players])

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints]:
        """The wins and the draws [P, P]."""
        size = len(self.names)
        if size > MAX_RATED:
            raise RunStateError(f"the match log has {size:,} players; at most {MAX_RATED:,} are rated")
        first, second, result = meetings(self.ranks)
        player = self.players[:, first]
        opponent = self.players[:, second]
        count = np.broadcast_to(self.count[:, None], player.shape)
        different = player != opponent
        wins = np.zeros((size, size), np.int64)
        draws = np.zeros((size, size), np.int64)

        def add(table: Ints, rows: Ints, columns: Ints, chosen: Bools) -> None:
            # Two players may meet in several rows of the log, so indices repeat.
            chosen = chosen & different
            cells = (rows[chosen], columns[chosen])
            np.add.at(table, cells, count[chosen])

        add(wins, player, opponent, result > 0)
        add(wins, opponent, player, result < 0)
        add(draws, player, opponent, result == 0)
        return wins, draws + draws.T


class MatchLog:
    """All matches of a run with ``teams`` teams.

    A learner changes, and keeps its name. :meth:`matches` therefore splits it into one player for each interval between
    two of its snapshots: register a snapshot with :meth:`player` when it is taken, and later matches of the learner
    count for the player ``"Player@20000+"``, the learner after its snapshot of step 20,000. Before its first snapshot,
    the learner is the player ``"Player"``.

    A row counts equal matches that were added together. Beyond ``max_rows`` rows, equal matches between two snapshots
    become one row; the log then grows with the number of snapshots only.

    Attributes:
        teams: T, the number of teams.
        names: The players by index.
        rows: The rows by column: those of :class:`Matches`, and how many players were ``known`` at the time [rows].
        not_zero_sum: Matches whose results did not add up to zero (two winners, for example).
    """

    def __init__(self, teams: int, max_rows: int = MAX_ROWS) -> None:
        if not 2 <= teams <= 127:
            raise ValueError(f"teams: must be between 2 and 127, is {teams}")
        self.teams = teams
        self.names: list[str] = []
        self.not_zero_sum = 0
        self._index: dict[str, int] = {}
        self._max_rows = max_rows
        self.rows: dict[str, Ints] = {}
        for name, dtype in _COLUMNS.items():
            shape = (0, teams) if name in _OF_TEAMS else (0,)
            self.rows[name] = np.zeros(shape, dtype)

    def player(self, name: str) -> int:
        """Return the index of the player ``name``, which is added if it is new."""
        index = self._index.setdefault(name, len(self.names))
        if index == len(self.names):
            self.names.append(name)
        return index

    def add(self, step: int, players: Ints, ranks: Ints) -> None:
        """Add M matches that ended by the learner's ``step``; equal ones become one row, sorted by players and ranks.

        ``players`` [M, T] is the index of each team's player, and ``ranks`` [M, T] the rank of each team: 0 is best,
        equal ranks are a draw.
        """
        if not len(players):
            return
        size = len(players)
        added = self._merged(
            {
                "step": np.full(size, step),
                "players": players,
                "ranks": ranks,
                "count": np.full(size, 1),
                "known": np.full(size, len(self.names)),
            }
        )
        for name, column in self.rows.items():
            new = added[name].astype(column.dtype)
            self.rows[name] = np.concatenate((column, new))
        if len(self.rows["count"]) > self._max_rows:
            self.rows = self._merged(self.rows)
            # Twice as many before the next time, so that a log that cannot shrink is not sorted with every addition.
            twice = 2 * len(self.rows["count"])
            self._max_rows = max(self._max_rows, twice)

    def matches(self) -> Matches:
        """Return all matches, with each learner as one player between two of its snapshots."""
        columns = {name: column.copy() for name, column in self.rows.items()}
        known = columns.pop("known")
        logged = self.rows["players"]
        names = list(self.names)
        for learner, snapshots in self._snapshots().items():
            rows, team = np.nonzero(logged == learner)
            version = np.searchsorted(snapshots, known[rows])  # number of snapshots that were known then
            for number in np.unique(version[version > 0]):
                of_version = version == number
                cells = (rows[of_version], team[of_version])
                columns["players"][cells] = len(names)
                latest = snapshots[number - 1]
                names.append(f"{self.names[latest]}+")
        return Matches(tuple(names), **columns)

    def _snapshots(self) -> dict[int, list[int]]:
        """The snapshots of each learner in the log, in the order in which they were added."""
        snapshots: dict[int, list[int]] = {}
        for index, name in enumerate(self.names):
            parts = snapshot_parts(name)
            if parts is not None and parts[0] in self._index:
                learner = self._index[parts[0]]
                snapshots.setdefault(learner, []).append(index)
        return snapshots

    def state_dict(self) -> dict[str, Any]:
        """Return arrays and JSON values."""
        return {
            "teams": self.teams,
            "names": list(self.names),
            "not_zero_sum": self.not_zero_sum,
            "max_rows": self._max_rows,
            "rows": {name: column.copy() for name, column in self.rows.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, if the state does not fit."""
        teams = saved_count(state, "teams")
        names = saved_entry(state, "names")
        if teams != self.teams:
            raise SavedValueError(f"the match log has {teams} teams, and the game {self.teams}")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise SavedValueError("the entry 'names' is not a list of names")
        if len(set(names)) != len(names):
            raise SavedValueError("the entry 'names' has a name twice")
        not_zero_sum = saved_count(state, "not_zero_sum")
        max_rows = saved_count(state, "max_rows")
        saved = saved_mapping(state, "rows")
        size = len(saved_array(saved, "step", np.int64, (None,)))
        rows = {}
        for name, column in self.rows.items():
            shape = (size, *column.shape[1:])
            rows[name] = saved_array(saved, name, column.dtype, shape).copy()
        ends = {
            "step": 2**63,
            "players": len(names),
            "ranks": teams,
            "count": MAX_MATCHES,
            "known": len(names) + 1,
        }
        for name, end in ends.items():
            if size and not 0 <= rows[name].min() <= rows[name].max() < end:
                raise SavedValueError(f"the entry {name!r} has a number that is not from 0 to {end - 1}")
        self.names = list(names)
        self._index = {name: index for index, name in enumerate(names)}
        self.not_zero_sum = not_zero_sum
        self._max_rows = max_rows
        self.rows = rows

    def _merged(self, rows: Mapping[str, Ints]) -> dict[str, Ints]:
        """One row for equal matches between two snapshots. The step of all these rows is the last one among them."""
        # Sorted by what was known, then by players, then by ranks; lexsort takes the last key first.
        players = rows["players"].T[::-1]
        ranks = rows["ranks"].T[::-1]
        order = np.lexsort((*ranks, *players, rows["known"]))
        ordered = {name: column[order] for name, column in rows.items()}
        key = np.column_stack([ordered["known"], ordered["players"], ordered["ranks"]])
        differs = (key[1:] != key[:-1]).any(axis=1)
        starts = np.flatnonzero(np.append(True, differs))
        merged = {name: column[starts] for name, column in ordered.items()}
        merged["count"] = np.add.reduceat(ordered["count"], starts)
        known, interval = np.unique(ordered["known"], return_inverse=True)
        # Not the step of each: a merged row has matches of many steps.
        last_step = np.zeros(len(known), np.int64)
        np.maximum.at(last_step, interval, ordered["step"])
        merged["step"] = last_step[interval[starts]]
        return merged
