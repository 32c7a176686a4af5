"""Rows of images that are stacks of frames, with each frame stored once.

An observation that shows its agent the last F frames repeats all but one of them in the next observation. Here a row
has the numbers of its F frames in one pool. A frame that the row before in the same slot has too is not stored again;
it leaves the pool when the last row that shows it is overwritten. What is read equals what was written, bit for bit,
whatever the environment put into its stacks: where frames do not repeat, such as at the start of an episode, the row
gets frames of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import ObservationSpec, SavedValueError, saved_array, saved_count
from rlcore_torch.arrays import Array, BoolArray
from rlcore_torch.off_policy.replay_segments import ReplaySegments, saved_segments

__all__ = ["FrameRows"]

Rows = NDArray[np.int64]

ROOM = 8  # a pool has room for one frame more for every 8 rows, which is enough for episodes of 16 steps or more
GROWTH = 4  # a pool that is full becomes a quarter larger
NONE = -1  # in the place of a frame's number: the row was never written


def frames_bytes(observation: ObservationSpec) -> int:
    """Bytes of a row of ``observation``: of one frame, of its share of :data:`ROOM`, and of the numbers of F frames."""
    frame = observation.size * observation.dtype.itemsize // observation.frames
    return frame + frame // ROOM + 4 * observation.frames + 4


class FrameRows:
    """``capacity`` rows of one observation, each a stack of F frames, for S slots in turn: row r is of slot r % S.

    Reads like an array [capacity, *shape], with :meth:`take` and with an index; :meth:`put` writes.

    Attributes:
        shape: [capacity, height, width, channels of all F frames].
        dtype: Type of the numbers.
        numbers: [capacity, F] the frames of each row in the pool, oldest first; -1 in rows that were never written.
        pool: [frames, height, width, channels of one frame].
        used: Number of frames that some row shows.
    """

    def __init__(self, observation: ObservationSpec, capacity: int, slots: int) -> None:
        *size, channels = observation.shape
        count = observation.frames
        self._count = count  # F
        self._slots = slots  # S
        self.shape = (capacity, *observation.shape)
        self.dtype = observation.dtype
        self.numbers = np.full((capacity, count), NONE, np.int32)
        room = capacity + capacity // ROOM + 2 * count * slots
        self.pool = np.zeros((room, *size, channels // count), self.dtype)  # memory is used when written to
        self._uses = np.zeros(room, np.int32)  # [frames] how often rows show each
        self._free: list[int] = []  # frames before `_end` that no row shows
        self._end = 0  # frames from here on were never used
        self._segments = self._new_segments()

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of the pool and of the numbers."""
        return self.pool.nbytes + self.numbers.nbytes + self._uses.nbytes

    # ------------------------------------------------------------ reading

    def take(self, rows: Rows, axis: int = 0) -> Array:
        """Return the stacks of ``rows`` [B], [B, *shape of the observation], as copies. ``axis`` is 0."""
        numbers = self.numbers.take(rows, 0)
        stacks = np.empty((*numbers.shape[:-1], *self.shape[1:]), self.dtype)
        channels = self.pool.shape[-1]
        for place in range(self._count):
            first = place * channels
            frames = self.pool.take(numbers[..., place], 0)
            stacks[..., first : first + channels] = frames
        return stacks

    def __getitem__(self, rows: Any) -> Array:
        return self.take(np.arange(len(self))[rows])

    # ------------------------------------------------------------ writing

    def put(self, rows: Rows, stacks: Array) -> None:
        """Write ``stacks`` [B, *shape of the observation] into ``rows`` [B], those of a slot in their order."""
        slots = rows % self._slots
        if len(np.unique(slots)) == len(slots):
            self._put(rows, stacks)
            return
        for index in range(len(rows)):
            one = slice(index, index + 1)
            self._put(rows[one], stacks[one])

    def _put(self, rows: Rows, stacks: Array) -> None:
        """Write rows of different slots."""
        count = self._count
        channels = self.pool.shape[-1]
        frames = stacks.reshape(*stacks.shape[:-1], count, channels)
        frames = np.moveaxis(frames, -2, 1)
        frames = np.ascontiguousarray(frames, self.dtype)  # [B, F, height, width, channels]
        numbers = self._known_frames(rows, frames)
        self._count_uses(numbers, 1)  # before rows give up theirs, which may be the same
        self._count_uses(self.numbers[rows], -1)
        for place in range(count):
            missing = np.flatnonzero(numbers[:, place] == NONE)
            if place and missing.size:
                # The first observation of an episode often shows one frame F times.
                is_repeated = _equal(frames[missing, place], frames[missing, place - 1])
                repeated = missing[is_repeated]
                numbers[repeated, place] = numbers[repeated, place - 1]
                self._count_uses(numbers[repeated, place], 1)
                missing = missing[~is_repeated]
            if missing.size:
                new = self._free_frames(len(missing))
                self.pool[new] = frames[missing, place]
                self._segments.change(new)
                numbers[missing, place] = new
                self._count_uses(new, 1)
        self.numbers[rows] = numbers

    def _known_frames(self, rows: Rows, frames: Array) -> NDArray[np.int32]:
        """Return the numbers [B, F] of those of ``frames`` that the rows before ``rows`` have too; NONE for others."""
        numbers = np.full((len(rows), self._count), NONE, np.int32)
        before = self.numbers[(rows - self._slots) % len(self)]  # [B, F]
        known = np.flatnonzero(before[:, 0] != NONE)
        if not known.size:
            return numbers
        stored = self.pool[before[known]]
        is_next = _equal(frames[known, :-1], stored[:, 1:])
        is_same = _equal(frames[known], stored)  # as after an end that changes nothing on the screen
        following = known[is_next]
        unchanged = known[is_same]
        numbers[following, :-1] = before[following, 1:]
        numbers[unchanged] = before[unchanged]
        return numbers

    def _count_uses(self, numbers: NDArray[np.integer[Any]], change: int) -> None:
        """Count ``change`` more rows for each of the frames ``numbers``; frames that no row shows become free."""
        numbers = numbers[numbers != NONE]
        np.add.at(self._uses, numbers, change)
        if change < 0:
            candidates = np.unique(numbers)
            is_free = self._uses[candidates] == 0
            self._free.extend(candidates[is_free].tolist())

    def _free_frames(self, count: int) -> Rows:
        """Take ``count`` frames of the pool that no row shows; the pool grows if there are too few."""
        while len(self._free) + len(self.pool) - self._end < count:
            more = len(self.pool) // GROWTH + count
            frames = np.zeros((more, *self.pool.shape[1:]), self.dtype)
            self.pool = np.concatenate([self.pool, frames])
            self._uses = np.concatenate([self._uses, np.zeros(more, np.int32)])
            self._segments = self._new_segments()
        reused = min(count, len(self._free))
        end = self._end + count - reused
        numbers = [self._free.pop() for _ in range(reused)]
        numbers += range(self._end, end)
        self._end = end
        return np.array(numbers, np.int64)

    @property
    def used(self) -> int:
        """Number of frames that some row shows."""
        return int(np.count_nonzero(self._uses))

    def _forget(self) -> None:
        """No row shows anything."""
        self.numbers[:] = NONE
        self._uses[:] = 0
        self._free.clear()
        self._end = 0

    def _new_segments(self) -> ReplaySegments:
        return ReplaySegments(len(self.pool), 1, self.pool[0].nbytes)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return the pool, in segments as :class:`ReplaySegments` has them; the numbers are rows of the buffer."""
        parts = self._segments.parts({"frames": self.pool}, self._end, np.empty(0, np.int64))
        return {"frames": self._end, "segment_frames": self._segments.rows, "segments": parts}

    def require_fit(self, state: Mapping[str, Any], numbers: NDArray[np.int32]) -> None:
        """Raise SavedValueError unless ``state`` is a pool that has the frames ``numbers`` [rows, F]."""
        end = 0
        for segment in saved_segments(state):
            frames = saved_array(segment, "frames", self.dtype, (None, *self.pool.shape[1:]))
            end += len(frames)
        if end != saved_count(state, "frames"):
            raise SavedValueError(f"the entry 'frames' says {state['frames']}, and the segments have {end}")
        if ((numbers < NONE) | (numbers >= end)).any():
            raise SavedValueError(f"the replay buffer shows frames that are not among the {end} saved ones")

    def load_state_dict(self, state: Mapping[str, Any], numbers: NDArray[np.int32]) -> None:
        """Continue with the pool ``state``, of which the first rows show the frames ``numbers`` [rows, F]."""
        self._forget()
        end = saved_count(state, "frames")
        if end > len(self.pool):
            self.pool = np.zeros((end, *self.pool.shape[1:]), self.dtype)
            self._segments = self._new_segments()
        start = 0
        for segment in saved_segments(state):
            frames = segment["frames"]
            stop = start + len(frames)
            self.pool[start:stop] = frames
            start = stop
        self.numbers[: len(numbers)] = numbers
        written = numbers[numbers != NONE]
        self._uses = np.bincount(written, minlength=len(self.pool)).astype(np.int32)
        self._end = end
        self._free = np.flatnonzero(self._uses[:end] == 0).tolist()
        if state.get("segment_frames") == self._segments.rows:
            arrays = {"frames": self.pool}
            self._segments.loaded(list(state["segments"]), arrays, end, np.empty(0, np.int64))
        else:
            self._segments.change(slice(None))


def _equal(ours: Array, theirs: Array) -> BoolArray:
    """Return in which rows [B] two arrays [B, ...] are equal."""
    numbers = (ours == theirs).reshape(len(ours), -1)
    equal: BoolArray = numbers.all(1)
    return equal
