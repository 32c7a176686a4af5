"""The replay buffer of an off-policy trainer: rings of transitions that a checkpoint can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any

import attrs
import numpy as np

from rlcore import RunStateError, SavedValueError, saved_array, saved_count, saved_mapping
from rlcore_torch.off_policy.replay_rings import ReplayRings, Rows
from rlcore_torch.off_policy.replay_segments import saved_segments

__all__ = ["ReplayBuffer"]

ROWS = ("raw", "choices", "reward", "flags", "memory")  # arrays of rows, beside observations
OPTIONAL = ("masks", "group_reward")  # those that a buffer has from the first mask or group reward on


class ReplayBuffer(ReplayRings):
    """A replay buffer: rows to sample, and what is in them.

    The arrays are those of :class:`~rlcore_torch.ReplayRings`.
    """

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
            "segments": self._segments.parts(self._stored(), self.filled, self._current()),
        }
        if self._frames:
            pools = {name: frames.state_dict() for name, frames in self._frames.items()}
            state["frames"] = pools
        if self.priorities is not None:
            self.priorities.refresh(self.flags)
            state["priorities"] = self.priorities.state_dict(self.filled)
        return state

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError unless the state is of a buffer made like this one. SavedValueError is one."""
        saved = saved_mapping(state, "layout")
        for key, value in self._layout().items():
            saved_value = saved.get(key)
            if saved_value != value:
                raise RunStateError(
                    f"behavior {self.behavior.name!r}: the saved replay buffer was made with {key} {saved_value} "
                    f"and this run has {value}; resume with the {key} of the checkpoint, or start a new run"
                )
        used = saved_count(state, "rows")
        segments = _segments_of(state, used)
        if used > self.capacity:
            raise SavedValueError(f"the entry 'flags' has {used} rows, the replay buffer {self.capacity}")
        optional = {name for name in OPTIONAL if name in segments[0].saved}
        pools = saved_mapping(state, "frames") if self._frames else {}
        for segment in segments:
            self._require_rows(segment, optional, pools)
        head = saved_array(state, "head", self.head.dtype, self.head.shape)
        is_used = (head >= 0) & (head < used)
        is_of_slot = head % self.slots == np.arange(self.slots)
        if not (is_used & is_of_slot).all():
            raise SavedValueError("the entry 'head' has rows that are not of the replay buffer")
        for name in ("open", "awaiting"):
            saved_array(state, name, np.bool_, (self.slots,))
        if self.priorities is not None:
            self.priorities.require_fit(saved_mapping(state, "priorities"), used)

    def _require_rows(self, segment: Segment, optional: Set[str], pools: Mapping[str, Any]) -> None:
        """Raise SavedValueError unless ``segment`` has rows of this buffer, with the ``optional`` arrays.

        ``pools`` are saved frames by the name of the observation.
        """
        count = segment.stop - segment.start
        observations = saved_mapping(segment.saved, "observations")
        for name, array in self._observations.items():
            saved_array(observations, name, array.dtype, (count, *array.shape[1:]))
        for name, frames in self._frames.items():
            numbers = saved_array(observations, name, np.int32, (count, *frames.numbers.shape[1:]))
            frames.require_fit(saved_mapping(pools, name), numbers)
        for name in ROWS:
            array = self._arrays[name]
            if name != "memory" or array.size:
                saved_array(segment.saved, name, array.dtype, (count, *array.shape[1:]))
        present = {name for name in OPTIONAL if name in segment.saved}
        if present != optional:
            raise SavedValueError("the entry 'segments' has masks or group rewards in some of its segments only")
        if "masks" in optional:
            saved_array(segment.saved, "masks", np.bool_, (count, self.behavior.mask_size))
        if "group_reward" in optional:
            saved_array(segment.saved, "group_reward", np.float32, (count,))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`.

        Raises RunStateError, changing nothing, if the state is of another number of slots, rows or behavior."""
        self.require_fit(state)
        self.filled = saved_count(state, "rows")
        segments = _segments_of(state, self.filled)
        self._arrays["flags"][:] = 0
        for name in OPTIONAL:
            self._arrays.pop(name, None)
            setattr(self, name, None)
            if name in segments[0].saved:
                self._optional(name)
        arrays = self._stored()
        observations = arrays.pop("observations")
        for segment in segments:
            rows = slice(segment.start, segment.stop)
            saved_observations = segment.saved["observations"]
            for name in self._observations:
                observations[name][rows] = saved_observations[name]
            for name, array in arrays.items():
                array[rows] = segment.saved[name]
        for name, frames in self._frames.items():
            numbers = np.concatenate([segment.saved["observations"][name] for segment in segments])
            frames.load_state_dict(state["frames"][name], numbers)
        self.head[:] = state["head"]
        self.open[:] = state["open"]
        self.awaiting[:] = state["awaiting"]
        self._closed = int(np.count_nonzero(self.flags))
        if state.get("segment_rows") == self._segments.rows:
            saved = [segment.saved for segment in segments]
            self._segments.loaded(saved, self._stored(), self.filled, self._current())
        else:
            self._segments.change(slice(None))
        if self.priorities is not None:
            self.priorities.load_state_dict(state["priorities"])

    def _current(self) -> Rows:
        """Return what a step changes without claiming a row: the current one, and the one before at a cut."""
        before = (self.head - self.slots) % self.capacity
        return np.concatenate([self.head, before])

    def _stored(self) -> dict[str, Any]:
        """Return the arrays of rows that a checkpoint has, with what the buffer has of masks and group rewards."""
        observations = dict(self._observations)
        for name, frames in self._frames.items():
            observations[name] = frames.numbers
        stored: dict[str, Any] = {"observations": observations}
        for name in (*ROWS, *OPTIONAL):
            if name in self._arrays:
                stored[name] = self._arrays[name]
        if not self.memory.size:
            del stored["memory"]
        return stored

    def _layout(self) -> dict[str, Any]:
        """Return what another buffer must share to take this one's state; JSON values only."""
        behavior = self.behavior
        layout = {
            "slots": self.slots,
            "buffer_size": self.buffer_size,
            "observations": [[o.name, list(o.shape), o.dtype.name] for o in behavior.observations],
            "actions": [behavior.continuous, list(behavior.discrete)],
            "priority_alpha": None if self.priorities is None else self.priorities.alpha,
        }
        if self.memory.size:
            layout["memory"] = self.memory.shape[1]
        return layout


@attrs.frozen(eq=False)
class Segment:
    """A saved segment: its arrays, and the rows of the buffer where it begins and ends."""

    start: int
    stop: int
    saved: Mapping[str, Any]


def _segments_of(state: Mapping[str, Any], used: int) -> list[Segment]:
    """Return the segments of a saved buffer that has ``used`` rows. Raises SavedValueError."""
    length = saved_count(state, "segment_rows")
    saved = saved_segments(state)
    count = math.ceil(used / max(length, 1))
    if len(saved) != count or count < 1:
        raise SavedValueError(f"the entry 'segments' is not a list of the {count} segments of {used} rows")
    segments = []
    for index, arrays in enumerate(saved):
        start = index * length
        stop = min(start + length, used)
        segments.append(Segment(start, stop, arrays))
    return segments
