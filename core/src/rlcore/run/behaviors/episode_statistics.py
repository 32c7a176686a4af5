"""Returns and lengths of a behavior's episodes, slot by slot.

Shapes: S slots, K episodes that ended in one environment step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import AgentBatch
from rlcore.contracts.saved_values import fill, saved_array, saved_bool, saved_count

# Environment steps whose rewards are added up together: copying rewards takes half the time of adding them.
HELD_STEPS = 32


@attrs.define(eq=False)
class FinishedEpisodes:
    """K episodes that ended in the same environment step, in the order of their slots."""

    slots: NDArray[np.intp]  # [K]
    returns: NDArray[np.float64]  # [K] the agents' own rewards
    lengths: NDArray[np.int64]  # [K] agent steps
    group_returns: NDArray[np.float64] | None  # [K]; None: no batch had a group's reward so far


class EpisodeStatistics:
    """Sums the rewards and counts the steps of the open episode of every slot."""

    def __init__(self, slots: int) -> None:
        self.finished = 0  # episodes that ended since the run started
        # Row 0 is `_returns`; rows 1 to `_held` are the rewards of the latest steps, not yet added to them.
        self._rewards: NDArray[np.float64] = np.zeros((1 + HELD_STEPS, slots))
        self._returns: NDArray[np.float64] = self._rewards[0]  # [S]
        self._held = 0
        self._group_returns: NDArray[np.float64] = np.zeros(slots)  # [S]
        self._shared = False  # whether any batch had a group's reward; not every batch of such an environment has one
        self._steps = 0  # environment steps
        self._began: NDArray[np.int64] = np.zeros(slots, np.int64)  # [S] `_steps` less the steps taken: length 0 then
        self._acted: NDArray[np.bool_] | None = None  # [S] slots with an open transition; None: all

    @property
    def returns(self) -> NDArray[np.float64]:
        """[S] of the open episodes. A view: valid until the next call of a method."""
        self._add_held()
        return self._returns

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[S] agent steps of the open episodes."""
        return self._steps - self._began

    @property
    def group_returns(self) -> NDArray[np.float64] | None:
        """[S] of the open episodes; None: no batch had a group's reward so far."""
        return self._group_returns if self._shared else None

    def begin(self, batch: AgentBatch) -> None:
        """Start an episode in all slots, with ``batch``. Open episodes did not end and are dropped."""
        self._held = 0
        self._drop(slice(None))
        self._acted = None if batch.needs_action is None else batch.needs_action.copy()

    def record(self, batch: AgentBatch, counted: NDArray[np.bool_] | None = None) -> FinishedEpisodes | None:
        """Add one environment step. Returns the episodes that ended in it, None if there are none.

        ``counted`` [S] are the slots whose episodes count; None: all. A reward counts once, when its transition closes:
        see :attr:`AgentBatch.transition_closed`. An agent that has waited since its episode began has no transition to
        close: its first turn adds no step.
        """
        self._steps += 1
        reward, ended = batch.reward, batch.ended
        closed = None if batch.needs_action is None else batch.transition_closed
        acted = self._acted
        one_more = closed if acted is None else acted if closed is None else closed & acted  # [S]; None: all
        if one_more is None and not ended.size:
            held = self._held = self._held + 1
            self._rewards[held] = reward
            if held == HELD_STEPS:
                self._add_held()
        else:
            self._add_held()
            if closed is None:
                np.add(self._returns, reward, out=self._returns)
            else:
                np.add(self._returns, reward, out=self._returns, where=closed)
            if one_more is not None:
                self._began += ~one_more
        if batch.group_reward is not None:
            self._shared = True
            everywhere = True if closed is None else closed
            np.add(self._group_returns, batch.group_reward, out=self._group_returns, where=everywhere)
        finished = None
        if ended.size:
            complete = ended if counted is None else ended[counted[ended]]
            finished = self._episodes(complete) if complete.size else None
            self._drop(ended)
        if batch.aborted is not None:
            self._add_held()
            self._drop(batch.aborted)
        self._acted = None if batch.needs_action is None else self._open_next(batch, batch.needs_action)
        return finished

    def _open_next(self, batch: AgentBatch, acts: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Slots [S] that act on ``batch``, or still wait for what their last action leads to."""
        over = batch.terminated | batch.truncated
        if batch.aborted is not None:
            over |= batch.aborted
        return acts | (~over if self._acted is None else self._acted & ~over)

    def _episodes(self, ended: NDArray[np.intp]) -> FinishedEpisodes:
        self.finished += len(ended)
        shared = self._group_returns.take(ended) if self._shared else None
        return FinishedEpisodes(ended, self._returns.take(ended), self._steps - self._began.take(ended), shared)

    def _drop(self, rows: NDArray[Any] | slice) -> None:
        self._returns[rows] = 0.0
        self._began[rows] = self._steps
        if self._shared:
            self._group_returns[rows] = 0.0

    def _add_held(self) -> None:
        """Add rewards in the order of their steps: returns depend on nothing but the rewards, to the last bit."""
        held = self._held
        if held:
            self._held = 0
            self._returns[:] = np.add.accumulate(self._rewards[: held + 1])[held]

    def state_dict(self) -> dict[str, Any]:
        """The open episodes and the number of those that ended."""
        return {
            "returns": self.returns.copy(),
            "group_returns": self._group_returns.copy(),
            "shared": self._shared,
            "lengths": self.lengths,
            "acted": np.ones(len(self._began), np.bool_) if self._acted is None else self._acted.copy(),
            "finished": self.finished,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the open episodes of :meth:`state_dict`. Raises SavedValueError for one that does not fit."""
        fill(self.returns, state, "returns")
        fill(self._group_returns, state, "group_returns")
        self._shared = saved_bool(state, "shared")
        self._acted = saved_array(state, "acted", np.bool_, self._began.shape).copy()
        self._began[:] = self._steps - saved_array(state, "lengths", np.int64, self._began.shape)
        self.finished = saved_count(state, "finished")
