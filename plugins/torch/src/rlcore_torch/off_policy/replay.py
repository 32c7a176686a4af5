"""The replay buffer: what an off-policy trainer samples from, as single transitions or stretches of ``n`` steps.

:mod:`~rlcore_torch.off_policy.replay_rings` lays rows out and writes them. :meth:`ReplayBuffer.stretches` decides which
rows belong to n steps of one episode; :mod:`~rlcore_torch.off_policy.transition_batch` adds their rewards up.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import RunStateError, SavedValueError, saved_array, saved_count, saved_entry, saved_mapping
from rlcore_torch.off_policy.priorities import Priorities
from rlcore_torch.off_policy.replay_rings import TERMINATED, TRUNCATED, ReplayRings

__all__ = ["ReplayBuffer", "Rows", "Steps"]

FloatArray = NDArray[np.float32]
Rows = NDArray[np.int64]
"""Rows of a replay buffer, [B] of int64."""
OPTIONAL = ("masks", "group_reward")  # arrays of rows that a buffer has from the first mask or group reward on


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

    observations: dict[str, NDArray[Any]]
    next_observations: dict[str, NDArray[Any]]
    raw: FloatArray
    choices: NDArray[np.int64]
    masks: NDArray[np.bool_] | None
    next_masks: NDArray[np.bool_] | None
    reward: FloatArray
    group_reward: FloatArray | None
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class ReplayBuffer(ReplayRings):
    """A replay buffer: rows to sample, and what is in them.

    The arrays are those of :class:`~rlcore_torch.ReplayRings`.
    """

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

    def fill(self, flags: NDArray[np.uint8], masks: NDArray[np.bool_] | None = None) -> None:
        """Declare that the first rows, which the caller has written, are transitions, for recorded data.

        ``flags`` [rows] and ``masks`` [rows, mask_size] are stored.
        """
        self._flags[: len(flags)] = flags
        self.filled = len(flags)
        self._segments.change_all()
        self._closed = int(np.count_nonzero(flags))
        if masks is not None:
            self._mask_rows()[: len(masks)] = masks

    # ------------------------------------------------------------ reading

    def transitions(self, rows: Rows, last: Rows | None = None) -> Steps:
        """Return the transitions of ``rows`` [B].

        With ``last`` [B] (from :meth:`stretches`) next observations, next masks and flags are those of ``last``: what a
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

    def stretches(self, rows: Rows, n: int) -> tuple[Rows, NDArray[np.bool_], Rows]:
        """Return stretches of up to ``n`` transitions of one episode that start at ``rows`` [B].

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
        """The rows in use, and where each slot is.

        ``segments`` has the rows as :class:`~rlcore.SharedPart`; those that did not change since the last
        call are the same objects. Arrays are the buffer's own: write them down before the next step.
        """
        state: dict[str, Any] = {
            "layout": self._layout(),
            "head": self.head.copy(),
            "open": self.open.copy(),
            "awaiting": self.awaiting.copy(),
            "rows": self.filled,
            "segment_rows": self._segments.rows,
            "segments": self._segments.parts(self._stored(), self.filled, self.head, self._moved),
        }
        self._moved = 0
        if self.priorities is not None:
            self.priorities.refresh(self.flags)
            state["priorities"] = self.priorities.state_dict(self.filled)
        return state

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError unless the state is of a buffer made like this one. SavedValueError is one."""
        saved, own = saved_mapping(state, "layout"), self._layout()
        for key, value in own.items():
            if saved.get(key) != value:
                raise RunStateError(
                    f"behavior {self.behavior.name!r}: the saved replay buffer was made with {key} {saved.get(key)} "
                    f"and this run has {value}; resume with the {key} of the checkpoint, or start a new run"
                )
        used, segments = _segments_in(state)
        if used > self.capacity:
            raise SavedValueError(f"the entry 'flags' has {used} rows, the replay buffer {self.capacity}")
        optional = {name for name in OPTIONAL if name in segments[0][2]}
        for start, stop, segment in segments:
            self._require_rows(segment, stop - start, optional)
        head = saved_array(state, "head", self.head.dtype, self.head.shape)
        if not ((head >= 0) & (head < used) & (head % self.slots == np.arange(self.slots))).all():
            raise SavedValueError("the entry 'head' has rows that are not of the replay buffer")
        for name in ("open", "awaiting"):
            saved_array(state, name, np.bool_, (self.slots,))
        if self.priorities is not None:
            self.priorities.require_fit(saved_mapping(state, "priorities"), used)

    def _require_rows(self, segment: Mapping[str, Any], count: int, optional: Set[str]) -> None:
        """Raise SavedValueError unless ``segment`` has ``count`` rows of this buffer, with the ``optional`` arrays."""
        observations = saved_mapping(segment, "observations")
        for name, array in self.observations.items():
            saved_array(observations, name, array.dtype, (count, *array.shape[1:]))
        for name in ("raw", "choices", "reward", "flags"):
            array = getattr(self, name)
            saved_array(segment, name, array.dtype, (count, *array.shape[1:]))
        if {name for name in OPTIONAL if name in segment} != optional:
            raise SavedValueError("the entry 'segments' has masks or group rewards in some of its segments only")
        if "masks" in optional:
            saved_array(segment, "masks", np.bool_, (count, self.behavior.mask_size))
        if "group_reward" in optional:
            saved_array(segment, "group_reward", np.float32, (count,))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises RunStateError, changing nothing, if the state is of another number of slots, rows or behavior."""
        self.require_fit(state)
        self.filled, segments = _segments_in(state)
        self._flags[:] = 0
        self._masks = self._group_reward = self.masks = self.group_reward = None
        first = segments[0][2]
        if "masks" in first:
            self._mask_rows()
        if "group_reward" in first:
            self._group_rewards()
        own = self._stored()
        for start, stop, segment in segments:
            for name, array in own["observations"].items():
                array[start:stop] = segment["observations"][name]
            for name in own.keys() - {"observations"}:
                own[name][start:stop] = segment[name]
        self.head[:] = state["head"]
        self.open[:] = state["open"]
        self.awaiting[:] = state["awaiting"]
        self._all_open, self._all_awaiting = bool(self.open.all()), bool(self.awaiting.all())
        self._closed = int(np.count_nonzero(self.flags))
        self._moved = 0
        if state.get("segment_rows") == self._segments.rows:
            self._segments.loaded([segment for *_, segment in segments], own, self.filled, self.head)
        else:
            self._segments.change_all()
        if self.priorities is not None:
            self.priorities.load_state_dict(state["priorities"])

    def _stored(self) -> dict[str, Any]:
        """The arrays of rows that a checkpoint has, with what the buffer has of masks and group rewards."""
        arrays: dict[str, Any] = {
            "observations": self._observations,
            "raw": self._raw,
            "choices": self._choices,
            "reward": self._reward,
            "flags": self._flags,
        }
        if self._masks is not None:
            arrays["masks"] = self._masks
        if self._group_reward is not None:
            arrays["group_reward"] = self._group_reward
        return arrays

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

    def _require_some(self) -> None:
        if not self._closed:
            raise ValueError(f"behavior {self.behavior.name!r}: the replay buffer holds no transition to sample yet")

    def _require_priorities(self) -> Priorities:
        if self.priorities is None:
            raise ValueError("the replay buffer was made without priorities; pass priority_alpha")
        return self.priorities


def sample_rows(
    flags: NDArray[np.uint8] | NDArray[np.bool_],
    filled: int,
    closed: int,
    batch_size: int,
    generator: np.random.Generator,
) -> Rows:
    """``batch_size`` of the ``closed`` rows that have flags, all of them among the first ``filled``."""
    found = np.empty(0, np.int64)
    while len(found) < batch_size:
        wanted = (batch_size - len(found)) * filled // closed + 1
        drawn = generator.integers(filled, size=wanted)
        accepted = drawn[flags.take(drawn) != 0]
        found = np.concatenate([found, accepted]) if len(found) else accepted
    return found[:batch_size]


def _segments_in(state: Mapping[str, Any]) -> tuple[int, list[tuple[int, int, Mapping[str, Any]]]]:
    """The number of rows in a saved buffer, and its segments, each with the rows where it begins and ends.

    In checkpoints of format 3, the buffer itself is the only segment. Raises SavedValueError.
    """
    if "segments" not in state:
        used = len(saved_array(state, "flags", np.uint8, (None,)))
        return used, [(0, used, state)]
    used, length = saved_count(state, "rows"), saved_count(state, "segment_rows")
    saved = saved_entry(state, "segments")
    wanted = -(-used // max(length, 1))
    if not isinstance(saved, list | tuple) or len(saved) != wanted or wanted < 1:
        raise SavedValueError(f"the entry 'segments' is not a list of the {wanted} segments of {used} rows")
    segments = [
        (index * length, min((index + 1) * length, used), saved_mapping({"segments": each}, "segments"))
        for index, each in enumerate(saved)
    ]
    return used, segments
