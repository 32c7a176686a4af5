"""The rollout buffer: what an on-policy trainer collects between two updates.

Arrays are allocated once, [T, S] for T rows and S slots, and each observation is stored once: row t + 1 holds what
followed row t. What a network with memory remembers is stored as one more observation. Slots that do not act in every
step (turn-based games, decision periods) have a write cursor of their own; while all slots act together a step is one
slice write. Observations and actions, which are large, may be tensors: see ``device_rollout.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlcore import AgentBatch, BehaviorSpec, Transitions
from rlcore_torch.allocation import require_memory
from rlcore_torch.arrays import Array, BoolArray, FloatArray, Indices, IntArray
from rlcore_torch.networks.actions import ActionLayout
from rlcore_torch.networks.inputs import to_numpy

__all__ = ["RolloutBuffer"]

Pairs = NDArray[np.int64]  # (row, slot) pairs [k, 2]
Large: TypeAlias = Any  # an array, or a tensor on a device

MEMORY = "/memory"  # the key of what is remembered, beside the names of observations
ACTED = ("raw", "choices", "columns", "logits")  # of each action
RESULTS = ("reward", "terminated", "truncated")  # of each transition
OF_SLOTS = ("cursor", "open", "awaiting", "kept_log_prob")
_NO_PAIRS: Pairs = np.empty((0, 2), np.int64)
_OF_AN_UPDATE = 32  # bytes of a step: log-probability, value, advantage, return, and their copies in minibatches


class RolloutBuffer:
    """Transitions of all slots since the last update.

    Attributes:
        behavior: The observations and actions of the agents.
        rows: T, the rows of the buffer.
        row: The common cursor while all slots act together.
        ragged: Whether slots have cursors of their own.
        seen: Observations by name, and what is remembered, each [T + 1, S, *shape].
        raw: [T, S, continuous] continuous parts of the actions before clipping.
        choices: [T, S, branches] chosen options.
        columns: [T, S, columns] what the distribution of the continuous parts was given.
        logits: [T, S, logits] those of the choices, masked.
        masks: [T + 1, S, mask_size] whether each option was allowed; None before the first mask.
        reward: [T, S] rewards of the closed transitions, summed since the slot acted.
        group_reward: [T, S] those of groups; None before the first one.
        terminated: [T, S] whether each closed transition terminated its episode.
        truncated: [T, S] whether each closed transition was the last one of an episode that was cut off.
        cursor: [S] closed transitions of each slot, while ragged.
        open: [S] slots that acted and wait for what follows, while ragged.
        awaiting: [S] slots that act next, while ragged.
        open_log_prob: [S] log-probabilities of open actions under the weights that acted, as an update finds them.
        kept_log_prob: [S] those of first actions that were chosen before the latest update; NaN for the others.
    """

    def __init__(
        self, behavior: BehaviorSpec, buffer_size: int, memory_size: int, noise_size: int, columns: int
    ) -> None:
        """Room for ``buffer_size`` agent steps over all slots.

        Each has ``memory_size`` numbers of memory, and ``columns`` numbers that its continuous parts are drawn with.
        ``noise_size`` Gaussian numbers are drawn for each step beside the buffer.
        """
        # Beside what a replay buffer has: wider choices, what actions are drawn with, noise for acting, and what an
        # update computes of each step.
        numbers = noise_size + columns + 2 * behavior.mask_size + memory_size
        beside = 8 * len(behavior.discrete) + 4 * numbers + _OF_AN_UPDATE
        require_memory(behavior, buffer_size, beside=beside)
        slots = behavior.slots
        self.behavior = behavior
        self.rows = math.ceil(buffer_size / slots)
        shape = (self.rows, slots)
        with_next = (self.rows + 1, slots)
        self.seen = {o.name: self._zeros((*with_next, *o.shape), o.dtype) for o in behavior.observations}
        if memory_size:
            self.seen[MEMORY] = self._zeros((*with_next, memory_size), np.float32)
        self.raw = self._zeros((*shape, behavior.continuous), np.float32)
        self.choices = self._zeros((*shape, len(behavior.discrete)), np.int64)
        self.columns = self._zeros((*shape, columns), np.float32)
        self.logits = self._zeros((*shape, behavior.mask_size), np.float32)
        self.masks: Large | None = None
        self.reward = np.zeros(shape, np.float32)
        self.group_reward: FloatArray | None = None
        self.terminated = np.zeros(shape, np.bool_)
        self.truncated = np.zeros(shape, np.bool_)
        self.final_rows: list[Pairs] = []  # whose final observation was kept
        self.final_seen: list[dict[str, Large]] = []  # the observations of each entry of `final_rows`, [k, *shape]
        self.cuts: list[Pairs] = []  # those of `final_rows` at which an episode was cut, and did not end
        self.cursor = np.zeros(slots, np.int64)
        self.row = 0
        self.ragged = False
        self.open = np.zeros(slots, np.bool_)
        self.awaiting = np.ones(slots, np.bool_)
        self.open_log_prob = np.full(slots, np.nan, np.float32)
        self.kept_log_prob = np.full(slots, np.nan, np.float32)

    # ------------------------------------------------------------ what is large

    def _zeros(self, shape: tuple[int, ...], dtype: Any) -> Large:
        return np.zeros(shape, dtype)

    def _place(self, rows: IntArray, slots: Indices) -> tuple[Any, Any]:
        """Return indices of large arrays: of ``slots`` [k] at their ``rows`` [k], and of ``slots`` in a step."""
        return (rows, slots), slots

    def _write(self, array: Large, at: Any, values: Large, slots: Any) -> None:
        """Copy ``values`` [S, *shape] of ``slots`` to ``array`` [T, S, *shape].

        Images whose channels come first in memory, as those of Atari do, are copied channel by channel: NumPy takes
        three times as long for all channels at once.
        """
        channels_first = values.ndim == 4 and values.strides[3] > values.strides[2]
        if not channels_first:
            array[at] = values[slots]
            return
        for k in range(values.shape[3]):
            channel = values[..., k]
            array[..., k][at] = channel[slots]

    def _concatenated(self, parts: list[Large]) -> Large:
        return np.concatenate(parts)

    def _twice(self, array: Large) -> Large:
        """Return ``array`` [T or T + 1, ...] with T rows of zeros more."""
        longer = self._concatenated([array, array[: self.rows]])
        longer[-self.rows :] = 0
        return longer

    # ------------------------------------------------------------ writing

    def begin(self, batch: AgentBatch, memory: FloatArray | None = None) -> None:
        """First observations of new episodes in all slots; trajectories that were going on are cut.

        ``memory`` [S, M] is what is remembered before the next action.
        """
        self._cut(np.arange(len(self.cursor)))
        self.open[:] = False
        if batch.needs_action is not None:
            self.become_ragged()
        self._write_next(batch, memory)

    def act(self, raw: Large | None, choices: Large | None, columns: Large | None, logits: Large | None) -> None:
        """Store the actions of all slots at their current observation, and what their distribution was given."""
        at: Any = self.row
        slots: Any = slice(None)
        if self.ragged:
            acting = np.flatnonzero(self.awaiting)
            rows = self.cursor[acting]
            self.open[acting] = True
            first = acting[rows == 0]
            self.kept_log_prob[first] = np.nan
            at, slots = self._place(rows, acting)
        elif self.row >= self.rows:  # agents of other ranks acted less often
            self.grow()
        if raw is not None and columns is not None:
            self.raw[at] = raw[slots]
            self.columns[at] = columns[slots]
        if choices is not None and logits is not None:
            self.choices[at] = choices[slots]
            self.logits[at] = logits[slots]

    def observe(self, batch: AgentBatch, memory: FloatArray | None = None, over: Indices | None = None) -> int:
        """Close transitions; return how many.

        ``memory`` [S, M] becomes zero in the slots ``over`` [K]; None: wherever an episode ended.
        """
        lost: Any = () if batch.aborted is None else np.flatnonzero(batch.aborted)
        takes_turns = batch.needs_action is not None or len(lost) > 0
        if takes_turns and not self.ragged:
            self.become_ragged()
            self.open[:] = True
        if len(lost):
            self.open[lost] = False
            self._cut(lost)
        at: Any = self.row
        slots: Any = slice(None)
        ended = batch.ended
        closed = len(self.cursor)
        if self.ragged:
            closing = self.open
            if batch.transition_closed is not None:
                closing = closing & batch.transition_closed
            slots = np.flatnonzero(closing)
            at = self.cursor[slots], slots
            ended = ended[closing[ended]]
            closed = len(slots)
        for name in RESULTS:
            result = getattr(batch, name)
            getattr(self, name)[at] = result[slots]
        if batch.group_reward is not None:
            self.group_rewards()[at] = batch.group_reward[slots]
        elif self.group_reward is not None:
            self.group_reward[at] = 0.0
        if ended.size:
            self._keep_final(ended, batch, memory)
        if self.ragged:
            self.cursor[slots] += 1
            self.open[slots] = False
            if self.cursor.max() >= self.rows:
                self.grow()
        else:
            self.row += 1
        if memory is not None:
            forgotten = batch.ended if over is None else over
            memory[forgotten] = 0.0
        self._write_next(batch, memory)
        return closed

    @property
    def size(self) -> int:
        """Closed transitions over all slots."""
        if self.ragged:
            return int(self.cursor.sum())
        return self.row * len(self.cursor)

    def restart(self) -> None:
        """Forget the closed transitions; the current observation, and what was done at it, stays."""
        last = self.lengths()
        at, _ = self._place(last, np.arange(len(last)))
        for _, array in self._observed():
            array[0] = array[at]
        if self.ragged:
            still_open = np.flatnonzero(self.open)
            at, slots = self._place(last[still_open], still_open)
            for name in ACTED:
                array = getattr(self, name)
                array[0, slots] = array[at]
            self.kept_log_prob = np.where(self.open, self.open_log_prob, np.float32(np.nan))
        self.cursor[:] = 0
        self.row = 0
        acts_together = self.awaiting.all() and not self.open.any()
        if acts_together:  # until one waits or is lost again
            self.ragged = False
        self.final_rows.clear()
        self.final_seen.clear()
        self.cuts.clear()

    # ------------------------------------------------------------ reading

    def _observed(self) -> Iterator[tuple[str, Large]]:
        """Yield the name and the array [T + 1, ...] of all that a slot has at an observation, before it acts."""
        yield from self.seen.items()
        if self.masks is not None:
            yield "masks", self.masks

    def as_values(self, numbers: Tensor | Array) -> Large:
        """Return ``numbers``, of any shape, in the form in which advantages of this rollout are computed: arrays."""
        if isinstance(numbers, Tensor):
            return to_numpy(numbers)
        return numbers

    @property
    def observations(self) -> dict[str, Array]:
        """The observations of the environment by name, each [T + 1, S, *shape]."""
        return {name: array for name, array in self.seen.items() if name != MEMORY}

    @property
    def memory(self) -> FloatArray | None:
        """Return what was remembered at each observation, [T + 1, S, M]; None without memory."""
        return self.seen.get(MEMORY)

    def lengths(self) -> IntArray:
        """Closed transitions of each slot, [S]; rows past them hold nothing."""
        if self.ragged:
            return self.cursor.copy()
        return np.full(len(self.cursor), self.row, np.int64)

    def finals(self) -> tuple[Pairs, dict[str, Large]]:
        """``(row, slot)`` pairs [K, 2] that ended, and what their agents saw last and remembered, each [K, *shape]."""
        if not self.final_rows:
            return _NO_PAIRS, {}
        seen = {}
        for name in self.final_seen[0]:
            parts = [observations[name] for observations in self.final_seen]
            seen[name] = self._concatenated(parts)
        return np.concatenate(self.final_rows), seen

    def followed(self, rows: IntArray, slots: IntArray) -> BoolArray:
        """Whether the next observation on which its agent acts is stored after each of these transitions [K]."""
        if not self.ragged:
            return np.ones(len(rows), np.bool_)
        acted_later = rows + 1 < self.cursor[slots]
        return acted_later | self.open[slots] | self.awaiting[slots]

    def cut_rows(self) -> Pairs:
        """``(row, slot)`` pairs [k, 2] after which an episode was cut: truncated for learning, not an end."""
        if self.cuts:
            return np.concatenate(self.cuts)
        return _NO_PAIRS

    def next_observations(self, rows: int) -> dict[str, Array]:
        """Return the observations that follow the first ``rows`` rows, [rows, S, *shape]: the final one if kept."""
        finals, final_seen = self.finals()
        row, slot = finals.T
        following = {}
        for name, array in self.observations.items():
            following[name] = array[1 : rows + 1].copy()
            if name in final_seen:
                following[name][row, slot] = final_seen[name]
        return following

    def transitions(self, layout: ActionLayout, rows: int, at: BoolArray | slice) -> Transitions:
        """The first ``rows`` rows for reward providers: [T, S] while all slots act together, else the N places ``at``.

        ``layout`` gives actions the environment's units.
        """

        def selected(array: Array) -> Array:
            part: Array = array[:rows][at]
            return part

        def following() -> dict[str, Array]:
            return {name: array[at] for name, array in self.next_observations(rows).items()}

        raw = selected(self.raw) if self.behavior.continuous else None
        choices = selected(self.choices) if self.behavior.discrete else None
        return Transitions(
            observations={name: selected(array) for name, array in self.observations.items()},
            actions=layout.actions(raw, choices),
            reward=selected(self.reward),
            terminated=selected(self.terminated),
            truncated=selected(self.truncated),
            group_reward=None if self.group_reward is None else selected(self.group_reward),
            following=following,
            slot=None if isinstance(at, slice) else np.nonzero(at)[1],
        )

    # ------------------------------------------------------------ inside

    def _write_next(self, batch: AgentBatch, memory: FloatArray | None) -> None:
        """The observations on which the slots act next."""
        at: Any = self.row
        slots: Any = slice(None)
        if self.ragged:
            self.awaiting[:] = True
            if batch.needs_action is not None:
                self.awaiting[:] = batch.needs_action
            acting = np.flatnonzero(self.awaiting)
            at, slots = self._place(self.cursor[acting], acting)
        for name, array in self.seen.items():
            following = memory if name == MEMORY else batch.observations[name]
            self._write(array, at, following, slots)
        if batch.action_mask is not None:
            self.mask_rows()[at] = batch.action_mask[slots]
        elif self.masks is not None:
            self.masks[at] = True

    def _keep_final(self, ended: Indices, batch: AgentBatch, memory: FloatArray | None) -> None:
        """Keep the last observations of the slots ``ended``, some of those of ``batch``."""
        if batch.final_observations is None:
            raise ValueError("an environment must give final_observations for the rows that ended")
        last = self.lengths()[ended]
        self.final_rows.append(np.stack([last, ended], axis=1))
        kept = np.arange(len(ended))
        if len(ended) < len(batch.ended):
            kept = np.flatnonzero(np.isin(batch.ended, ended))
        seen = {name: array[kept] for name, array in batch.final_observations.items()}  # copies
        if memory is not None:
            seen[MEMORY] = memory[ended]
        self.final_seen.append(seen)

    def _cut(self, slots: Indices) -> None:
        """End the trajectories of ``slots`` before their current observation, which they bootstrap from."""
        lengths = self.lengths()[slots]
        acted = lengths > 0
        slots = slots[acted]
        last = lengths[acted] - 1
        has_ended = self.terminated[last, slots] | self.truncated[last, slots]
        going_on = ~has_ended
        slots = slots[going_on]
        last = last[going_on]
        if not len(slots):
            return
        self.truncated[last, slots] = True
        cut = np.stack([last, slots], axis=1)
        at, _ = self._place(last + 1, slots)
        self.cuts.append(cut)
        self.final_rows.append(cut)
        current = {name: array[at] for name, array in self.seen.items()}
        self.final_seen.append(current)

    def become_ragged(self) -> None:
        """Give each slot a cursor of its own."""
        if self.ragged:
            return
        self.ragged = True
        self.cursor[:] = self.row
        if self.row >= self.rows:
            self.grow()

    def grow(self) -> None:
        """Double the rows: one slot acts far more often than the others, of this rank or of another one."""
        self.seen = {name: self._twice(array) for name, array in self.seen.items()}
        for name in ACTED:
            setattr(self, name, self._twice(getattr(self, name)))
        if self.masks is not None:
            self.masks = self._twice(self.masks)
        for name in (*RESULTS, "group_reward"):
            array = getattr(self, name)
            if array is not None:
                longer = np.concatenate([array, np.zeros_like(array)])
                setattr(self, name, longer)
        self.rows *= 2

    def mask_rows(self) -> Large:
        """Return the array ``masks``, which a rollout has from its first mask on."""
        if self.masks is None:
            shape = (self.rows + 1, len(self.cursor), self.behavior.mask_size)
            self.masks = self._zeros(shape, np.bool_)
            self.masks[...] = True
        return self.masks

    def group_rewards(self) -> FloatArray:
        """Return the array ``group_reward``, which a rollout has from its first reward of a group on."""
        if self.group_reward is None:
            self.group_reward = np.zeros((self.rows, len(self.cursor)), np.float32)
        return self.group_reward

    # ------------------------------------------------------------ checkpoints, and steps that the run has not seen

    def on_host(self) -> RolloutBuffer:
        """Return the rollout as arrays, for a checkpoint: itself."""
        return self

    def load(self, buffer: RolloutBuffer) -> None:
        """Continue from a rollout as arrays, which is the buffer itself."""

    def require_finite(self, step: int) -> None:
        """Do nothing before an update reads the rollout: the run has looked at every batch."""

    def played(self) -> list[AgentBatch]:
        """Return nothing: the run has counted the rewards and flags of every step."""
        return []
