"""The rollout buffer: what an on-policy trainer collects between two updates.

Arrays are allocated once, [T, S] for T rows and S slots, and each observation is stored once: row t + 1 holds what
followed row t. What a network with memory remembers is stored as one more observation. Slots that do not act in every
step (turn-based games, decision periods) have a write cursor of their own; while all slots act together a step is one
slice write.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import AgentBatch, BehaviorSpec, Transitions
from rlcore_torch.allocation import require_memory
from rlcore_torch.networks.actions import ActionLayout

__all__ = ["RolloutBuffer"]

FloatArray = NDArray[np.float32]

MEMORY = "/memory"  # the key of what is remembered, beside the names of observations
_OF_AN_UPDATE = 32  # bytes of a step: log-probability, value, advantage, return, and their copies in minibatches


class RolloutBuffer:
    """Transitions of all slots since the last update."""

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
        self.rows = -(-buffer_size // slots)  # T
        shape = (self.rows, slots)
        self.seen = {
            o.name: np.zeros((self.rows + 1, slots, *o.shape), o.dtype) for o in behavior.observations
        }  # [T + 1, S, *shape]
        if memory_size:
            self.seen[MEMORY] = np.zeros((self.rows + 1, slots, memory_size), np.float32)
        self.raw = np.zeros((*shape, behavior.continuous), np.float32)  # [T, S, continuous] before clipping
        self.choices = np.zeros((*shape, len(behavior.discrete)), np.int64)  # [T, S, branches]
        # What the distribution of the actions was given: [T, S, columns], and [T, S, logits], those masked
        self.columns = np.zeros((*shape, columns), np.float32)
        self.logits = np.zeros((*shape, behavior.mask_size), np.float32)
        self.masks: NDArray[np.bool_] | None = None  # [T + 1, S, mask_size], from the first mask on
        self.reward = np.zeros(shape, np.float32)
        self.group_reward: FloatArray | None = None  # [T, S], from the first group reward on
        self.terminated = np.zeros(shape, np.bool_)
        self.truncated = np.zeros(shape, np.bool_)
        self.final_rows: list[NDArray[np.int64]] = []  # (row, slot) pairs [k, 2] whose final observation was kept
        self.final_seen: list[dict[str, NDArray[Any]]] = []  # the observations, [k, *shape]
        self.cuts: list[NDArray[np.int64]] = []  # those of them that did not end: an episode was cut there
        self.cursor = np.zeros(slots, np.int64)  # [S] transitions closed in each slot
        self.row = 0  # the common cursor while all slots act together
        self.ragged = False
        self.open = np.zeros(slots, np.bool_)  # [S] acted on and waiting for what follows; used when ragged
        self.awaiting = np.ones(slots, np.bool_)  # [S] slots that act next; used when ragged
        # [S] log-probabilities under the weights that acted: of open actions, as an update finds them, and of first
        # actions that were chosen before the latest update; NaN for the others
        self.open_log_prob = np.full(slots, np.nan, np.float32)
        self.kept_log_prob = np.full(slots, np.nan, np.float32)

    # ------------------------------------------------------------ writing

    def begin(self, batch: AgentBatch, memory: FloatArray | None = None) -> None:
        """First observations of new episodes in all slots; trajectories that were going on are cut.

        ``memory`` [S, M] is what is remembered before the next action.
        """
        self._cut(np.arange(len(self.cursor)))
        self.open[:] = False
        if batch.needs_action is not None:
            self._become_ragged()
        self._write_next(batch, memory)

    def act(
        self,
        raw: FloatArray | None,
        choices: NDArray[np.int64] | None,
        columns: FloatArray | None,
        logits: FloatArray | None,
    ) -> None:
        """Store the actions of all slots at their current observation, and what their distribution was given."""
        at: Any = self.row
        slots: Any = slice(None)
        if self.ragged:
            slots = np.flatnonzero(self.awaiting)
            rows = self.cursor[slots]
            at = rows, slots
            self.open[slots] = True
            self.kept_log_prob[slots[rows == 0]] = np.nan
        elif self.row >= self.rows:  # agents of other ranks acted less often
            self.grow()
        if raw is not None and columns is not None:
            self.raw[at] = raw[slots]
            self.columns[at] = columns[slots]
        if choices is not None and logits is not None:
            self.choices[at] = choices[slots]
            self.logits[at] = logits[slots]

    def observe(self, batch: AgentBatch, memory: FloatArray | None = None, over: NDArray[np.intp] | None = None) -> int:
        """Closes transitions; returns how many.

        ``memory`` [S, M] becomes zero in the slots ``over`` [K]; None: wherever an episode ended.
        """
        lost = batch.aborted is not None and batch.aborted.any()
        if (batch.needs_action is not None or lost) and not self.ragged:
            self._become_ragged()
            self.open[:] = True
        if batch.aborted is not None and lost:
            self.open[batch.aborted] = False
            self._cut(np.flatnonzero(batch.aborted))
        at: Any = self.row
        slots: Any = slice(None)
        ended = batch.ended
        if self.ragged:
            closing = self.open.copy()
            if batch.needs_action is not None:
                closing &= batch.needs_action | batch.terminated | batch.truncated
            slots = np.flatnonzero(closing)
            ended = ended[closing[ended]]
            at = self.cursor[slots], slots
        self.reward[at] = batch.reward[slots]
        self.terminated[at] = batch.terminated[slots]
        self.truncated[at] = batch.truncated[slots]
        if batch.group_reward is not None:
            self.group_rewards()[at] = batch.group_reward[slots]
        elif self.group_reward is not None:
            self.group_reward[at] = 0.0
        if ended.size:
            self._keep_final(ended, batch, memory)
        closed = len(self.cursor)
        if self.ragged:
            closed = len(slots)
            self.cursor[slots] += 1
            self.open[slots] = False
            if self.cursor.max() >= self.rows:
                self.grow()
        else:
            self.row += 1
        if memory is not None:
            memory[batch.ended if over is None else over] = 0.0
        self._write_next(batch, memory)
        return closed

    @property
    def size(self) -> int:
        """Closed transitions over all slots."""
        return int(self.cursor.sum()) if self.ragged else self.row * len(self.cursor)

    def restart(self) -> None:
        """Forgets the closed transitions; the current observation, and what was done at it, stays."""
        last = self.lengths()
        slots = np.arange(len(last))
        for array in self.seen.values():
            array[0] = array[last, slots]
        if self.masks is not None:
            self.masks[0] = self.masks[last, slots]
        if self.ragged:
            still = np.flatnonzero(self.open)
            for array in (self.raw, self.choices, self.columns, self.logits):
                array[0, still] = array[last[still], still]
            self.kept_log_prob = np.where(self.open, self.open_log_prob, np.float32(np.nan))
        self.cursor[:] = 0
        self.row = 0
        if self.awaiting.all() and not self.open.any():  # all slots act together, until one waits or is lost again
            self.ragged = False
        self.final_rows.clear()
        self.cuts.clear()
        self.final_seen.clear()

    # ------------------------------------------------------------ reading

    def require_finite(self, step: int) -> None:
        """Do nothing: the run has looked at every batch."""

    @property
    def observations(self) -> dict[str, NDArray[Any]]:
        """The observations of the environment by name, each [T + 1, S, *shape]."""
        return {name: array for name, array in self.seen.items() if name != MEMORY}

    @property
    def memory(self) -> FloatArray | None:
        """Return what was remembered at each observation, [T + 1, S, M]; None without memory."""
        return self.seen.get(MEMORY)

    def lengths(self) -> NDArray[np.int64]:
        """Closed transitions of each slot, [S]; rows past them hold nothing."""
        return self.cursor.copy() if self.ragged else np.full(len(self.cursor), self.row, np.int64)

    def finals(self) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """``(row, slot)`` pairs [K, 2] that ended, and what their agents saw last and remembered, each [K, *shape]."""
        if not self.final_rows:
            return np.empty((0, 2), np.int64), {}
        joined = {name: np.concatenate([kept[name] for kept in self.final_seen]) for name in self.final_seen[0]}
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
        finals, final_seen = self.finals()
        following = {name: array[1 : rows + 1].copy() for name, array in self.observations.items()}
        for name in final_seen.keys() & following.keys():
            following[name][finals[:, 0], finals[:, 1]] = final_seen[name]
        return following

    def transitions(self, layout: ActionLayout, rows: int, at: NDArray[np.bool_] | slice) -> Transitions:
        """The first ``rows`` rows for reward providers: [T, S] while all slots act together, else the N places ``at``.

        ``layout`` gives actions the environment's units.
        """

        def selected(array: NDArray[Any]) -> NDArray[Any]:
            part: NDArray[Any] = array[:rows][at]
            return part

        return Transitions(
            observations={name: selected(array) for name, array in self.observations.items()},
            actions=layout.actions(
                selected(self.raw) if self.behavior.continuous else None,
                selected(self.choices) if self.behavior.discrete else None,
            ),
            reward=selected(self.reward),
            terminated=selected(self.terminated),
            truncated=selected(self.truncated),
            group_reward=None if self.group_reward is None else selected(self.group_reward),
            following=lambda: {name: array[at] for name, array in self.next_observations(rows).items()},
            slot=None if isinstance(at, slice) else np.nonzero(at)[1],
        )

    # ------------------------------------------------------------ inside

    def _write_next(self, batch: AgentBatch, memory: FloatArray | None) -> None:
        """The observations on which the slots act next."""
        at: Any = self.row
        slots: Any = slice(None)
        if self.ragged:
            acting = batch.needs_action
            slots = np.arange(len(self.cursor)) if acting is None else np.flatnonzero(acting)
            at = self.cursor[slots], slots
            self.awaiting[:] = True if acting is None else acting
        for name, array in self.seen.items():
            following = memory if name == MEMORY else batch.observations[name]
            assert following is not None
            for stored, seen in _quickly_copied(array, following):
                stored[at] = seen[slots]
        if batch.action_mask is not None:
            self.mask_rows()[at] = batch.action_mask[slots]
        elif self.masks is not None:
            self.masks[at] = True

    def _keep_final(self, ended: NDArray[np.intp], batch: AgentBatch, memory: FloatArray | None) -> None:
        if batch.final_observations is None:
            raise ValueError("an environment must give final_observations for the rows that ended")
        self.final_rows.append(np.stack([self.lengths()[ended], ended], axis=1))
        kept = slice(None) if len(ended) == len(batch.ended) else np.isin(batch.ended, ended)
        self.final_seen.append({name: array[kept].copy() for name, array in batch.final_observations.items()})
        if memory is not None:
            self.final_seen[-1][MEMORY] = memory[ended]

    def _cut(self, slots: NDArray[np.intp]) -> None:
        """Ends the trajectories of ``slots`` before their current observation, which they bootstrap from."""
        lengths = self.lengths()[slots]
        slots = slots[lengths > 0]
        last = lengths[lengths > 0] - 1
        going_on = ~(self.terminated[last, slots] | self.truncated[last, slots])
        slots = slots[going_on]
        last = last[going_on]
        if not len(slots):
            return
        self.truncated[last, slots] = True
        self.final_rows.append(np.stack([last, slots], axis=1))
        self.cuts.append(self.final_rows[-1])
        self.final_seen.append({name: a[last + 1, slots] for name, a in self.seen.items()})

    def _become_ragged(self) -> None:
        if not self.ragged:
            self.ragged = True
            self.cursor[:] = self.row
            if self.row >= self.rows:
                self.grow()

    def on_host(self) -> RolloutBuffer:
        """Return the rollout as arrays, for a checkpoint: itself."""
        return self

    def load(self, buffer: RolloutBuffer) -> None:
        """Continue from a rollout as arrays, which is the buffer itself."""

    def grow(self) -> None:
        """Doubles the rows: one slot acts far more often than the others, of this rank or of another one."""
        extra = self.rows
        self.rows += extra

        def longer(array: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([array, np.zeros((extra, *array.shape[1:]), array.dtype)])

        self.seen = {name: longer(array) for name, array in self.seen.items()}
        for name in ("raw", "choices", "columns", "logits", "reward", "terminated", "truncated"):
            setattr(self, name, longer(getattr(self, name)))
        self.masks = None if self.masks is None else longer(self.masks)
        self.group_reward = None if self.group_reward is None else longer(self.group_reward)

    def mask_rows(self) -> NDArray[np.bool_]:
        if self.masks is None:
            self.masks = np.ones((self.rows + 1, len(self.cursor), self.behavior.mask_size), np.bool_)
        return self.masks

    def group_rewards(self) -> FloatArray:
        if self.group_reward is None:
            self.group_reward = np.zeros((self.rows, len(self.cursor)), np.float32)
        return self.group_reward


def _quickly_copied(array: NDArray[Any], seen: NDArray[Any]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return parts of ``array`` [T, S, *shape], and of ``seen`` [S, *shape], which is copied to one of its rows.

    Images whose channels come first in memory, as those of Atari do, are copied channel by channel: NumPy takes three
    times as long for all channels at once.
    """
    if seen.ndim == 4 and seen.strides[3] > seen.strides[2]:
        return [(array[..., k], seen[..., k]) for k in range(seen.shape[3])]
    return [(array, seen)]
