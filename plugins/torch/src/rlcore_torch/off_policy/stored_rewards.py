"""The rewards of episodes whose transitions enter a replay buffer, as statistics of each reward provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import AgentBatch, saved_array, saved_mapping
from rlcore_torch.off_policy.batch_reader import BatchReader
from rlcore_torch.off_policy.replay_rings import Rows
from rlcore_torch.on_policy.advantages import EpisodeRewards

MOST_STEPS = 64  # environment steps whose rewards are computed at once
NO_CUTS = np.empty((0, 2), np.int64)


class StoredEpisodeRewards:
    """Sums of rewards over episodes whose transitions enter a replay buffer, for each provider.

    Rewards are computed for many transitions at once: before an update that follows the end of an episode, and before
    the buffer overwrites a transition.
    """

    def __init__(self, reader: BatchReader, names: Sequence[str]) -> None:
        buffer = reader.buffer
        self.reader = reader
        # in the order of reader.providers
        self.rewards = {name: EpisodeRewards(np.zeros(buffer.slots)) for name in names}
        self.finished: dict[str, list[float]] = {name: [] for name in names}  # sums that no update has reported
        self._rows: list[Rows] = []  # transitions of each step whose rewards are not computed
        self._ended = False  # whether an episode ended in one of them
        self.has_finished = False  # whether an episode ended since the last report
        self._most = max(1, min(MOST_STEPS, buffer.steps_kept))

    def begin(self) -> None:
        """Forget the open episodes, all of which are cut."""
        self._forget(np.ones(self.reader.buffer.slots, np.bool_))

    def observe(self, batch: AgentBatch) -> int:
        """Pass the batch to the buffer; return the number of transitions that it closes."""
        if batch.aborted is not None and batch.aborted.any():
            self._forget(batch.aborted)
        buffer = self.reader.buffer
        count = buffer.observe(batch)
        if not count and self.reader.scaling is None:  # ranks join statistics step by step, also of empty steps
            return count
        self._rows.append(buffer.closed_rows)
        if count and batch.ended.size:
            self._ended = True
            self.has_finished = True
        if len(self._rows) == self._most:
            self.compute()
        return count

    def report(self) -> Mapping[str, Sequence[float]]:
        """Return the sums of the episodes that ended since the last call, by tag; none without such an episode."""
        if self._ended:
            self.compute()
        stats = {}
        for name, sums in self.finished.items():
            if sums:
                stats[f"Policy/{name.capitalize()} Reward"] = sums
            self.finished[name] = []
        self.has_finished = False
        return stats

    def state_dict(self) -> dict[str, Any]:
        self.compute()
        state = {}
        for name, rewards in self.rewards.items():
            finished = np.array(self.finished[name], np.float64)
            state[name] = {"open": rewards.open.copy(), "finished": finished}
        return state

    def require_fit(self, state: Mapping[str, Any]) -> None:
        for name, rewards in self.rewards.items():
            of_provider = saved_mapping(state, name)
            saved_array(of_provider, "open", np.float64, rewards.open.shape)
            saved_array(of_provider, "finished", np.float64, (None,))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, rewards in self.rewards.items():
            of_provider = state[name]
            rewards.open = np.array(of_provider["open"])
            self.finished[name] = of_provider["finished"].tolist()
        self.has_finished = True

    def _forget(self, slots: NDArray[np.bool_]) -> None:
        self.compute()
        for rewards in self.rewards.values():
            rewards.open[slots] = 0.0
        if self.reader.scaling is not None:
            self.reader.scaling.forget(slots)

    def compute(self) -> None:
        """Compute the rewards of all transitions so far."""
        if not self._rows:
            return
        reader = self.reader
        buffer = reader.buffer
        rows = np.concatenate(self._rows)
        steps = len(self._rows)
        counts = [len(closed) for closed in self._rows]
        step = np.repeat(np.arange(steps), counts)
        at = step, rows % buffer.slots
        ended = np.zeros((steps, buffer.slots), np.bool_)
        ended[at] = buffer.ends(rows)
        scaling = reader.scaling
        rewards = reader.rewards(rows)
        for k, (name, sums) in enumerate(self.rewards.items()):
            reward = np.zeros(ended.shape, np.float32)  # [steps, S]
            if scaling is not None and k == scaling.place:
                valid = np.zeros(ended.shape, np.bool_)
                valid[at] = True
                reward[at] = rewards[k]
                scaling.add(reward, ended, valid)
            strength = np.float32(reader.providers[k].strength)
            reward[at] = rewards[k] * strength
            self.finished[name] += sums.record(reward, ended, NO_CUTS)
        self._rows = []
        self._ended = False
