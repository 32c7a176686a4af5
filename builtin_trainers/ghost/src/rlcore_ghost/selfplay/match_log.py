"""The match log of a run: who played whom, how it ended, and when. All ratings are computed from it.

A *player* is a policy with a name: the learner of a behavior (``"Player"``), one of its snapshots (``"Player@20000"``,
the policy of step 20,000), or a fixed opponent (``"minimax"``). A *match* has T teams, each played by one player, and
ends with a rank for each team.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import RunStateError, SavedValueError, saved_array, saved_count, saved_entry, saved_mapping

__all__ = ["STATE_ENTRY", "MatchLog", "Matches", "snapshot_name", "snapshot_parts"]

# The entry of the state of the first self-play behavior (by name) that holds the log and the live ratings of a run:
# {"log": MatchLog.state_dict(), "elo": EloTable.state_dict()}.
STATE_ENTRY: Final = "self_play_log"
# Rows before rows of neighboring updates are added up; 26 bytes each for two teams.
MAX_ROWS: Final = 2**17
# Players of whom tables [P, P] are made, 0.3 GB each: snapshots, and the learner after each of them.
MAX_RATED: Final = 6_000
MAX_MATCHES: Final = 2**53  # which a float counts exactly
_SNAPSHOT: Final = re.compile(r"(?P<learner>.+)@(?P<step>[0-9]{1,18})(\.[0-9]{1,18})?", re.DOTALL)
_COLUMNS: Final = {"step": np.int64, "players": np.int32, "ranks": np.int8, "count": np.int64, "known": np.int32}

Ints = NDArray[Any]


def snapshot_name(learner: str, step: int) -> str:
    """Return the player name of the snapshot of ``learner`` at ``step``: ``"Player@20000"``."""
    return f"{learner}@{step}"


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
        step: [rows] the learner's step at the flush, or at the last one of a window of steps.
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
        size, teams = len(self.names), self.players.shape[1]
        if size > MAX_RATED:
            raise RunStateError(f"the match log has {size:,} players; at most {MAX_RATED:,} are rated")
        wins, draws = np.zeros((size, size), np.int64), np.zeros((size, size), np.int64)
        for first in range(teams):
            for second in range(first + 1, teams):
                one, other = self.players[:, first], self.players[:, second]
                order = np.sign(self.ranks[:, second] - self.ranks[:, first])
                for sign, table, row, column in ((1, wins, one, other), (-1, wins, other, one), (0, draws, one, other)):
                    at = (order == sign) & (one != other)
                    np.add.at(table, (row[at], column[at]), self.count[at])
        return wins, draws + draws.T


class MatchLog:
    """All matches of a run with ``teams`` teams. A match is added when it ends, and becomes part of a row at a flush.

    A learner changes, and keeps its name. :meth:`matches` therefore splits it into one player for each interval between
    two of its snapshots: register a snapshot with :meth:`player` when it is taken, and later matches of the learner
    count for the player ``"Player@20000+"``, the learner after its snapshot of step 20,000. Before its first snapshot,
    the learner is the player ``"Player"``.

    A row adds up equal matches of one flush. Beyond ``max_rows`` rows, the windows of steps that a row covers become
    wider, but never reach across a snapshot; the log then grows with the number of snapshots only.

    Attributes:
        teams: T, the number of teams.
        names: The players by index.
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
        self._width = 1  # steps that a row covers
        self._rows = 0
        self._columns = self._empty(0)  # arrays longer than `_rows`: the log grows by doubling them
        self._pending: list[tuple[Ints, Ints]] = []
        self._pending_step = 0

    def player(self, name: str) -> int:
        """Return the index of the player ``name``, which is added if it is new."""
        index = self._index.get(name)
        if index is None:
            if snapshot_parts(name):
                self.flush()  # pending matches of the learner ended before this snapshot
            index = self._index[name] = len(self.names)
            self.names.append(name)
        return index

    def add(self, step: int, players: Ints, ranks: Ints) -> None:
        """Add M matches that ended in one environment step.

        ``step`` is the learner's step, ``players`` [M, T] the index of each team's player, and ``ranks`` [M, T] the
        rank of each team: 0 is best, equal ranks are a draw. Raises ValueError for another shape, an unknown player,
        or a rank outside [0, T).
        """
        if players.ndim != 2 or players.shape[1] != self.teams or ranks.shape != players.shape:
            raise ValueError(f"players {players.shape} and ranks {ranks.shape}: both must be [M, {self.teams}]")
        if not len(players):
            return
        if players.min() < 0 or players.max() >= len(self.names):
            raise ValueError(f"players: the log has {len(self.names)} players; register each with `player`")
        if ranks.min() < 0 or ranks.max() >= self.teams:
            raise ValueError(f"ranks: must be from 0 to {self.teams - 1}")
        self._pending.append((players.astype(np.int32), ranks.astype(np.int8)))
        self._pending_step = step

    def flush(self) -> None:
        """Make rows of the pending matches: equal ones are one row, sorted by players and ranks."""
        if not self._pending:
            return
        players, ranks = self._pending_arrays()
        size = len(players)
        self._pending.clear()
        self._append(
            self._added_up(
                {
                    "step": np.full(size, self._pending_step, np.int64),
                    "players": players,
                    "ranks": ranks,
                    "count": np.ones(size, np.int64),
                    "known": np.full(size, len(self.names), np.int32),
                }
            )
        )

    @property
    def rows(self) -> dict[str, Ints]:
        """The rows by column: those of :class:`Matches`, and how many players were ``known`` at the flush [rows]."""
        return {name: column[: self._rows] for name, column in self._columns.items()}

    def matches(self) -> Matches:
        """Return all matches, pending ones too, with each learner as one player between two of its snapshots."""
        self.flush()
        found = {name: column.copy() for name, column in self.rows.items()}
        known, logged = found.pop("known"), self.rows["players"]
        names, players = list(self.names), found["players"]
        snapshots: dict[int, list[int]] = {}  # of each learner
        for index, name in enumerate(self.names):
            learner, _ = snapshot_parts(name) or ("", 0)
            if learner in self._index:
                snapshots.setdefault(self._index[learner], []).append(index)
        for learner_index, taken in snapshots.items():
            rows, team = np.nonzero(logged == learner_index)
            version = np.searchsorted(taken, known[rows])  # snapshots that were known at the flush
            for each in np.unique(version[version > 0]):
                at = version == each
                players[rows[at], team[at]] = len(names)
                names.append(f"{self.names[taken[each - 1]]}+")
        return Matches(tuple(names), **found)

    def state_dict(self) -> dict[str, Any]:
        """Return arrays and JSON values, pending matches included."""
        players, ranks = self._pending_arrays()
        return {
            "teams": self.teams,
            "names": list(self.names),
            "not_zero_sum": self.not_zero_sum,
            "max_rows": self._max_rows,
            "width": self._width,
            "rows": {name: column.copy() for name, column in self.rows.items()},
            "pending": {"step": self._pending_step, "players": players, "ranks": ranks},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, if the state does not fit."""
        teams, names = saved_count(state, "teams"), saved_entry(state, "names")
        if teams != self.teams:
            raise SavedValueError(f"the match log has {teams} teams, and the game {self.teams}")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise SavedValueError("the entry 'names' is not a list of names")
        if len(set(names)) != len(names):
            raise SavedValueError("the entry 'names' has a name twice")
        not_zero_sum, max_rows = saved_count(state, "not_zero_sum"), saved_count(state, "max_rows")
        width, saved = saved_count(state, "width"), saved_mapping(state, "rows")
        rows = len(saved_array(saved, "step", np.int64, (None,)))
        columns = {
            name: saved_array(saved, name, empty.dtype, (rows, *empty.shape[1:])).copy()
            for name, empty in self._empty(0).items()
        }
        waiting = saved_mapping(state, "pending")
        pending_step, players = saved_count(waiting, "step"), saved_array(waiting, "players", np.int32, (None, teams))
        ranks = saved_array(waiting, "ranks", np.int8, players.shape)
        for each in (columns["players"], players):
            if each.size and not 0 <= each.min() <= each.max() < len(names):
                raise SavedValueError("the entry 'players' has a player without a name")
        for each in (columns["ranks"], ranks):
            if each.size and not 0 <= each.min() <= each.max() < teams:
                raise SavedValueError(f"the entry 'ranks' has a rank that is not from 0 to {teams - 1}")
        for name, most in (("step", 2**63), ("known", len(names) + 1), ("count", MAX_MATCHES)):
            if rows and not 0 <= columns[name].min() <= columns[name].max() < most:
                raise SavedValueError(f"the entry {name!r} has a number that is not from 0 to {most - 1}")
        if not_zero_sum >= MAX_MATCHES or columns["count"].sum(dtype=np.float64) >= MAX_MATCHES:
            raise SavedValueError(f"the log has {MAX_MATCHES:,} matches or more")
        self.names, self._index = list(names), {name: index for index, name in enumerate(names)}
        self.not_zero_sum, self._max_rows, self._width = not_zero_sum, max_rows, max(width, 1)
        self._columns, self._rows = columns, rows
        self._pending, self._pending_step = [(players.copy(), ranks.copy())] if len(players) else [], pending_step

    def _empty(self, size: int) -> dict[str, Ints]:
        shapes = {"players": (size, self.teams), "ranks": (size, self.teams)}
        return {name: np.zeros(shapes.get(name, (size,)), dtype) for name, dtype in _COLUMNS.items()}

    def _pending_arrays(self) -> tuple[Ints, Ints]:
        if not self._pending:
            empty = self._empty(0)
            return empty["players"], empty["ranks"]
        players, ranks = zip(*self._pending, strict=True)
        return np.concatenate(players), np.concatenate(ranks)

    def _append(self, rows: Mapping[str, Ints]) -> None:
        size = self._rows + len(rows["count"])
        if size > len(self._columns["count"]):
            larger = self._empty(max(64, 2 * size))
            for name, column in self._columns.items():
                larger[name][: self._rows] = column[: self._rows]
            self._columns = larger
        for name, column in rows.items():
            self._columns[name][self._rows : size] = column
        self._rows = size
        if size > self._max_rows:
            self._merge()

    def _merge(self) -> None:
        """Merge rows of one window; double the steps of a window until the log has half of ``max_rows`` if it can."""
        last = int(self.rows["step"].max())
        while True:
            merged = self._columns = self._added_up(self.rows)
            self._rows = len(merged["count"])
            if self._rows <= self._max_rows // 2 or self._width > last:
                break
            self._width *= 2
        self._max_rows = max(self._max_rows, 2 * self._rows)

    def _added_up(self, rows: Mapping[str, Ints]) -> dict[str, Ints]:
        """One row for equal matches of one window of steps. The step of all rows of a window is the last one in it."""
        window = [rows["step"] // self._width, rows["known"]]
        match = [*rows["ranks"].T[::-1], *rows["players"].T[::-1]]
        order = np.lexsort((*match, *window))
        windows, starts = _starts(window, order), _starts([*match, *window], order)
        merged = {name: column[order[starts]] for name, column in rows.items()}
        merged["count"] = np.add.reduceat(rows["count"][order], starts)
        last = np.maximum.reduceat(rows["step"][order], windows)
        merged["step"] = last[np.searchsorted(windows, starts, side="right") - 1]
        return merged


def _starts(keys: Sequence[Ints], order: Ints) -> NDArray[np.int64]:
    """Where a new combination of the keys starts, in the given order."""
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for key in keys:
        new[1:] |= key[order[1:]] != key[order[:-1]]
    return np.flatnonzero(new)
