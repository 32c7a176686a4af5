"""The open episodes of a behavior: their returns and lengths, and those that end in a step.

Shapes: S slots, K episodes that ended in one environment step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.batches import AgentBatch
from rlcore.contracts.results import FinishedEpisodes
from rlcore.contracts.saved_values import fill, saved_array, saved_bool, saved_count

# Environment steps whose rewards are added up together: copying their bytes takes a fifth of the time of adding them.
HELD_STEPS = 32

Info = Sequence[str] | Literal["all"] | None  # as environment.info


class EpisodeStatistics:
    """Sums the rewards and counts the steps of the open episode of every slot."""

    def __init__(self, slots: int, info: Info = None) -> None:
        """``info`` are the numbers of ended episodes that count, by name; None and ``"all"``: those that are there."""
        self.info = info
        self.finished = 0  # episodes that ended since the run started
        self.steps = 0  # environment steps
        self._sums: NDArray[np.float64] = np.zeros((1 + HELD_STEPS, slots))  # row 0 is `_returns`
        self._returns: NDArray[np.float64] = self._sums[0]  # [S]
        self._held: list[bytes] = []  # rewards of the latest steps, not yet added to the returns
        self._held_dtype = np.dtype(np.float32)
        self._group_returns: NDArray[np.float64] = np.zeros(slots)  # [S]
        self._shared = False  # whether any batch had a group's reward; not every batch of such an environment has one
        # [S] what `steps` was, or would have been, when the episode had length 0: a step adds to all lengths at once.
        self._began: NDArray[np.int64] = np.zeros(slots, np.int64)
        self._acted: NDArray[np.bool_] | None = None  # [S] slots with an open transition; None: all

    @property
    def returns(self) -> NDArray[np.float64]:
        """[S] of the open episodes. A view: valid until the next call of a method."""
        self._add_held()
        return self._returns

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[S] agent steps of the open episodes."""
        return self.steps - self._began

    @property
    def group_returns(self) -> NDArray[np.float64] | None:
        """[S] of the open episodes; None: no batch had a group's reward so far."""
        return self._group_returns if self._shared else None

    def begin(self, batch: AgentBatch) -> None:
        """Start an episode in all slots, with ``batch``. Open episodes did not end and are dropped."""
        self._held.clear()
        self._drop(slice(None))
        self._acted = None if batch.needs_action is None else batch.needs_action.copy()

    def record(self, batch: AgentBatch, counted: NDArray[np.bool_] | None = None) -> FinishedEpisodes | None:
        """Add one environment step. Returns the episodes that ended in it, None if there are none.

        ``counted`` [S] are the slots whose episodes count; None: all. A reward counts once, when its transition closes:
        see :attr:`AgentBatch.transition_closed`. An agent that has waited since its episode began has no transition to
        close: its first turn adds no step.
        """
        self.steps += 1
        reward = batch.reward
        ended = batch.ended
        acts = batch.needs_action
        acted = self._acted
        closed: Any = True if acts is None else batch.transition_closed  # [S]
        if acts is None and acted is None:
            if reward.dtype is not self._held_dtype:
                self._add_held()
                self._held_dtype = reward.dtype
            held = self._held
            held.append(reward.tobytes())
            if len(held) == HELD_STEPS or ended.size:
                self._add_held()
        else:
            self._add_held()
            np.add(self._returns, reward, out=self._returns, where=closed)
            counts = closed if acted is None else closed & acted
            self._began += np.logical_not(counts)  # the step just counted adds nothing to the other lengths
        if batch.group_reward is not None:
            self._shared = True
            np.add(self._group_returns, batch.group_reward, out=self._group_returns, where=closed)
        finished = None
        if ended.size:
            complete = ended if counted is None else ended[counted[ended]]
            if complete.size:
                finished = self._episodes(complete, batch)
            self._drop(ended)
        if batch.aborted is not None:
            self._add_held()
            self._drop(batch.aborted)
        self._acted = None if acts is None else self._open_next(batch, acts)
        return finished

    def _open_next(self, batch: AgentBatch, acts: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Slots [S] that act on ``batch``, or still wait for what their last action leads to."""
        still_open = ~(batch.terminated | batch.truncated)
        if batch.aborted is not None:
            still_open &= ~batch.aborted
        if self._acted is not None:
            still_open &= self._acted
        return acts | still_open

    def _episodes(self, ended: NDArray[np.intp], batch: AgentBatch) -> FinishedEpisodes:
        self.finished += len(ended)
        returns = self._returns[ended]
        lengths = self.steps - self._began[ended]
        group_returns = self._group_returns[ended] if self._shared else None
        info: dict[str, NDArray[np.float64]] = {}
        if batch.final_info:
            rows = np.searchsorted(batch.ended, ended)
            for name, values in batch.final_info.items():
                info[name] = values[rows]
            if self.info is not None and self.info != "all":
                info = {name: info[name] for name in self.info if name in info}
        return FinishedEpisodes(ended, returns, lengths, group_returns, info)

    def _drop(self, rows: NDArray[Any] | slice) -> None:
        self._returns[rows] = 0.0
        self._began[rows] = self.steps
        if self._shared:
            self._group_returns[rows] = 0.0

    def _add_held(self) -> None:
        """Add rewards in the order of their steps: returns depend on nothing but the rewards, to the last bit."""
        steps = len(self._held)
        if not steps:
            return
        rewards = np.frombuffer(b"".join(self._held), self._held_dtype)
        self._held.clear()
        terms = self._sums[: steps + 1]  # the returns so far, and below them the rewards of each step
        terms[1:] = rewards.reshape(steps, -1)
        self._returns[:] = np.add.accumulate(terms)[steps]

    def state_dict(self) -> dict[str, Any]:
        """The open episodes and the number of those that ended."""
        acted: NDArray[np.bool_] = np.ones(len(self._began), np.bool_)
        if self._acted is not None:
            acted[:] = self._acted
        return {
            "returns": self.returns.copy(),
            "group_returns": self._group_returns.copy(),
            "shared": self._shared,
            "lengths": self.lengths,
            "acted": acted,
            "finished": self.finished,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the open episodes of :meth:`state_dict`. Raises SavedValueError for one that does not fit."""
        slots = self._began.shape
        fill(self.returns, state, "returns")
        fill(self._group_returns, state, "group_returns")
        self._shared = saved_bool(state, "shared")
        acted = saved_array(state, "acted", np.bool_, slots)
        self._acted = acted.copy()
        lengths = saved_array(state, "lengths", np.int64, slots)
        self._began[:] = self.steps - lengths
        self.finished = saved_count(state, "finished")
