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
        # F, S
        self._count = observation.frames
        self._slots = slots
        self.shape = (capacity, *observation.shape)
        self.dtype = observation.dtype
        self.numbers = np.full((capacity, self._count), NONE, np.int32)
        room = capacity + capacity // ROOM + 2 * self._count * slots
        self.pool = np.zeros((room, *size, channels // self._count), self.dtype)  # memory is used when written to
        self._shown = np.zeros(room, np.int32)  # [frames] how often rows show each
        self._free: list[int] = []  # frames before `_end` that no row shows
        self._end = 0  # frames from here on were never used
        self._segments = self._new_segments()

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of the pool and of the numbers."""
        return self.pool.nbytes + self.numbers.nbytes + self._shown.nbytes

    # ------------------------------------------------------------ reading

    def take(self, rows: Rows, axis: int = 0) -> NDArray[Any]:
        """Return the stacks of ``rows`` [B], [B, *shape of the observation], as copies. ``axis`` is 0."""
        numbers = self.numbers.take(rows, 0)
        stacks = np.empty((*numbers.shape[:-1], *self.shape[1:]), self.dtype)
        channels = self.pool.shape[-1]
        for place in range(self._count):
            stacks[..., place * channels : (place + 1) * channels] = self.pool.take(numbers[..., place], 0)
        return stacks

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return self.take(np.arange(len(self))[rows])

    # ------------------------------------------------------------ writing

    def put(self, rows: Rows, stacks: NDArray[Any]) -> None:
        """Write ``stacks`` [B, *shape of the observation] into ``rows`` [B], those of a slot in their order."""
        slots = rows % self._slots
        if len(np.unique(slots)) == len(slots):
            self._put(rows, stacks)
        else:
            for index in range(len(rows)):
                self._put(rows[index : index + 1], stacks[index : index + 1])

    def _put(self, rows: Rows, stacks: NDArray[Any]) -> None:
        """Write rows of different slots."""
        count = self._count
        channels = self.pool.shape[-1]
        frames = stacks.reshape(*stacks.shape[:-1], count, channels)
        frames = np.ascontiguousarray(np.moveaxis(frames, -2, 1), self.dtype)  # [B, F, height, width, channels]
        before = self.numbers[(rows - self._slots) % len(self)]  # [B, F]
        numbers = np.full((len(rows), count), NONE, np.int32)
        known = np.flatnonzero(before[:, 0] != NONE)
        if known.size:
            shown = self.pool[before[known]]
            later = _equal(frames[known, :-1], shown[:, 1:])
            same = _equal(frames[known], shown)  # as after an end that changes nothing on the screen
            numbers[known[later], :-1] = before[known[later], 1:]
            numbers[known[same]] = before[known[same]]
        self._shows(numbers, 1)  # before rows give up theirs, which may be the same
        self._shows(self.numbers[rows], -1)
        for place in range(count):
            missing = np.flatnonzero(numbers[:, place] == NONE)
            if place and missing.size:
                again = missing[_equal(frames[missing, place], frames[missing, place - 1])]
                numbers[again, place] = numbers[again, place - 1]
                self._shows(numbers[again, place], 1)
                missing = np.setdiff1d(missing, again)
            if missing.size:
                new = self._free_frames(len(missing))
                self.pool[new] = frames[missing, place]
                self._segments.change(new)
                numbers[missing, place] = new
                self._shows(new, 1)
        self.numbers[rows] = numbers

    def _shows(self, numbers: NDArray[np.integer[Any]], change: int) -> None:
        """Count ``change`` more rows for each of the frames ``numbers``; frames that no row shows become free."""
        numbers = numbers[numbers != NONE]
        np.add.at(self._shown, numbers, change)
        if change < 0:
            free = np.unique(numbers)
            self._free.extend(free[self._shown[free] == 0].tolist())

    def _free_frames(self, count: int) -> Rows:
        """Take ``count`` frames of the pool that no row shows; the pool grows if there are too few."""
        while len(self._free) + len(self.pool) - self._end < count:
            more = len(self.pool) // GROWTH + count
            self.pool = np.concatenate([self.pool, np.zeros((more, *self.pool.shape[1:]), self.dtype)])
            self._shown = np.concatenate([self._shown, np.zeros(more, np.int32)])
            self._segments = self._new_segments()
        reused = min(count, len(self._free))
        found = [self._free.pop() for _ in range(reused)]
        found += range(self._end, self._end + count - reused)
        self._end += count - reused
        return np.array(found, np.int64)

    @property
    def used(self) -> int:
        """Number of frames that some row shows."""
        return int(np.count_nonzero(self._shown))

    def _forget(self) -> None:
        """No row shows anything."""
        self.numbers[:] = NONE
        self._shown[:] = 0
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
            end += len(saved_array(segment, "frames", self.dtype, (None, *self.pool.shape[1:])))
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
            self.pool[start : start + len(segment["frames"])] = segment["frames"]
            start += len(segment["frames"])
        self.numbers[: len(numbers)] = numbers
        self._shown = np.bincount(numbers[numbers != NONE], minlength=len(self.pool)).astype(np.int32)
        self._end, self._free = end, np.flatnonzero(self._shown[:end] == 0).tolist()
        if state.get("segment_frames") == self._segments.rows:
            own = {"frames": self.pool}
            self._segments.loaded(list(state["segments"]), own, end, np.empty(0, np.int64))
        else:
            self._segments.change(slice(None))


def _equal(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.bool_]:
    """Return in which rows [B] two arrays [B, ...] are equal."""
    found: NDArray[np.bool_] = (ours == theirs).reshape(len(ours), -1).all(1)
    return found
