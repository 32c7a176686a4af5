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
from numpy.typing import NDArray

from rlcore import RunStateError, SavedValueError, saved_array, saved_count, saved_entry, saved_mapping

__all__ = ["STATE_ENTRY", "MatchLog", "Matches", "snapshot_parts"]

# The entry of the state of the first self-play behavior (by name) that holds the log and the live ratings of a run:
# {"log": MatchLog.state_dict(), "elo": EloTable.state_dict()}.
STATE_ENTRY: Final = "self_play_log"
# Rows before those between two snapshots are added up; 26 bytes each for two teams.
MAX_ROWS: Final = 2**17
# Players of whom tables [P, P] are made, 0.3 GB each: snapshots, and the learner after each of them.
MAX_RATED: Final = 6_000
MAX_MATCHES: Final = 2**53  # of a row; a float counts them exactly
_SNAPSHOT: Final = re.compile(r"(?P<learner>.+)@(?P<step>[0-9]{1,18})(\.[0-9]{1,18})?", re.DOTALL)
_COLUMNS: Final = {"step": np.int64, "players": np.int32, "ranks": np.int8, "count": np.int64, "known": np.int32}

Ints = NDArray[Any]


def snapshot_parts(name: str) -> tuple[str, int] | None:
    """Return the learner and the step of the snapshot called ``name``; None if it is not the name of a snapshot.

    A second snapshot of a step has a number after it: ``"Player@20000.2"``.
    """
    found = _SNAPSHOT.fullmatch(name)
    return (found["learner"], int(found["step"])) if found else None


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

    @cached_property
    def wins(self) -> NDArray[np.int64]:
        """[P, P] how often the player of the row was ranked before the player of the column. The diagonal is 0."""
        return self._pairs()[0]

    @cached_property
    def draws(self) -> NDArray[np.int64]:
        """[P, P] how often both players had one rank; symmetric. The diagonal is 0."""
        return self._pairs()[1]

    @property
    def games(self) -> NDArray[np.int64]:
        """[P, P] how often two players met in opposing teams; symmetric. A match of T teams has T(T - 1)/2 pairs."""
        games: NDArray[np.int64] = self.wins + self.wins.T + self.draws
        return games

    def by_generation(self) -> Matches:
        """Return the matches with one player for a snapshot and the learner after it (``"Player@20000+"``).

        Snapshots do not play each other while they are trained, but generations do, so that cycles can be found.
        """
        names = list(self.names)
        index = {name: each for each, name in enumerate(names)}
        of = np.arange(len(names))
        for name, each in index.items():
            of[each] = index.get(name.removesuffix("+"), each) if snapshot_parts(name.removesuffix("+")) else each
        return attrs.evolve(self, players=of[self.players])

    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        size = len(self.names)
        if size > MAX_RATED:
            raise RunStateError(f"the match log has {size:,} players; at most {MAX_RATED:,} are rated")
        first, second = np.triu_indices(self.players.shape[1], 1)
        # [rows, pairs of teams]
        one = self.players[:, first]
        other = self.players[:, second]
        order = np.sign(self.ranks[:, second] - self.ranks[:, first])
        count = np.broadcast_to(self.count[:, None], one.shape)
        wins = np.zeros((size, size), np.int64)
        draws = np.zeros((size, size), np.int64)
        for sign, table, row, column in ((1, wins, one, other), (-1, wins, other, one), (0, draws, one, other)):
            at = (order == sign) & (one != other)
            np.add.at(table, (row[at], column[at]), count[at])
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
        shapes = {"players": (0, teams), "ranks": (0, teams)}
        self.rows: dict[str, Ints] = {name: np.zeros(shapes.get(name, 0), dtype) for name, dtype in _COLUMNS.items()}

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
        each = {"step": step, "count": 1, "known": len(self.names)}
        columns = {name: np.full(len(players), value) for name, value in each.items()}
        added = self._added_up({**columns, "players": players, "ranks": ranks})
        self.rows = {
            name: np.concatenate((column, added[name].astype(column.dtype))) for name, column in self.rows.items()
        }
        if len(self.rows["count"]) > self._max_rows:
            self.rows = self._added_up(self.rows)
            self._max_rows = max(self._max_rows, 2 * len(self.rows["count"]))

    def matches(self) -> Matches:
        """Return all matches, with each learner as one player between two of its snapshots."""
        found = {name: column.copy() for name, column in self.rows.items()}
        known = found.pop("known")
        logged = self.rows["players"]
        names = list(self.names)
        players = found["players"]
        snapshots: dict[int, list[int]] = {}  # of each learner
        for index, name in enumerate(self.names):
            learner, _ = snapshot_parts(name) or ("", 0)
            if learner in self._index:
                snapshots.setdefault(self._index[learner], []).append(index)
        for learner_index, taken in snapshots.items():
            rows, team = np.nonzero(logged == learner_index)
            version = np.searchsorted(taken, known[rows])  # snapshots that were known then
            for each in np.unique(version[version > 0]):
                at = version == each
                players[rows[at], team[at]] = len(names)
                names.append(f"{self.names[taken[each - 1]]}+")
        return Matches(tuple(names), **found)

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
        rows = len(saved_array(saved, "step", np.int64, (None,)))
        columns = {
            name: saved_array(saved, name, empty.dtype, (rows, *empty.shape[1:])).copy()
            for name, empty in self.rows.items()
        }
        ends = {"step": 2**63, "players": len(names), "ranks": teams, "count": MAX_MATCHES, "known": len(names) + 1}
        for name, end in ends.items():
            if rows and not 0 <= columns[name].min() <= columns[name].max() < end:
                raise SavedValueError(f"the entry {name!r} has a number that is not from 0 to {end - 1}")
        self.names = list(names)
        self._index = {name: index for index, name in enumerate(names)}
        self.not_zero_sum = not_zero_sum
        self._max_rows = max_rows
        self.rows = columns

    def _added_up(self, rows: Mapping[str, Ints]) -> dict[str, Ints]:
        """One row for equal matches between two snapshots. The step of all these rows is the last one among them."""
        order = np.lexsort((*rows["ranks"].T[::-1], *rows["players"].T[::-1], rows["known"]))
        ordered = {name: column[order] for name, column in rows.items()}
        match = np.column_stack([ordered[name] for name in ("known", "players", "ranks")])
        starts = np.flatnonzero(np.any(match != np.roll(match, 1, axis=0), axis=1) | (np.arange(len(match)) == 0))
        merged = {name: column[starts] for name, column in ordered.items()}
        merged["count"] = np.add.reduceat(ordered["count"], starts)
        known, snapshot = np.unique(ordered["known"], return_inverse=True)
        last = np.zeros(len(known), np.int64)
        np.maximum.at(last, snapshot, ordered["step"])
        merged["step"] = last[snapshot[starts]]
        return merged
