"""Rings of transitions: how a replay buffer stores them, draws them, and reads single ones or stretches of ``n`` steps.

Every slot has a ring of C rows with a write cursor of its own, and each observation is stored once: the row after a
transition holds what followed it. The row at the cursor holds the current observation and becomes a transition when the
slot acts and the environment answers. Where an episode ended or was cut, its final observation takes a row of its own,
which is never sampled, and the next episode starts in the row after.

All arrays are flat. Position p of slot s is row ``p * S + s``, so the part in use is one stretch from the start until
the rings are full, the row that follows is ``row + S`` (modulo the number of rows), and a checkpoint takes the arrays
as they are. Rows that hold no transition have no flags; nothing in them matters unless a transition leads there.

An image that its spec declares a stack of frames has each frame stored once; see ``frame_rows.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import AgentBatch, BehaviorSpec, ConfigError, ObservationSpec
from rlcore_torch.allocation import choice_dtype, require_memory
from rlcore_torch.arrays import Array, Arrays, BoolArray, FloatArray, Indices
from rlcore_torch.off_policy.frame_rows import FrameRows, frames_bytes
from rlcore_torch.off_policy.priorities import Priorities
from rlcore_torch.off_policy.replay_segments import ReplaySegments

__all__ = ["ReplayRings", "Rows", "Steps"]

Rows = NDArray[np.int64]
"""Rows of a replay buffer, [B] of int64."""
NO_ROWS: Rows = np.empty(0, np.int64)

# flags of a row; a truncated one bootstraps, also where an episode was cut
CLOSED = 1
TERMINATED = 2
TRUNCATED = 4
LEAST_ROWS = 4  # of a ring: a transition, its final observation, the current one, and one to spare


@attrs.frozen(eq=False)
class Steps:
    """B transitions, copied out of the buffer.

    Attributes:
        observations: Observations by name, each [B, *shape].
        next_observations: Next observations by name, each [B, *shape]; the final one where an episode ended or was cut.
        raw: [B, continuous] raw continuous parts, as the trainer passed them to ``act``.
        choices: [B, branches] index of the chosen option of each branch.
        masks: [B, mask_size] whether each option was allowed; None: there never was a mask.
        next_masks: [B, mask_size] of the next observation, the final one included. None: there never was a mask.
        reward: [B] the environment's reward.
        group_reward: [B] the reward of the group; None: there never was one.
        terminated: [B] the episode ended by the rule of the task.
        truncated: [B] the episode ended by a time limit, or was cut: bootstrap from the next observation.
    """

    observations: Mapping[str, NDArray[Any]]
    next_observations: Mapping[str, NDArray[Any]]
    raw: FloatArray
    choices: NDArray[np.int64]
    masks: NDArray[np.bool_] | None
    next_masks: NDArray[np.bool_] | None
    reward: FloatArray
    group_reward: FloatArray | None
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class GatheredRows(Mapping[str, NDArray[Any]]):
    """Rows of arrays by name. An array is gathered when it is asked for: most rewards look at no observation."""

    def __init__(self, arrays: Arrays, rows: Rows) -> None:
        self._arrays = arrays
        self._rows = rows

    def __getitem__(self, name: str) -> Array:
        gathered: Array = self._arrays[name].take(self._rows, 0)
        return gathered

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class ReplayRings:
    """The last ``buffer_size`` rows over all slots, final and current observations included.

    Row r belongs to slot r % S; the next row of its trajectory is (r + S) % capacity. The arrays of rows are read-only;
    :meth:`rewrite` changes rows.

    Attributes:
        behavior: The observations and actions of the agents.
        slots: S, the number of slots.
        capacity: Rows of the buffer: S times the rows of a slot.
        observations: Observations by name, each [capacity, *shape]: arrays, or :class:`FrameRows`, which read alike.
        raw: [capacity, continuous] raw continuous parts of the actions.
        choices: [capacity, branches] index of the chosen option of each branch.
        reward: [capacity] the environment's reward.
        flags: [capacity] 0 for a row without a transition, else 1, plus 2 if it terminated, plus 4 if it was truncated.
        masks: [capacity, mask_size] whether each option is allowed; None before the first mask.
        group_reward: [capacity] the reward of the group; None before the first one.
        memory: [capacity, remembered] what networks with memory remembered before the action of the row.
        priorities: Priorities of the rows; None without ``priority_alpha``.
        filled: Rows from here on were never used.
        head: [S] row of the current observation of each slot.
        closed_rows: [K] rows of the transitions that the last call of ``observe`` closed.
        nbytes_of_row: Bytes of a row, without its mask, group reward and priority.
    """

    raw: FloatArray
    choices: NDArray[np.integer[Any]]
    reward: FloatArray
    flags: NDArray[np.uint8]
    memory: FloatArray
    masks: NDArray[np.bool_] | None
    group_reward: FloatArray | None

    def __init__(
        self, behavior: BehaviorSpec, buffer_size: int, priority_alpha: float | None = None, remembered: int = 0
    ) -> None:
        """``priority_alpha`` is the exponent of prioritized sampling; without it rows have no priorities.

        Each row has ``remembered`` numbers of memory, of four bytes each.

        Raises ConfigError, before anything is allocated, if ``buffer_size`` leaves a slot fewer than four rows or does
        not fit into memory.
        """
        slots = behavior.slots
        if buffer_size < LEAST_ROWS * slots:
            raise ConfigError(
                f"must be at least {LEAST_ROWS * slots} for the {slots} agents of the behavior ({LEAST_ROWS} rows "
                f"each), not {buffer_size}",
                key=("behaviors", behavior.name, "hyperparameters", "buffer_size"),
            )
        stacks = [o for o in behavior.observations if is_stack(o)]
        # Beside what every transition takes: a reward of the group, and a leaf of the tree of priorities.
        beside = 4 + 4 * remembered
        if priority_alpha is not None:
            beside += 9
        for o in stacks:  # a frame that is stored once takes less than the stacks that show it
            beside -= o.size * o.dtype.itemsize - frames_bytes(o)
        require_memory(behavior, buffer_size, beside=beside)
        self.behavior = behavior
        self.buffer_size = buffer_size
        self.slots = slots  # S
        capacity = math.ceil(buffer_size / slots) * slots  # S * C
        self.capacity = capacity
        self._frames = {o.name: FrameRows(o, capacity, slots) for o in stacks}
        self._observations: dict[str, Array] = {}  # those that are no stacks
        readable: dict[str, Any] = {}
        for o in behavior.observations:
            if o.name in self._frames:
                readable[o.name] = self._frames[o.name]
            else:
                array = np.zeros((capacity, *o.shape), o.dtype)
                self._observations[o.name] = array
                readable[o.name] = read_only(array)
        self.observations: Mapping[str, Any] = readable
        self._arrays: dict[str, Array] = {}
        self._add("raw", np.zeros((capacity, behavior.continuous), np.float32))
        self._add("choices", np.zeros((capacity, len(behavior.discrete)), choice_dtype(behavior.discrete)))
        self._add("reward", np.zeros(capacity, np.float32))
        self._add("flags", np.zeros(capacity, np.uint8))
        self._add("memory", np.zeros((capacity, remembered), np.float32))
        self.masks = None
        self.group_reward = None
        self.priorities = None if priority_alpha is None else Priorities(capacity, priority_alpha)
        self.filled = 0  # rows from here on were never used
        self.head: Rows = np.arange(slots)  # [S] row of each slot's current observation
        self.open = np.zeros(slots, np.bool_)  # [S] acted on and waiting for what follows
        self.awaiting = np.ones(slots, np.bool_)  # [S] slots that act next
        self.closed_rows: Rows = NO_ROWS  # [K] transitions that the last call of `observe` closed
        self._closed = 0
        arrays: list[Any] = [*readable.values(), *self._arrays.values()]
        nbytes = sum(int(array.nbytes) for array in arrays)
        self.nbytes_of_row = nbytes // capacity
        self._segments = ReplaySegments(capacity, slots, self.nbytes_of_row)
        self._claim(self.head)

    def _add(self, name: str, array: Array) -> None:
        """Store ``array`` as that of all rows called ``name``.

        Others read the attribute, which cannot be written to: a row that changed unseen would be missing in
        checkpoints.
        """
        self._arrays[name] = array
        setattr(self, name, read_only(array))

    def _optional(self, name: str) -> Array:
        """Return the array ``masks`` or ``group_reward``, which a buffer has from the first of them on."""
        if name in self._arrays:
            return self._arrays[name]
        if name == "masks":
            self._add(name, np.ones((self.capacity, self.behavior.mask_size), np.bool_))
        else:
            self._add(name, np.zeros(self.capacity, np.float32))
        self._segments.change(slice(None))
        return self._arrays[name]

    def __len__(self) -> int:
        """Closed transitions, all of which can be sampled."""
        return self._closed

    @property
    def steps_kept(self) -> int:
        """Environment steps whose transitions are all stored still, at least.

        A step needs at most two rows of a slot's ring: its observation, and the final one of an episode.
        """
        rows_of_slot = self.capacity // self.slots
        return rows_of_slot // 2 - 1

    def next_rows(self, rows: Rows) -> Rows:
        """The rows that follow, in the same slots."""
        following: Rows = (rows + self.slots) % self.capacity
        return following

    def rows_after_ends(self, rows: Rows) -> Rows:
        """The rows that follow, past the final observations of episodes that ended, where the next one has begun."""
        following = self.next_rows(rows)
        first_of_next = self.next_rows(following)
        slots = rows % self.slots
        acts = self.open | self.awaiting
        # An agent that waits for its turn has not seen its next episode: the row at the cursor is still to be written.
        is_unseen = (first_of_next == self.head[slots]) & ~acts[slots]
        has_next = self.ends(rows) & ~is_unseen
        return np.where(has_next, first_of_next, following)

    def ends(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether each of ``rows`` [B] is the last transition of its episode."""
        how = self.flags.take(rows) & (TERMINATED | TRUNCATED)
        last: NDArray[np.bool_] = how != 0
        return last

    # ------------------------------------------------------------ writing

    def begin(self, batch: AgentBatch) -> None:
        """First observations of new episodes in all slots; trajectories that were going on are cut."""
        self._cut(np.arange(self.slots))
        self.open[:] = False
        self._write_current(batch)

    def act(self, raw: FloatArray | None, choices: NDArray[np.int64] | None, memory: FloatArray | None = None) -> None:
        """Store the actions of the slots at their current observation: [S, continuous] and [S, branches].

        ``memory`` [S, remembered] is what the networks remembered before.
        """
        acting: Any = slice(None)
        if not self.awaiting.all():
            acting = np.flatnonzero(self.awaiting)
        rows = self.head[acting]
        for name, values in (("raw", raw), ("choices", choices), ("memory", memory)):
            if values is not None:
                self._arrays[name][rows] = values[acting]
        self.open[acting] = True

    def observe(self, batch: AgentBatch) -> int:
        """Close transitions; return how many."""
        if batch.aborted is not None and batch.aborted.any():
            self.open[batch.aborted] = False
            self._cut(np.flatnonzero(batch.aborted))
        is_closing = self.open
        if batch.transition_closed is not None:
            is_closing = is_closing & batch.transition_closed
        closing = np.flatnonzero(is_closing)
        rows = self.head[closing]
        self.closed_rows = rows
        self._closed += len(rows)
        self._arrays["reward"][rows] = batch.reward[closing]
        self._arrays["flags"][rows] = CLOSED
        if batch.group_reward is not None:
            self._optional("group_reward")[rows] = batch.group_reward[closing]
        elif self.group_reward is not None:
            self._arrays["group_reward"][rows] = 0.0
        if self.priorities is not None:
            self.priorities.change(rows, self.flags)
        if batch.ended.size:
            self._end(batch, is_closing[batch.ended])
        # The head may have moved to a final observation.
        following = self.next_rows(self.head[closing])
        self.head[closing] = following
        self._claim(following)
        self.open[closing] = False
        self._write_current(batch)
        return len(rows)

    def _end(self, batch: AgentBatch, closed: BoolArray) -> None:
        """Store how the episodes of ``batch.ended`` [K] ended, and their last observations, where ``closed`` [K]."""
        kept: Any = slice(None)
        if not closed.all():
            kept = closed
        ended = batch.ended[kept]
        if not ended.size:
            return
        if batch.final_observations is None:
            raise ValueError("an environment must give final_observations for the rows that ended")
        last = self.head[ended]
        following = self.next_rows(last)
        how = TERMINATED * batch.terminated[ended] + TRUNCATED * batch.truncated[ended]
        self._arrays["flags"][last] = CLOSED + how
        self._claim(following)
        finals = {name: batch.final_observations[name][kept] for name in self.observations}
        mask = batch.final_action_mask
        if mask is not None:
            mask = mask[kept]
        self._write(following, finals, mask)
        self.head[ended] = following

    def rewrite(
        self,
        rows: Rows | slice,
        *,
        observations: Mapping[str, NDArray[Any]] | None = None,
        raw: FloatArray | None = None,
        choices: NDArray[np.integer[Any]] | None = None,
        reward: FloatArray | None = None,
    ) -> None:
        """Change parts of the transitions of ``rows`` [B], for recorded data and for rewards that are computed again.

        ``observations`` by name, each [B, *shape]; ``raw`` [B, continuous]; ``choices`` [B, branches]; ``reward`` [B].
        The next checkpoint stores the blocks of rows that changed.
        """
        changed = np.arange(self.capacity)[rows]
        self._put(changed, observations or {})
        for name, values in (("raw", raw), ("choices", choices), ("reward", reward)):
            if values is not None:
                self._arrays[name][rows] = values
        self._segments.change(changed)

    # ------------------------------------------------------------ inside

    def _put(self, rows: Rows, observations: Arrays) -> None:
        """Write observations by name, each [B, *shape], into ``rows`` [B]."""
        for name, array in observations.items():
            if name in self._frames:
                self._frames[name].put(rows, array)
            else:
                self._observations[name][rows] = array

    def _claim(self, rows: Rows) -> None:
        """Overwrite ``rows``, the oldest ones of a full buffer, with new observations."""
        overwritten = np.count_nonzero(self.flags[rows])
        self._closed -= int(overwritten)
        self._arrays["flags"][rows] = 0
        self._segments.change(rows)
        if self.priorities is not None:
            self.priorities.change(rows, self.flags)
        if self.filled < self.capacity and len(rows):
            self.filled = max(self.filled, int(rows.max()) + 1)

    def _write_current(self, batch: AgentBatch) -> None:
        """Store the observations on which slots act next, and what is allowed there."""
        acting: Any = slice(None)
        self.awaiting[:] = True
        if batch.needs_action is not None:
            acting = np.flatnonzero(batch.needs_action)
            self.awaiting[:] = batch.needs_action
        observations = {name: batch.observations[name][acting] for name in self.observations}
        mask = batch.action_mask
        if mask is not None:
            mask = mask[acting]
        self._write(self.head[acting], observations, mask)

    def _write(self, rows: Rows, observations: Arrays, mask: BoolArray | None) -> None:
        """Write observations by name, each [B, *shape], and the ``mask`` [B, mask_size] of ``rows`` [B]."""
        self._put(rows, observations)
        if mask is not None:
            self._optional("masks")[rows] = mask
        elif self.masks is not None:
            self._arrays["masks"][rows] = True

    def _cut(self, slots: Indices) -> None:
        """End the trajectories of ``slots`` at their current observation, which their last transition leads to."""
        rows = self.head[slots]
        previous = (rows - self.slots) % self.capacity
        is_going_on = self.flags[previous] != 0  # a row without a transition, and a final observation, have no flags
        last = previous[is_going_on]
        self._arrays["flags"][last] |= TRUNCATED
        following = self.next_rows(rows[is_going_on])
        self.head[slots[is_going_on]] = following
        self._claim(following)

    # ------------------------------------------------------------ sampling

    def sample(self, batch_size: int, generator: np.random.Generator) -> Rows:
        """Return ``batch_size`` rows that hold a transition, uniformly, with replacement.

        Rows are drawn from all that are in use, and those without a transition rejected. The number drawn follows
        from how many there are, so that equal buffers and equal generators give equal samples.
        """
        self._require_some()
        return sample_rows(self.flags, self.filled, self._closed, batch_size, generator)

    def sample_prioritized(
        self, batch_size: int, generator: np.random.Generator, beta: float
    ) -> tuple[Rows, FloatArray]:
        """Return ``batch_size`` rows drawn by priority, and their importance weights [B], the largest of which is one.

        Only for a buffer made with ``priority_alpha``; see :class:`~rlcore_torch.off_policy.priorities.Priorities`.
        """
        self._require_some()
        priorities = self._require_priorities()
        priorities.refresh(self.flags)
        return priorities.sample(batch_size, generator, beta, self._closed)

    def set_priorities(self, rows: Rows, errors: NDArray[np.floating[Any]]) -> None:
        """Set how often ``rows`` [B] are drawn by their temporal-difference errors [B].

        Of a row given twice the last one counts. Raises ValueError for an error that is not finite.
        """
        self._require_priorities().set(rows, errors, self.flags)

    def reset_largest_priority(self) -> None:
        """Give new transitions the largest priority that a row has now, instead of the largest that any row ever had.

        Only for a buffer made with ``priority_alpha`` (Fujimoto et al. 2023, arXiv:2306.02451, appendix B). Nothing
        changes without a transition.
        """
        priorities = self._require_priorities()
        priorities.refresh(self.flags)
        priorities.reset_largest()

    def fill(self, flags: NDArray[np.uint8], masks: NDArray[np.bool_] | None = None) -> None:
        """Declare that the first rows, which the caller has written, are transitions, for recorded data.

        ``flags`` [rows] and ``masks`` [rows, mask_size] are stored.
        """
        self._arrays["flags"][: len(flags)] = flags
        self.filled = len(flags)
        self._segments.change(slice(None))
        self._closed = int(np.count_nonzero(flags))
        if masks is not None:
            stored = self._optional("masks")
            stored[: len(masks)] = masks

    # ------------------------------------------------------------ reading

    def transitions(self, rows: Rows, last: Rows | None = None) -> Steps:
        """Return copies of the transitions of ``rows`` [B].

        With ``last`` [B] (from :meth:`stretches`) next observations, next masks and flags are those of ``last``: what a
        stretch of several steps led to.
        """
        steps = self.view(rows, last)
        observations = dict(steps.observations)
        next_observations = dict(steps.next_observations)
        return attrs.evolve(steps, observations=observations, next_observations=next_observations)

    def view(self, rows: Rows, last: Rows | None = None) -> Steps:
        """Return what :meth:`transitions` returns; observations are copied each time that they are asked for."""
        if last is None:
            last = rows
        following = self.next_rows(last)
        flags = self.flags.take(last)
        masks = self.masks
        group_reward = self.group_reward
        return Steps(
            observations=GatheredRows(self.observations, rows),
            next_observations=GatheredRows(self.observations, following),
            raw=self.raw.take(rows, 0),
            choices=self.choices.take(rows, 0).astype(np.int64),
            masks=None if masks is None else masks.take(rows, 0),
            next_masks=None if masks is None else masks.take(following, 0),
            reward=self.reward.take(rows),
            group_reward=None if group_reward is None else group_reward.take(rows),
            terminated=(flags & TERMINATED).astype(np.bool_),
            truncated=(flags & TRUNCATED).astype(np.bool_),
        )

    def stretches(self, rows: Rows, n: int) -> tuple[Rows, NDArray[np.bool_], Rows]:
        """Return stretches of up to ``n`` transitions of one episode that start at ``rows`` [B].

        A stretch ends after n steps, with its episode, or at the newest transition. Returns the rows [n, B] that make
        it up, where they do [n, B] (past its end the last row is repeated), and the last row [B], whose next
        observation is the one to bootstrap from.
        """
        count = len(rows)
        if n == 1:
            return rows[None], np.ones((1, count), np.bool_), rows
        steps = np.arange(n)[:, None]
        indices = (rows + self.slots * steps) % self.capacity  # [n, B]
        # A final or current observation, which holds no transition, is between any two stretches.
        holds = self.flags.take(indices) != 0
        valid = np.logical_and.accumulate(holds, 0)
        length = np.count_nonzero(valid, 0)
        last = indices[length - 1, np.arange(count)]
        return np.where(valid, indices, last), valid, last

    # ------------------------------------------------------------ inside

    def _require_some(self) -> None:
        if not self._closed:
            raise ValueError(f"behavior {self.behavior.name!r}: the replay buffer holds no transition to sample yet")

    def _require_priorities(self) -> Priorities:
        if self.priorities is None:
            raise ValueError("the replay buffer was made without priorities; pass priority_alpha")
        return self.priorities


def sample_rows(
    flags: NDArray[np.uint8] | BoolArray, filled: int, closed: int, batch_size: int, generator: np.random.Generator
) -> Rows:
    """Draw ``batch_size`` of the ``closed`` rows that have flags, all of them among the first ``filled``."""
    rows = NO_ROWS
    while len(rows) < batch_size:
        missing = batch_size - len(rows)
        # As many as are accepted on average, and one: most samples need a single draw.
        count = missing * filled // closed + 1
        drawn = generator.integers(filled, size=count)
        accepted = drawn[flags.take(drawn) != 0]
        rows = np.concatenate([rows, accepted]) if len(rows) else accepted
    return rows[:batch_size]


def is_stack(observation: ObservationSpec) -> bool:
    """Whether ``observation`` is declared a stack of several frames, along the last axis of an image."""
    if observation.frames == 1 or observation.kind != "image":
        return False
    channels = observation.shape[-1]
    return channels % observation.frames == 0


def read_only(array: Array) -> Array:
    """Return a view of ``array`` that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
