"""Games that are over and wait to be rated, of all processes of a run.

Each process has the games of its own environments. They are rated in the order of a run in one process: by the step in
which they ended, and then by the number of their environment.

Shapes: M games, T teams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Ranks, SavedValueError, saved_array, saved_count

__all__ = ["FinishedGames", "Games"]

Ints = NDArray[np.int64]


@attrs.frozen(eq=False)
class Games:
    """M games that are over.

    Attributes:
        players: [M, T] player of each team, an index in the match log.
        ranks: [M, T] rank of each team: 0 is best, equal ranks are a draw.
        owners: [M, T] behavior of each team, by its place among the names.
        uneven: [M] whether the results of the teams do not add up to 0.
        order: [M, 2] step in which the game ended, and number of its environment in the run.
    """

    players: Ints
    ranks: Ints
    owners: Ints
    uneven: NDArray[np.bool_]
    order: Ints

    def __len__(self) -> int:
        return len(self.players)


NAMES = tuple(field.name for field in attrs.fields(Games))


class FinishedGames:
    """The games of this process's environments that ended since they were last taken.

    Attributes:
        step: Number of steps that were observed since the games of all processes were taken.
    """

    def __init__(self, teams: int, exchange: Ranks, first_env: int) -> None:
        """``first_env`` is the number, in the run, of the first environment of this process."""
        self._teams, self._exchange, self._first_env = teams, exchange, first_env
        self._parts: list[Games] = []
        self.step = 0

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def add(self, env: Ints, players: Ints, ranks: Ints, owners: Ints, uneven: NDArray[np.bool_]) -> None:
        """Games ended in the environments ``env`` [M] of this process, which are ascending."""
        order = np.stack([np.full(len(env), self.step), env + self._first_env], 1)
        self._parts.append(Games(players, ranks, owners, uneven, order))

    def take(self) -> Games:
        """Take the games of this process."""
        games = self._joined()
        self._parts.clear()
        return games

    def take_of_all(self) -> Games:
        """Take the games of all processes, which call this at the same step."""
        if self._exchange.size == 1:
            self.step = 0
            return self.take()
        if self.step == 0:  # no process has observed anything since the last time
            return self._empty()
        self.step = 0
        parts = self._exchange.all_gather(attrs.asdict(self.take()))
        joined = {name: np.concatenate([part[name] for part in parts]) for name in NAMES}
        in_order = np.lexsort(joined["order"].T[::-1])
        return Games(**{name: column[in_order] for name, column in joined.items()})

    def _joined(self) -> Games:
        parts = [self._empty(), *self._parts]
        return Games(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in NAMES})

    def _empty(self) -> Games:
        none = np.zeros((0, self._teams), np.int64)
        return Games(none, none, none, np.zeros(0, np.bool_), np.zeros((0, 2), np.int64))

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The games of this process; with several processes, also when each ended."""
        state = attrs.asdict(self._joined())
        order = state.pop("order")
        return state if self._exchange.size == 1 else {**state, "order": order, "step": self.step}

    def saved(self, state: Mapping[str, Any], behaviors: int, players: int) -> tuple[Games, int]:
        """The games and the step of a :meth:`state_dict`. Raises SavedValueError.

        There are ``behaviors`` that own teams, and ``players`` in the match log.
        """
        games = saved_array(state, "players", np.int64, (None, self._teams))
        ranks = saved_array(state, "ranks", np.int64, games.shape)
        owners = saved_array(state, "owners", np.int64, games.shape)
        uneven = saved_array(state, "uneven", np.bool_, games.shape[:1])
        order, step = np.zeros((len(games), 2), np.int64), 0
        if self._exchange.size > 1:
            order, step = saved_array(state, "order", np.int64, order.shape), saved_count(state, "step")
        if owners.size and not 0 <= owners.min() <= owners.max() < behaviors:
            raise SavedValueError("the entry 'owners' has a behavior without a name")
        if games.size and not 0 <= games.min() <= games.max() < players:
            raise SavedValueError("the entry 'players' has a player without a name")
        return Games(games.copy(), ranks.copy(), owners.copy(), uneven.copy(), order.copy()), step

    def load(self, games: Games, step: int) -> None:
        """Take over what :meth:`saved` returned."""
        self._parts, self.step = [games] if len(games) else [], step
