"""Recorded episodes: observations, actions and rewards of agents, for training without an environment.

A *recording* contains whole episodes of one behavior's agents, one after another. A plugin
reads and writes recordings, and records what is played. Shapes: N transitions in E episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec


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
        observations = {}
        for name in first.observations:
            observations[name] = np.concatenate([part.observations[name] for part in parts])
        actions = {}
        for name in ("continuous", "discrete"):
            arrays = [getattr(part.actions, name) for part in parts]
            actions[name] = None if arrays[0] is None else np.concatenate(arrays)
        columns: dict[str, Any] = {}
        for name in ("reward", "terminated", "truncated", "lengths"):
            columns[name] = np.concatenate([getattr(part, name) for part in parts])
        if any(part.action_mask is not None for part in parts):
            masks = []
            for part in parts:
                mask = part.action_mask
                if mask is None:
                    rows = part.transitions + part.episodes
                    mask = np.ones((rows, first.behavior.mask_size), np.bool_)
                masks.append(mask)
            columns["action_mask"] = np.concatenate(masks)
        return attrs.evolve(first, observations=observations, actions=Actions(**actions), **columns)

    def named_as(self, behavior: BehaviorSpec) -> Recording:
        """Return the recording with the names of ``behavior``'s observations, if it is nameless and they fit in order.

        Any other recording is returned as it is.
        """
        ours = self.behavior.observations
        theirs = behavior.observations
        shapes = [spec.shape for spec in ours]
        if not self.nameless or shapes != [spec.shape for spec in theirs]:
            return self
        names = {}
        renamed = []
        for spec, other in zip(ours, theirs, strict=True):
            names[spec.name] = other.name
            renamed.append(attrs.evolve(spec, name=other.name))
        observations = {names[name]: array for name, array in self.observations.items()}
        behavior = attrs.evolve(self.behavior, observations=tuple(renamed))
        return attrs.evolve(self, behavior=behavior, observations=observations)

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
        final_observations_before = np.repeat(np.arange(self.episodes), self.lengths)
        return np.arange(self.transitions) + final_observations_before

    @property
    def returns(self) -> NDArray[np.float64]:
        """The sum of the rewards of each episode, [E]."""
        if not self.episodes:  # reduceat refuses to start nowhere
            return np.empty(0)
        starts = np.cumsum(self.lengths) - self.lengths
        return np.add.reduceat(self.reward, starts, dtype=np.float64)


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


class EpisodeRecorder(Protocol):
    """Records the episodes of one behavior while they are played."""

    def begin(self) -> None:
        """Begin an episode in all slots: the environment was reset."""

    def act(self, batch: AgentBatch, actions: Actions) -> None:
        """Record the ``actions`` chosen after ``batch``; called before the environment's next step."""

    def observe(self, batch: AgentBatch, counted: NDArray[np.intp]) -> None:
        """Record what the step led to. Of the episodes that ended in it, those of the slots ``counted`` are kept."""

    def cut(self, batch: AgentBatch, rows: NDArray[np.intp]) -> None:
        """End the open episodes of ``rows`` after ``batch``, and keep them as truncated."""


@runtime_checkable
class Recordings(Protocol):
    """Reads and writes recorded episodes. The hook ``rlcore_create_recordings`` creates it."""

    def read(self, path: str | Path, behavior: str, start: Path) -> Recording:
        """Return the whole recording that ``path``, relative to ``start``, names.

        Raises ConfigError if it is missing or unsound.
        """

    def behavior(self, path: str | Path, behavior: str, start: Path) -> BehaviorSpec:
        """Return the behavior of the recording that ``path``, relative to ``start``, names; episodes are not read."""

    def record(
        self,
        directory: Path,
        behaviors: Mapping[str, BehaviorSpec],
        about: Mapping[str, RecordingAbout],
        reference: str | None = None,
    ) -> AbstractContextManager[Mapping[str, EpisodeRecorder]]:
        """Return the recorders, by behavior, for a block that plays episodes.

        When the block ends, ``directory/<behavior>`` are recordings; when it fails, nothing is left there. ``about`` is
        by behavior too. ``reference`` names the format; None takes the only installed one. Raises ConfigError if
        something exists there already, and RunStateError if a recording cannot be written.
        """


def one_slot(behavior: BehaviorSpec) -> BehaviorSpec:
    """Return the behavior with a single slot, as recordings have it."""
    env_index: NDArray[np.int64] = np.zeros(1, np.int64)
    return attrs.evolve(behavior, env_index=env_index, team=None, group=None)
