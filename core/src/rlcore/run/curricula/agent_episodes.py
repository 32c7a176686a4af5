"""The draw that each open episode of a behavior's agents uses, for the curricula that receive its end.

S slots, N environments, P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.saved_values import fill, saved_count
from rlcore.run.curricula.parameter_feed import ParameterFeed, as_slice

# An open episode is not waited for after this many later ones began: for each agent, and in all at least.
WAITS = 64
WAITS_AT_LEAST = 256


@attrs.frozen
class Beginnings:
    """The draws of K agents' episodes."""

    numbers: NDArray[np.int64]  # [K]
    values: NDArray[np.float64]  # [K, P]
    draw_id: NDArray[np.int64]  # [K, P]


class AgentEpisodes:
    """The draw of the open episode of each agent of a behavior, and its number among all of the behavior."""

    def __init__(self, env_index: NDArray[np.int64], feed: ParameterFeed) -> None:
        """``env_index`` [S] says in which environment each agent is."""
        self._feed = feed
        self._env_index = env_index
        slots, columns = len(env_index), len(feed.names)
        # With one agent in each environment, both started with the same parameters: the arrays are shared.
        self._alone = np.array_equal(self._env_index, np.arange(len(feed.playing)))
        self._values = feed.values if self._alone else np.zeros((slots, columns))  # [S, P]
        self._draw_id = feed.draw_id if self._alone else np.zeros((slots, columns), np.int64)  # [S, P]
        self._numbers: NDArray[np.int64] = np.zeros(slots, np.int64)  # [S]
        self._begun = 0  # episodes, ever
        self.patience = max(WAITS_AT_LEAST, WAITS * slots)  # episodes that may begin while one is waited for

    @property
    def settled(self) -> int:
        """All episodes with smaller numbers are over, or :attr:`not_waited_for`."""
        oldest, waited_for = int(np.minimum.reduce(self._numbers)), self._begun - self.patience
        if oldest >= waited_for:
            return oldest
        return int(self._numbers[self._numbers >= waited_for].min(initial=self._begun))

    @property
    def not_waited_for(self) -> NDArray[np.intp]:
        """Agents [K] with an open episode that more than :attr:`patience` later ones have outrun, ascending."""
        return np.flatnonzero(self._numbers < self._begun - self.patience)

    def beginnings(self, rows: NDArray[np.intp]) -> Beginnings:
        """Return the draws of the episodes of agents ``rows`` [K], before :meth:`begin` replaces them."""
        return Beginnings(self._numbers.take(rows), self._values.take(rows, 0), self._draw_id.take(rows, 0))

    def begin_all(self) -> None:
        """All agents start an episode."""
        self._begin(np.arange(len(self._numbers)))

    def begin(self, env_index: NDArray[np.int64], ended: NDArray[np.intp], aborted: NDArray[np.bool_] | None) -> None:
        """Start an episode for every agent whose environment started one, and for those in ``ended`` or ``aborted``."""
        if self._alone and aborted is None and ended.tolist() == env_index.tolist():
            self._begin(env_index)
            return
        fresh = np.zeros(len(self._feed.playing), np.bool_)
        fresh[env_index] = True
        fresh = fresh[self._env_index]
        fresh[ended] = True
        if aborted is not None:
            fresh |= aborted
        self._begin(fresh.nonzero()[0])

    def _begin(self, rows: NDArray[np.intp]) -> None:
        self._numbers[as_slice(rows)] = np.arange(self._begun, self._begun + len(rows))
        self._begun += len(rows)
        if not self._alone:
            env_index = self._env_index[rows]
            self._values[rows] = self._feed.values[env_index]
            self._draw_id[rows] = self._feed.draw_id[env_index]

    def state_dict(self) -> dict[str, Any]:
        return {
            "values": self._values.copy(),
            "stamp": self._draw_id.copy(),
            "numbers": self._numbers.copy(),
            "begun": self._begun,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        fill(self._values, state, "values")
        fill(self._draw_id, state, "stamp")
        fill(self._numbers, state, "numbers")
        self._begun = saved_count(state, "begun")
