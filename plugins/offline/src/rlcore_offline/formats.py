"""The contract of recording formats, and what a sound recording is.

A *recording format* reads and writes recordings as files of one kind. Shapes: N transitions in E episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rlcore import BehaviorSpec, Recording, RecordingAbout

__all__ = ["RecordingFormat", "RecordingWriter", "recording_problem"]


@runtime_checkable
class RecordingWriter(Protocol):
    """Writes one recording. The final path does not exist before ``close``, and is complete afterwards."""

    def write(self, recording: Recording) -> None:
        """Add whole episodes of the writer's behavior."""

    def close(self) -> None:
        """Make the recording visible; called once, after at least one episode."""

    def discard(self) -> None:
        """Delete what was written; called instead of ``close`` if recording failed or was interrupted."""


@runtime_checkable
class RecordingFormat(Protocol):
    """Reads and writes recordings as files of one kind.

    Files that cannot be read or written raise a :class:`~rlcore.ConfigError` or an OSError. Spaces that a
    BehaviorSpec cannot describe raise an :class:`~rlcore.UnsupportedSpace`.
    """

    def reads(self, path: Path) -> bool:
        """Return whether ``path`` is a recording of this format. Called for any path; must be fast."""

    def stored(self) -> Mapping[str, Path]:
        """Return recordings in the format's own directory by the names that users may write; usually none."""

    def behavior(self, path: Path, name: str) -> BehaviorSpec:
        """Return the recorded behavior with one slot and the name ``name``, without reading episodes."""

    def read(self, path: Path, name: str) -> Recording:
        """Return all episodes at ``path``, with ``name`` as the name of their behavior."""

    def writer(self, path: Path, behavior: BehaviorSpec, about: RecordingAbout) -> RecordingWriter:
        """Return a writer for a new recording at ``path``. Raises ConfigError if the path exists."""


def recording_problem(recording: Recording) -> str | None:
    """Return the first mistake in the arrays of a recording in one line, or None; reading refuses such a recording."""
    n = recording.transitions
    e = recording.episodes
    wanted: dict[str, tuple[NDArray[Any] | None, tuple[int, ...]]] = {
        "reward": (recording.reward, (n,)),
        "terminated": (recording.terminated, (n,)),
        "truncated": (recording.truncated, (n,)),
    }
    for spec in recording.behavior.observations:
        wanted[f"observation {spec.name!r}"] = (recording.observations.get(spec.name), (n + e, *spec.shape))
    if recording.behavior.continuous:
        wanted["continuous actions"] = (recording.actions.continuous, (n, recording.behavior.continuous))
    if recording.behavior.discrete:
        wanted["discrete actions"] = (recording.actions.discrete, (n, len(recording.behavior.discrete)))
    if recording.action_mask is not None:
        wanted["action mask"] = (recording.action_mask, (n + e, recording.behavior.mask_size))
    for what, (array, shape) in wanted.items():
        if array is None:
            return f"{what}: missing"
        if array.shape != shape:
            return f"{what}: shape {list(array.shape)}, expected {list(shape)}"
    if not e or (recording.lengths < 1).any() or recording.lengths.sum() != n:
        return f"{n} transitions do not make {e} episodes of at least one transition each"
    last = np.zeros(n, np.bool_)
    last[np.cumsum(recording.lengths) - 1] = True
    terminated = recording.terminated
    truncated = recording.truncated
    if not np.array_equal(terminated ^ truncated, last) or (terminated & truncated).any():
        return "the last transition of an episode, and no other, must be either terminated or truncated"
    return _value_problem(recording)


def _value_problem(recording: Recording) -> str | None:
    floats: dict[str, NDArray[Any]] = {"reward": recording.reward}
    if recording.actions.continuous is not None:
        floats["continuous actions"] = recording.actions.continuous
    for name, observation in recording.observations.items():
        if observation.dtype.kind == "f":
            floats[f"observation {name!r}"] = observation
    for what, array in floats.items():
        finite = np.isfinite(array)
        if not finite.all():
            row = int(np.argwhere(~finite)[0, 0])
            return f"{what} is NaN or infinite in row {row}"
    if recording.actions.discrete is not None:
        options = np.array(recording.behavior.discrete)
        choices = recording.actions.discrete
        if ((choices < 0) | (choices >= options)).any():
            return f"discrete actions lie outside their branches, which have {options.tolist()} options"
    return None


def actions_outside(recording: Recording) -> str | None:
    """Return how many transitions have continuous actions outside their bounds in one line, or None for none.

    A policy cannot act outside the bounds, so trainers learn the nearest action within them.
    """
    actions = recording.actions.continuous
    behavior = recording.behavior
    if actions is None:
        return None
    low = np.asarray(behavior.low)
    high = np.asarray(behavior.high)
    # Bounds are exact numbers and actions may be rounded: a millionth more is not outside.
    below = 1e-6 * np.maximum(1.0, np.abs(low))
    above = 1e-6 * np.maximum(1.0, np.abs(high))
    outside = (actions < low - below) | (actions > high + above)  # [N, continuous]
    count = np.count_nonzero(outside.any(axis=1))
    if not count:
        return None
    row, part = np.argwhere(outside)[0].tolist()
    lowest = float(np.broadcast_to(low, actions.shape)[row, part])
    highest = float(np.broadcast_to(high, actions.shape)[row, part])
    return (
        f"{count:,} of {recording.transitions:,} transitions have continuous actions outside their bounds, the first "
        f"{actions[row, part]:g} at [{part}] of transition {row}, outside {lowest:g} to {highest:g}; they are learned "
        "as the nearest actions within: record what the environment did, or correct the bounds of its action space"
    )
