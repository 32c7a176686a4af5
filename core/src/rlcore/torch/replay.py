"""The replay buffer: what an off-policy trainer samples from.

Every slot has a ring of C rows with a write cursor of its own, and each observation is stored once: the row after a
transition holds what followed it. The row at the cursor holds the current observation and becomes a transition when the
slot acts and the environment answers. Where an episode ended or was cut, its final observation takes a row of its own,
which is never sampled, and the next episode starts in the row after.

All arrays are flat. Position p of slot s is row ``p * S + s``, so the part in use is one stretch from the start until
the rings are full, the row that follows is ``row + S`` (modulo the number of rows), and a checkpoint takes the arrays
as they are. Rows that hold no transition have no flags; nothing in them matters unless a transition leads there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.environment import AgentBatch, BehaviorSpec
from rlcore.errors import ConfigError, RunStateError
from rlcore.torch.memory import choice_dtype, require_memory
from rlcore.torch.priorities import Priorities

FloatArray = NDArray[np.float32]
Rows = NDArray[np.int64]

CLOSED, TERMINATED, TRUNCATED = 1, 2, 4  # flags of a row; a truncated one bootstraps, also where an episode was cut
LEAST_ROWS = 4  # of a ring: a transition, a final observation, the current one, and one to tell them apart from


@attrs.frozen(eq=False)
class Steps:
    """B transitions, copied out of the buffer."""

    observations: dict[str, NDArray[Any]]  # each [B, *shape]
    next_observations: dict[str, NDArray[Any]]  # each [B, *shape]; the final one where an episode ended or was cut
    raw: FloatArray  # [B, continuous] as the trainer passed it to `act`
    choices: NDArray[np.int64]  # [B, branches]
    masks: NDArray[np.bool_] | None  # [B, mask_size]; None: there never was one
    next_masks: NDArray[np.bool_] | None  # [B, mask_size]; a final observation allows everything
    reward: FloatArray  # [B]
    group_reward: FloatArray | None  # [B]; None: there never was one
    terminated: NDArray[np.bool_]  # [B]
    truncated: NDArray[np.bool_]  # [B] ended by a time limit, or cut: bootstrap from the next observation


class ReplayBuffer:
    """The last ``buffer_size`` rows over all slots, final and current observations included."""

    def __init__(self, behavior: BehaviorSpec, buffer_size: int, priority_alpha: float | None = None) -> None:
        """``priority_alpha`` is the exponent of prioritised sampling; without it rows have no priorities.

        Raises ConfigError, before anything is allocated, if ``buffer_size`` leaves a slot fewer than four rows or does
        not fit into memory.
        """
        slots = behavior.slots
        if buffer_size < LEAST_ROWS * slots:
            raise ConfigError(
                f"hyperparameters.buffer_size: must be at least {LEAST_ROWS * slots} for the {slots} agents of "
                f"behavior {behavior.name!r} ({LEAST_ROWS} rows each), not {buffer_size}"
            )
        require_memory(behavior, buffer_size, priorities=priority_alpha is not None)
        self.behavior = behavior
        self.buffer_size = buffer_size
        self.slots = slots  # S
        self.capacity = capacity = -(-buffer_size // slots) * slots  # S * C
        self.observations = {o.name: np.zeros((capacity, *o.shape), o.dtype) for o in behavior.observations}
        self.raw = np.zeros((capacity, behavior.continuous), np.float32)
        self.choices = np.zeros((capacity, len(behavior.discrete)), choice_dtype(behavior.discrete))
        self.reward = np.zeros(capacity, np.float32)
        self.flags = np.zeros(capacity, np.uint8)
        self.masks: NDArray[np.bool_] | None = None  # [S * C, mask_size], from the first mask on
        self.group_reward: FloatArray | None = None  # [S * C], from the first group reward on
        self.priorities = None if priority_alpha is None else Priorities(capacity, priority_alpha)
        self.filled = 0  # rows from here on were never used
        self.head: Rows = np.arange(slots)  # [S] row of each slot's current observation
        self.open = np.zeros(slots, np.bool_)  # [S] acted on and waiting for what follows
        self.awaiting = np.ones(slots, np.bool_)  # [S] slots that act next
        self._closed = 0
        self._all_open = False  # open.all() and awaiting.all(), without asking in every step
        self._all_awaiting = True
        self._claim(self.head)

    def __len__(self) -> int:
        """Closed transitions, all of which can be sampled."""
        return self._closed

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        arrays = [*self.observations.values(), self.raw, self.choices, self.reward, self.flags]
        tree = None if self.priorities is None else self.priorities.tree
        return sum(a.nbytes for a in [*arrays, self.masks, self.group_reward, tree] if a is not None)

    # ------------------------------------------------------------ writing

    def begin(self, batch: AgentBatch) -> None:
        """First observations of new episodes in all slots; trajectories that were going on are cut."""
        self._cut(np.arange(self.slots))
        self.open[:] = self._all_open = False
        self._write_current(batch)

    def act(self, raw: FloatArray | None, choices: NDArray[np.int64] | None) -> None:
        """What the slots do at their current observation: [S, continuous] and [S, branches]."""
        acting = slice(None) if self._all_awaiting else np.flatnonzero(self.awaiting)
        rows = self.head[acting]
        if raw is not None:
            self.raw[rows] = raw[acting]
        if choices is not None:
            self.choices[rows] = choices[acting]
        self.open[acting] = True
        self._all_open |= self._all_awaiting

    def observe(self, batch: AgentBatch) -> int:
        """Closes transitions; returns how many."""
        if batch.aborted is not None and batch.aborted.any():
            self.open[batch.aborted] = self._all_open = False
            self._cut(np.flatnonzero(batch.aborted))
        ended, finals = batch.ended, batch.final_observations
        closing: slice | NDArray[np.intp] = slice(None)
        if not self._all_open or batch.needs_action is not None:
            moved = batch.moved
            moves = self.open if moved is None else self.open & moved
            closing = np.flatnonzero(moves)
            if ended.size and not (kept := moves[ended]).all():
                ended = ended[kept]
                finals = None if finals is None else {name: array[kept] for name, array in finals.items()}
        rows = self.head[closing]  # rows of what closes here; a view of the cursors where everything does
        self.reward[rows] = batch.reward[closing]
        if batch.group_reward is not None:
            self._group_rewards()[rows] = batch.group_reward[closing]
        elif self.group_reward is not None:
            self.group_reward[rows] = 0.0
        self.flags[rows] = CLOSED
        count = len(rows)
        self._closed += count
        if self.priorities is not None:
            self.priorities.change(rows)
        if ended.size:
            last = self.head[ended]
            how = TERMINATED * batch.terminated[ended] + TRUNCATED * batch.truncated[ended]
            self.flags[last] = CLOSED + how
            self._write_finals(self.next_rows(last), finals)
            self.head[ended] = self.next_rows(last)
        self.head[closing] = self.next_rows(self.head[closing])
        self._claim(self.head[closing])
        self.open[closing] = False
        self._all_open = False
        self._write_current(batch)
        return count

    # ------------------------------------------------------------ reading

    def next_rows(self, rows: Rows) -> Rows:
        """The rows that follow, in the same slots."""
        following: Rows = (rows + self.slots) % self.capacity
        return following

    def sample(self, batch_size: int, generator: np.random.Generator) -> Rows:
        """``batch_size`` rows that hold a transition, uniformly, with replacement.

        Rows are drawn from all that are in use, and those without a transition rejected. The number drawn follows
        from how many there are, so that equal buffers and equal generators give equal samples.
        """
        self._require_some()
        found = np.empty(0, np.int64)
        while len(found) < batch_size:
            wanted = (batch_size - len(found)) * self.filled // self._closed + 1
            drawn = generator.integers(self.filled, size=wanted)
            accepted = drawn[self.flags.take(drawn) != 0]
            found = np.concatenate([found, accepted]) if len(found) else accepted
        return found[:batch_size]

    def sample_prioritized(
        self, batch_size: int, generator: np.random.Generator, beta: float
    ) -> tuple[Rows, FloatArray]:
        """``batch_size`` rows drawn by priority, and their importance weights [B], the largest of which is one.

        Only for a buffer made with ``priority_alpha``; see :meth:`rlcore.torch.priorities.Priorities.sample`.
        """
        self._require_some()
        priorities = self._require_priorities()
        priorities.refresh(self.flags)
        return priorities.sample(batch_size, generator, beta, self._closed)

    def set_priorities(self, rows: Rows, errors: NDArray[np.floating[Any]]) -> None:
        """Temporal-difference errors [B] of ``rows`` [B] decide how often they are drawn.

        Of a row given twice the last one counts. Raises ValueError for an error that is not finite.
        """
        self._require_priorities().set(rows, errors, self.flags)

    def transitions(self, rows: Rows, last: Rows | None = None) -> Steps:
        """The transitions of ``rows`` [B].

        With ``last`` [B] (from :meth:`windows`) next observations, next masks and flags are those of ``last``: what a
        stretch of several steps led to.
        """
        last = rows if last is None else last
        following = self.next_rows(last)
        flags = self.flags.take(last)
        masks, group_reward = self.masks, self.group_reward
        return Steps(
            {name: array.take(rows, 0) for name, array in self.observations.items()},
            {name: array.take(following, 0) for name, array in self.observations.items()},
            self.raw.take(rows, 0),
            self.choices.take(rows, 0).astype(np.int64),
            None if masks is None else masks.take(rows, 0),
            None if masks is None else masks.take(following, 0),
            self.reward.take(rows),
            None if group_reward is None else group_reward.take(rows),
            (flags & TERMINATED).astype(np.bool_),
            (flags & TRUNCATED).astype(np.bool_),
        )

    def windows(self, rows: Rows, n: int) -> tuple[Rows, NDArray[np.bool_], Rows]:
        """Stretches of up to ``n`` transitions of one episode that start at ``rows`` [B].

        A stretch ends after n steps, with its episode, or at the newest transition. Returns the rows [n, B] that make
        it up, where they do [n, B] (past its end the last row is repeated), and the last row [B], whose next
        observation is the one to bootstrap from.
        """
        if n == 1:
            return rows[None], np.ones((1, len(rows)), np.bool_), rows
        indices = (rows + self.slots * np.arange(n)[:, None]) % self.capacity  # [n, B]
        # A final or current observation, which holds no transition, is between any two stretches.
        valid = np.logical_and.accumulate(self.flags.take(indices) != 0, 0)
        last = indices[np.count_nonzero(valid, 0) - 1, np.arange(len(rows))]
        return np.where(valid, indices, last), valid, last

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The rows in use and where each slot is. Arrays are the buffer's own: write them down before the next step."""
        used = self.filled
        state: dict[str, Any] = {
            "layout": self._layout(),
            "head": self.head.copy(),
            "open": self.open.copy(),
            "awaiting": self.awaiting.copy(),
            "observations": {name: array[:used] for name, array in self.observations.items()},
        }
        for name in ("raw", "choices", "reward", "flags", "masks", "group_reward"):
            if (array := getattr(self, name)) is not None:
                state[name] = array[:used]
        if self.priorities is not None:
            self.priorities.refresh(self.flags)
            state["priorities"] = self.priorities.state_dict(used)
        return state

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raises RunStateError unless the state is of a buffer made like this one."""
        saved, own = state["layout"], self._layout()
        for key, value in own.items():
            if saved.get(key) != value:
                raise RunStateError(
                    f"behavior {self.behavior.name!r}: the saved replay buffer was made with {key} {saved.get(key)} "
                    f"and this run has {value}; go on with the {key} the checkpoint was made with, or start a new run"
                )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises RunStateError, changing nothing, if the state is of another number of slots, rows or behavior."""
        self.require_fit(state)
        self.filled = used = len(state["flags"])
        self.flags[:] = 0
        self.masks = self.group_reward = None
        if "masks" in state:
            self._mask_rows()
        if "group_reward" in state:
            self._group_rewards()
        for name, saved in state["observations"].items():
            self.observations[name][:used] = saved
        for name in ("raw", "choices", "reward", "flags", "masks", "group_reward"):
            if name in state:
                getattr(self, name)[:used] = state[name]
        self.head[:] = state["head"]
        self.open[:] = state["open"]
        self.awaiting[:] = state["awaiting"]
        self._all_open, self._all_awaiting = bool(self.open.all()), bool(self.awaiting.all())
        self._closed = int(np.count_nonzero(self.flags))
        if self.priorities is not None:
            self.priorities.load_state_dict(state["priorities"])

    def _layout(self) -> dict[str, Any]:
        """What another buffer must share to take this one's state; JSON values only."""
        behavior = self.behavior
        return {
            "slots": self.slots,
            "buffer_size": self.buffer_size,
            "observations": [[o.name, list(o.shape), o.dtype.name] for o in behavior.observations],
            "actions": [behavior.continuous, list(behavior.discrete)],
            "priority_alpha": None if self.priorities is None else self.priorities.alpha,
        }

    # ------------------------------------------------------------ inside

    def _claim(self, rows: Rows) -> None:
        """Takes ``rows`` for new observations; the transitions they held are gone."""
        self._closed -= int(np.count_nonzero(self.flags[rows]))
        self.flags[rows] = 0
        if self.priorities is not None:
            self.priorities.change(rows)
        if self.filled < self.capacity and len(rows):
            self.filled = max(self.filled, int(rows.max()) + 1)

    def _write_current(self, batch: AgentBatch) -> None:
        acting = slice(None) if batch.needs_action is None else np.flatnonzero(batch.needs_action)
        rows = self.head[acting]
        for name, array in self.observations.items():
            array[rows] = batch.observations[name][acting]
        if batch.action_mask is not None:
            self._mask_rows()[rows] = batch.action_mask[acting]
        elif self.masks is not None:
            self.masks[rows] = True
        self.awaiting[:] = True if batch.needs_action is None else batch.needs_action
        self._all_awaiting = len(rows) == self.slots

    def _write_finals(self, rows: Rows, finals: Mapping[str, NDArray[Any]] | None) -> None:
        """The last observations of episodes that ended."""
        if finals is None:
            raise ValueError("an environment must give final_observations for the rows that ended")
        self._claim(rows)
        for name, array in self.observations.items():
            array[rows] = finals[name]
        if self.masks is not None:
            self.masks[rows] = True

    def _cut(self, slots: NDArray[np.intp]) -> None:
        """Ends the trajectories of ``slots`` at their current observation, which their last transition leads to."""
        rows = self.head[slots]
        previous = (rows - self.slots) % self.capacity
        going_on = self.flags[previous] != 0  # no transition, or a final observation, has none
        self.flags[previous[going_on]] |= TRUNCATED
        self.head[slots[going_on]] = following = self.next_rows(rows[going_on])
        self._claim(following)

    def _require_some(self) -> None:
        if not self._closed:
            raise ValueError(f"behavior {self.behavior.name!r}: the replay buffer holds no transition to sample yet")

    def _require_priorities(self) -> Priorities:
        if self.priorities is None:
            raise ValueError("the replay buffer was made without priorities; pass priority_alpha")
        return self.priorities

    def _mask_rows(self) -> NDArray[np.bool_]:
        if self.masks is None:
            self._require_more(masks=True, groups=self.group_reward is not None)
            self.masks = np.ones((self.capacity, self.behavior.mask_size), np.bool_)
        return self.masks

    def _group_rewards(self) -> FloatArray:
        if self.group_reward is None:
            self._require_more(masks=self.masks is not None, groups=True)
            self.group_reward = np.zeros(self.capacity, np.float32)
        return self.group_reward

    def _require_more(self, masks: bool, groups: bool) -> None:
        """Raises ConfigError if there is no room for one more array."""
        require_memory(
            self.behavior,
            self.buffer_size,
            priorities=self.priorities is not None,
            masks=masks,
            groups=groups,
            in_use=self.nbytes * self.filled // self.capacity,  # pages not written yet are still available
        )
