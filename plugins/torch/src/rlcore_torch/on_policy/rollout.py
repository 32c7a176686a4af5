"""The rollout buffer: what an on-policy trainer collects between two updates.

Arrays are allocated once, [T, S] for T rows and S slots, and each observation is stored once: row t + 1 holds what
followed row t. Slots that do not act in every step (turn-based games, decision periods) have a write cursor of their
own; while all slots act together a step is one slice write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import AgentBatch, BehaviorSpec
from rlcore_torch.allocation import require_memory
from rlcore_torch.on_policy.rollout_state import require_rollout_fit

FloatArray = NDArray[np.float32]


_OF_AN_UPDATE = 32  # bytes of a step: log-probability, value, advantage, return, and their copies in minibatches


class RolloutBuffer:
    """Transitions of all slots since the last update."""

    def __init__(
        self, behavior: BehaviorSpec, buffer_size: int, memory_size: int = 0, noise_size: int | None = None
    ) -> None:
        """Room for ``buffer_size`` agent steps over all slots, with ``memory_size`` numbers of memory each.

        ``noise_size`` Gaussian numbers are drawn for each step beside the buffer; by default one for each part.
        """
        # Beside what a replay buffer has: wider choices, noise for acting, and what an update computes of each step.
        noise = 4 * ((behavior.continuous if noise_size is None else noise_size) + behavior.mask_size)
        beside = 8 * len(behavior.discrete) + noise + 4 * memory_size + _OF_AN_UPDATE
        require_memory(behavior, buffer_size, beside=beside)
        slots = behavior.slots
        self.behavior = behavior
        self.buffer_size = buffer_size
        self.rows = -(-buffer_size // slots)  # T
        shape = (self.rows, slots)
        self.observations = {
            o.name: np.zeros((self.rows + 1, slots, *o.shape), o.dtype) for o in behavior.observations
        }  # [T + 1, S, *shape]
        self.raw = np.zeros((*shape, behavior.continuous), np.float32)  # [T, S, continuous] before clipping
        self.choices = np.zeros((*shape, len(behavior.discrete)), np.int64)  # [T, S, branches]
        # [T, S, M] that the actions were chosen with, in a trainer with memory
        self.memory = np.zeros((*shape, memory_size), np.float32) if memory_size else None
        self.masks: NDArray[np.bool_] | None = None  # [T + 1, S, mask_size], from the first mask on
        self.reward = np.zeros(shape, np.float32)
        self.group_reward: FloatArray | None = None  # [T, S], from the first group reward on
        self.terminated = np.zeros(shape, np.bool_)
        self.truncated = np.zeros(shape, np.bool_)
        self.final_rows: list[NDArray[np.int64]] = []  # (row, slot) pairs [k, 2] whose final observation was kept
        self.final_observations: list[dict[str, NDArray[Any]]] = []  # the observations, [k, *shape]
        self.cuts: list[NDArray[np.int64]] = []  # those of them that did not end: an episode was cut there
        self.cursor = np.zeros(slots, np.int64)  # [S] transitions closed in each slot
        self.row = 0  # the common cursor while all slots act together
        self.ragged = False
        self.open = np.zeros(slots, np.bool_)  # [S] acted on and waiting for what follows; used when ragged
        self.awaiting = np.ones(slots, np.bool_)  # [S] slots that act next; used when ragged
        # [S] slots whose first action was chosen before the latest update, and its log-probability then; when ragged
        self.kept = np.zeros(slots, np.bool_)
        self.kept_log_prob = np.zeros(slots, np.float32)

    # ------------------------------------------------------------ writing

    def begin(self, batch: AgentBatch) -> None:
        """First observations of new episodes in all slots; trajectories that were going on are cut."""
        self._cut(np.arange(len(self.cursor)))
        self.open[:] = False
        if batch.needs_action is not None:
            self._become_ragged()
        if not self.ragged:
            self._write_next(self.row, batch)
        else:
            self._write_next_ragged(batch)

    def act(self, raw: FloatArray | None, choices: NDArray[np.int64] | None, memory: FloatArray | None = None) -> None:
        """Store the actions of the slots at their current observation, and the ``memory`` [S, M] that led to them."""
        if not self.ragged:
            if self.memory is not None:
                self.memory[self.row] = memory
            if raw is not None:
                self.raw[self.row] = raw
            if choices is not None:
                self.choices[self.row] = choices
            return
        slots = np.flatnonzero(self.awaiting)
        rows = self.cursor[slots]
        if raw is not None:
            self.raw[rows, slots] = raw[slots]
        if choices is not None:
            self.choices[rows, slots] = choices[slots]
        if self.memory is not None and memory is not None:
            self.memory[rows, slots] = memory[slots]
        self.open[slots] = True
        self.kept[slots[rows == 0]] = False

    def observe(self, batch: AgentBatch) -> int:
        """Closes transitions; returns how many."""
        lost = batch.aborted is not None and batch.aborted.any()
        if (batch.needs_action is not None or lost) and not self.ragged:
            self._become_ragged()
            self.open[:] = True
        if self.ragged:
            return self._observe_ragged(batch)
        row = self.row
        self.reward[row] = batch.reward
        self.terminated[row] = batch.terminated
        self.truncated[row] = batch.truncated
        if batch.group_reward is not None:
            self._group_rewards()[row] = batch.group_reward
        elif self.group_reward is not None:
            self.group_reward[row] = 0.0
        if batch.ended.size:
            self._keep_final(np.full(len(batch.ended), row), batch.ended, batch)
        self.row = row + 1
        self._write_next(self.row, batch)
        return len(self.cursor)

    @property
    def size(self) -> int:
        """Closed transitions over all slots."""
        return int(self.cursor.sum()) if self.ragged else self.row * len(self.cursor)

    @property
    def full(self) -> bool:
        return self.size >= self.buffer_size

    def kept_log_probs(self) -> tuple[NDArray[np.int64], FloatArray]:
        """Rows [K], of all N, whose actions were chosen before the latest update, and their log-probabilities [K]."""
        stored = self.cursor > 0
        slots = np.flatnonzero(self.kept & stored)
        return np.cumsum(stored)[slots] - 1, self.kept_log_prob[slots]  # the first row of each slot

    def restart(self, open_log_probs: FloatArray | None = None) -> None:
        """Forgets the closed transitions; the current observation, and what was done at it, stays.

        ``open_log_probs`` [S] are the log-probabilities of open actions under the weights that chose them.
        """
        if open_log_probs is not None:
            older = self.kept & (self.cursor == 0)  # open since an earlier update
            self.kept_log_prob = np.where(older, self.kept_log_prob, open_log_probs)
            self.kept = self.open.copy()
        last = self.cursor if self.ragged else np.full(len(self.cursor), self.row)
        slots = np.arange(len(self.cursor))
        for array in self.observations.values():
            array[0] = array[last, slots]
        if self.masks is not None:
            self.masks[0] = self.masks[last, slots]
        if self.ragged:
            still = np.flatnonzero(self.open)
            self.raw[0, still] = self.raw[last[still], still]
            self.choices[0, still] = self.choices[last[still], still]
            if self.memory is not None:
                self.memory[0, still] = self.memory[last[still], still]
        self.cursor[:] = 0
        self.row = 0
        self.final_rows.clear()
        self.cuts.clear()
        self.final_observations.clear()

    # ------------------------------------------------------------ reading

    def lengths(self) -> NDArray[np.int64]:
        """Closed transitions of each slot, [S]; rows past them hold nothing."""
        return self.cursor.copy() if self.ragged else np.full(len(self.cursor), self.row, np.int64)

    def finals(self) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """``(row, slot)`` pairs [K, 2] that ended, and what their agents saw last, each [K, *shape]."""
        if not self.final_rows:
            return np.empty((0, 2), np.int64), {}
        names = self.final_observations[0]
        joined = {name: np.concatenate([kept[name] for kept in self.final_observations]) for name in names}
        return np.concatenate(self.final_rows), joined

    def followed(self, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the next observation on which its agent acts is stored after each of these transitions [K]."""
        if not self.ragged:
            return np.ones(len(rows), np.bool_)
        return (rows + 1 < self.cursor[slots]) | self.open[slots] | self.awaiting[slots]

    def cut_rows(self) -> NDArray[np.int64]:
        """``(row, slot)`` pairs [k, 2] after which an episode was cut: truncated for learning, not an end."""
        return np.concatenate(self.cuts) if self.cuts else np.empty((0, 2), np.int64)

    def next_observations(self, rows: int) -> dict[str, NDArray[Any]]:
        """Return the observations that follow the first ``rows`` rows, [rows, S, *shape]: the final one if kept."""
        finals, final_observations = self.finals()
        following = {name: array[1 : rows + 1].copy() for name, array in self.observations.items()}
        for name, array in final_observations.items():
            following[name][finals[:, 0], finals[:, 1]] = array
        return following

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        lengths = self.lengths()
        used = int(lengths.max(initial=0)) + 1
        rows = np.arange(used)[:, None]
        closed, acted = rows < lengths, rows < lengths + self.open  # each [used, S]
        seen = rows < lengths + (self.open | self.awaiting)

        def kept(array: NDArray[Any], valid: NDArray[np.bool_]) -> NDArray[Any]:
            """What this rollout wrote: a resumed run has nothing of the rollout before."""
            array = array[:used].copy()
            array[~valid[: len(array)]] = 0  # observations have a row more than the rest
            return array

        finals, final_observations = self.finals()
        state: dict[str, Any] = {
            "ragged": self.ragged,
            "row": self.row,
            "cursor": self.cursor.copy(),
            "open": self.open.copy(),
            "awaiting": self.awaiting.copy(),
            "kept": self.kept.copy(),
            "kept_log_prob": np.where(self.kept, self.kept_log_prob, 0).astype(np.float32),
            "observations": {name: kept(array, seen) for name, array in self.observations.items()},
            "raw": kept(self.raw, acted),
            "choices": kept(self.choices, acted),
            "reward": kept(self.reward, closed),
            "terminated": kept(self.terminated, closed),
            "truncated": kept(self.truncated, closed),
            "final_rows": finals,
            "cuts": self.cut_rows(),
            "final_observations": final_observations,
        }
        if self.masks is not None:
            state["masks"] = kept(self.masks, seen)
        if self.group_reward is not None:
            state["group_reward"] = kept(self.group_reward, closed)
        if self.memory is not None:
            state["memory"] = kept(self.memory, acted)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises RunStateError, changing nothing, if the state is not of such a rollout."""
        require_rollout_fit(self, state)
        self.ragged = bool(state["ragged"])
        self.row = int(state["row"])
        self.cursor[:] = state["cursor"]
        self.open[:] = state["open"]
        self.awaiting[:] = state["awaiting"]
        self.kept[:], self.kept_log_prob = state["kept"], state["kept_log_prob"].copy()
        while self.rows < len(state["reward"]):
            self._grow()
        if "masks" in state:
            self._mask_rows()
        if "group_reward" in state:
            self._group_rewards()
        for name, array in self.observations.items():
            saved = state["observations"][name]
            array[: len(saved)] = saved
        for name in ("raw", "choices", "reward", "terminated", "truncated", "masks", "group_reward", "memory"):
            if name in state:
                getattr(self, name)[: len(state[name])] = state[name]
        self.cuts = [state["cuts"]] if len(state["cuts"]) else []
        self.final_rows = [state["final_rows"]] if len(state["final_rows"]) else []
        self.final_observations = [dict(state["final_observations"])] if len(state["final_rows"]) else []

    # ------------------------------------------------------------ inside

    def _write_next(self, row: int, batch: AgentBatch) -> None:
        for name, array in self.observations.items():
            array[row] = batch.observations[name]
        if batch.action_mask is not None:
            self._mask_rows()[row] = batch.action_mask
        elif self.masks is not None:
            self.masks[row] = True

    def _write_next_ragged(self, batch: AgentBatch) -> None:
        acting = batch.needs_action
        slots = np.arange(len(self.cursor)) if acting is None else np.flatnonzero(acting)
        rows = self.cursor[slots]
        for name, array in self.observations.items():
            array[rows, slots] = batch.observations[name][slots]
        if batch.action_mask is not None:
            self._mask_rows()[rows, slots] = batch.action_mask[slots]
        elif self.masks is not None:
            self.masks[rows, slots] = True
        self.awaiting[:] = True if acting is None else acting

    def _observe_ragged(self, batch: AgentBatch) -> int:
        aborted = batch.aborted
        if aborted is not None and aborted.any():
            self.open[aborted] = False
            self._cut(np.flatnonzero(aborted))
        closing = self.open.copy()
        if batch.needs_action is not None:
            closing &= batch.needs_action | batch.terminated | batch.truncated
        slots = np.flatnonzero(closing)
        rows = self.cursor[slots]
        self.reward[rows, slots] = batch.reward[slots]
        self.terminated[rows, slots] = batch.terminated[slots]
        self.truncated[rows, slots] = batch.truncated[slots]
        if batch.group_reward is not None:
            self._group_rewards()[rows, slots] = batch.group_reward[slots]
        elif self.group_reward is not None:
            self.group_reward[rows, slots] = 0.0
        ended = batch.ended[closing[batch.ended]] if batch.ended.size else batch.ended
        if ended.size:
            self._keep_final(self.cursor[ended], ended, batch)
        self.cursor[slots] += 1
        self.open[slots] = False
        if self.cursor.max() >= self.rows:
            self._grow()
        self._write_next_ragged(batch)
        return len(slots)

    def _keep_final(self, rows: NDArray[np.int64], ended: NDArray[np.intp], batch: AgentBatch) -> None:
        if batch.final_observations is None:
            raise ValueError("an environment must give final_observations for the rows that ended")
        self.final_rows.append(np.stack([rows, ended], axis=1))
        if len(ended) == len(batch.ended):
            self.final_observations.append({name: array.copy() for name, array in batch.final_observations.items()})
        else:
            kept = np.isin(batch.ended, ended)
            self.final_observations.append({name: array[kept] for name, array in batch.final_observations.items()})

    def _cut(self, slots: NDArray[np.intp]) -> None:
        """Ends the trajectories of ``slots`` before their current observation, which they bootstrap from."""
        lengths = self.lengths()[slots]
        slots, last = slots[lengths > 0], lengths[lengths > 0] - 1
        going_on = ~(self.terminated[last, slots] | self.truncated[last, slots])
        slots, last = slots[going_on], last[going_on]
        if not len(slots):
            return
        self.truncated[last, slots] = True
        self.final_rows.append(np.stack([last, slots], axis=1))
        self.cuts.append(self.final_rows[-1])
        self.final_observations.append({name: a[last + 1, slots] for name, a in self.observations.items()})

    def _become_ragged(self) -> None:
        if not self.ragged:
            self.ragged = True
            self.cursor[:] = self.row
            if self.row >= self.rows:
                self._grow()

    def _grow(self) -> None:
        """Doubles the rows: one slot acts far more often than the others."""
        extra = self.rows
        self.rows += extra

        def longer(array: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([array, np.zeros((extra, *array.shape[1:]), array.dtype)])

        self.observations = {name: longer(array) for name, array in self.observations.items()}
        for name in ("raw", "choices", "reward", "terminated", "truncated"):
            setattr(self, name, longer(getattr(self, name)))
        self.masks = None if self.masks is None else longer(self.masks)
        self.group_reward = None if self.group_reward is None else longer(self.group_reward)
        self.memory = None if self.memory is None else longer(self.memory)

    def _mask_rows(self) -> NDArray[np.bool_]:
        if self.masks is None:
            self.masks = np.ones((self.rows + 1, len(self.cursor), self.behavior.mask_size), np.bool_)
        return self.masks

    def _group_rewards(self) -> FloatArray:
        if self.group_reward is None:
            self.group_reward = np.zeros((self.rows, len(self.cursor)), np.float32)
        return self.group_reward


def valid_rows(used: int, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[used, S], True where a transition was stored."""
    return np.arange(used)[:, None] < lengths
