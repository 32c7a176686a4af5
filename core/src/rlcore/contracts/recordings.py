"""Recorded episodes: observations, actions and rewards of agents, for training without an environment.

A *recording* contains whole episodes of one behavior's agents, one after another. A *recording format* from a plugin
reads and writes recordings as files of one kind. This module is the contract: :mod:`rlcore.recording` makes recordings
while episodes are played. Shapes: N transitions in E episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import Actions, BehaviorSpec
from rlcore.errors import ConfigError, did_you_mean
from rlcore.storage.files.paths import user_path

__all__ = ["Recording", "RecordingAbout", "RecordingFormat", "RecordingWriter", "Searchable"]


@attrs.frozen(eq=False)
class Recording:
    """Episodes of one behavior's agents, one after another: N transitions in E episodes.

    An episode with n transitions has n + 1 observations: one before each action, and the observation at the end of the
    episode. The last transition of an episode is either terminated or truncated; no other transition is.

    Attributes:
        behavior: The recorded behavior, with one slot.
        observations: Observations by name, each [N + E, *shape].
        actions: Actions in the environment's units, each array [N, columns].
        reward: [N] the agent's own reward; group rewards are not recorded.
        terminated: [N] the task ended the episode after this transition.
        truncated: [N] the episode was cut off after this transition: bootstrap from the observation after it.
        lengths: [E] transitions of each episode, at least one.
        action_mask: [N + E, mask_size] whether each option is allowed, at final observations too; None: all were.
        nameless: The format does not name observations, so that only their order says which is which.
    """

    behavior: BehaviorSpec
    observations: dict[str, NDArray[Any]]
    actions: Actions
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    lengths: NDArray[np.int64]
    action_mask: NDArray[np.bool_] | None = None
    nameless: bool = False

    @classmethod
    def joined(cls, parts: Sequence[Recording]) -> Recording:
        """Return one recording with the episodes of several of the same behavior, in order.

        Where some have action masks, the others allow every option.
        """
        first = parts[0]

        def actions(part: str) -> NDArray[Any] | None:
            arrays = [getattr(each.actions, part) for each in parts]
            return None if arrays[0] is None else np.concatenate(arrays)

        mask = None
        if any(each.action_mask is not None for each in parts):
            size = first.behavior.mask_size
            free = [np.ones((each.transitions + each.episodes, size), np.bool_) for each in parts]
            pairs = zip(parts, free, strict=True)
            mask = np.concatenate([other if each.action_mask is None else each.action_mask for each, other in pairs])
        return attrs.evolve(
            first,
            observations={
                name: np.concatenate([each.observations[name] for each in parts]) for name in first.observations
            },
            actions=Actions(actions("continuous"), actions("discrete")),
            reward=np.concatenate([each.reward for each in parts]),
            terminated=np.concatenate([each.terminated for each in parts]),
            truncated=np.concatenate([each.truncated for each in parts]),
            lengths=np.concatenate([each.lengths for each in parts]),
            action_mask=mask,
        )

    def named_as(self, behavior: BehaviorSpec) -> Recording:
        """Return the recording with the names of ``behavior``'s observations, if it is nameless and they fit in order.

        Any other recording is returned as it is.
        """
        ours, theirs = self.behavior.observations, behavior.observations
        if not self.nameless or [each.shape for each in ours] != [each.shape for each in theirs]:
            return self
        names = {one.name: other.name for one, other in zip(ours, theirs, strict=True)}
        return attrs.evolve(
            self,
            behavior=attrs.evolve(
                self.behavior, observations=tuple(attrs.evolve(each, name=names[each.name]) for each in ours)
            ),
            observations={names[name]: array for name, array in self.observations.items()},
        )

    @property
    def transitions(self) -> int:
        """The number of transitions, N."""
        return len(self.reward)

    @property
    def episodes(self) -> int:
        """The number of episodes, E."""
        return len(self.lengths)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each transition in ``observations`` and ``action_mask``, [N]; the next row is ``rows + 1``."""
        return np.arange(self.transitions) + np.repeat(np.arange(self.episodes), self.lengths)

    @property
    def returns(self) -> NDArray[np.float64]:
        """The sum of the rewards of each episode, [E]."""
        starts = np.cumsum(self.lengths) - self.lengths
        return np.add.reduceat(self.reward, starts, dtype=np.float64) if self.episodes else np.empty(0)

    def problem(self) -> str | None:
        """Return the first mistake in the arrays in one line, or None. rlcore checks every recording that it reads."""
        n, e = self.transitions, self.episodes
        wanted: dict[str, tuple[NDArray[Any] | None, tuple[int, ...]]] = {
            "reward": (self.reward, (n,)),
            "terminated": (self.terminated, (n,)),
            "truncated": (self.truncated, (n,)),
        }
        for spec in self.behavior.observations:
            wanted[f"observation {spec.name!r}"] = (self.observations.get(spec.name), (n + e, *spec.shape))
        if self.behavior.continuous:
            wanted["continuous actions"] = (self.actions.continuous, (n, self.behavior.continuous))
        if self.behavior.discrete:
            wanted["discrete actions"] = (self.actions.discrete, (n, len(self.behavior.discrete)))
        if self.action_mask is not None:
            wanted["action mask"] = (self.action_mask, (n + e, self.behavior.mask_size))
        for what, (array, shape) in wanted.items():
            if array is None:
                return f"{what}: missing"
            if array.shape != shape:
                return f"{what}: shape {list(array.shape)}, expected {list(shape)}"
        if not e or (self.lengths < 1).any() or self.lengths.sum() != n:
            return f"{n} transitions do not make {e} episodes of at least one transition each"
        last = np.zeros(n, np.bool_)
        last[np.cumsum(self.lengths) - 1] = True
        if not np.array_equal(self.terminated ^ self.truncated, last) or (self.terminated & self.truncated).any():
            return "the last transition of an episode, and no other, must be either terminated or truncated"
        return self._value_problem()

    def _value_problem(self) -> str | None:
        floats: dict[str, NDArray[Any]] = {"reward": self.reward}
        if self.actions.continuous is not None:
            floats["continuous actions"] = self.actions.continuous
        floats |= {f"observation {name!r}": a for name, a in self.observations.items() if a.dtype.kind == "f"}
        for what, array in floats.items():
            if not np.isfinite(array).all():
                row = int(np.argwhere(~np.isfinite(array))[0, 0])
                return f"{what} is NaN or infinite in row {row}"
        if self.actions.discrete is not None:
            options = np.array(self.behavior.discrete)
            if ((self.actions.discrete < 0) | (self.actions.discrete >= options)).any():
                return f"discrete actions lie outside their branches, which have {list(self.behavior.discrete)} options"
        return None


@attrs.frozen
class RecordingAbout:
    """The origin of recorded episodes, as far as it is known. A format stores what it has a field for.

    Attributes:
        environment_type: ``environment.type`` of the run that recorded.
        environment_id: ``environment.id``.
        environment_options: ``environment.options``.
        trainer: ``trainer_type`` of the policy that acted.
        description: A sentence for readers.
    """

    environment_type: str | None = None
    environment_id: str | None = None
    environment_options: Mapping[str, Any] = attrs.field(factory=dict)
    trainer: str | None = None
    description: str = ""


@runtime_checkable
class RecordingWriter(Protocol):
    """Writes one recording. The final path does not exist before ``close``, and is complete afterwards."""

    def write(self, recording: Recording) -> None:
        """Add whole episodes of the writer's behavior."""
        ...

    def close(self) -> None:
        """Make the recording visible; called once, after at least one episode."""
        ...

    def discard(self) -> None:
        """Delete what was written; called instead of ``close`` if recording failed or was interrupted."""
        ...


@runtime_checkable
class RecordingFormat(Protocol):
    """Reads and writes recordings as files of one kind.

    Files that cannot be read or written raise a :class:`~rlcore.ConfigError` or an OSError. Spaces that a
    BehaviorSpec cannot describe raise an :class:`~rlcore.UnsupportedSpace`.
    """

    def reads(self, path: Path) -> bool:
        """Return whether ``path`` is a recording of this format. Called for any path; must be fast."""
        ...

    def stored(self) -> Mapping[str, Path]:
        """Return recordings in the format's own directory by the names that users may write; usually none."""
        ...

    def behavior(self, path: Path, name: str) -> BehaviorSpec:
        """Return the recorded behavior with one slot and the name ``name``, without reading episodes."""
        ...

    def read(self, path: Path, name: str) -> Recording:
        """Return all episodes at ``path``, with ``name`` as the name of their behavior."""
        ...

    def writer(self, path: Path, behavior: BehaviorSpec, about: RecordingAbout) -> RecordingWriter:
        """Return a writer for a new recording at ``path``. Raises ConfigError if the path exists."""
        ...


class Searchable(Protocol):
    """The part of :class:`RecordingFormat` that finds recordings."""

    def reads(self, path: Path) -> bool:
        """Return whether ``path`` is a recording of this format."""
        ...

    def stored(self) -> Mapping[str, Path]:
        """Return recordings in the format's own directory by name."""
        ...


F = TypeVar("F", bound=Searchable)


def find_recording(path: str | Path, behavior: str, formats: Sequence[F], start: Path) -> tuple[F, Path]:
    """Return the path of a behavior's recording, and the format that reads it.

    The path is ``path`` itself, or else ``path/behavior``, or else a recording that a format stores under this name. A
    relative path is relative to ``start``. Raises ConfigError with the existing recordings if there is none.
    """
    given = start / user_path(path)
    for candidate in (given, given / behavior):
        for each in formats:
            if each.reads(candidate):
                return each, candidate
    stored = {name: (each, at) for each in formats for name, at in each.stored().items()}
    if str(path) in stored:
        return stored[str(path)]
    raise ConfigError(f"recording {str(path)!r}: {_what_is_there(given, Path(path), behavior, formats, list(stored))}")


def _what_is_there(
    path: Path, written: Path, behavior: str, formats: Sequence[Searchable], stored: Sequence[str]
) -> str:
    """Return what exists instead. ``written`` is the user's spelling of ``path``, for the message."""
    if path.is_dir():
        children = [child for child in path.iterdir() if not child.name.startswith(".")]  # omits unfinished recordings
        inside = sorted(child.name for child in children if any(each.reads(child) for each in formats))
        if inside:
            return (
                f"it contains no recording of behavior {behavior!r}; its recordings are: "
                f"{', '.join(str(written / each) for each in inside)}{did_you_mean(behavior, inside)}"
            )
    if path.exists():
        return "no installed format can read it"
    known = [*stored]
    if path.parent.is_dir():
        known += [
            str(written.parent / each.name)
            for each in sorted(path.parent.iterdir())
            if not each.name.startswith(".")
            and any(format_.reads(place) for format_ in formats for place in (each, each / behavior))
        ]
    there = f"; there are {', '.join(known)}" if known else ""
    return f"no such path or name{there}{did_you_mean(str(written), known)}"
