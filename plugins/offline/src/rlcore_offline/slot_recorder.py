"""Records the episodes of one behavior while they are played."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, BehaviorSpec, Recording, one_slot

__all__ = ["SlotRecorder"]

Row = NDArray[Any]


@attrs.define(eq=False)
class _OpenEpisode:
    """Observations, actions and rewards of one slot since its episode started: one entry for each time it acted."""

    observations: dict[str, list[Row]]
    continuous: list[Row] = attrs.field(factory=list)
    discrete: list[Row] = attrs.field(factory=list)
    masks: list[Row | None] = attrs.field(factory=list)  # None: everything was allowed
    rewards: list[float] = attrs.field(factory=list)  # one less than the others while the latest transition is open


class SlotRecorder:
    """Records the open episode of every slot; implements :class:`rlcore.EpisodeRecorder`.

    An episode that ends and is counted is given to ``write``.

    A transition closes when its agent acts next, or when its episode ends. An aborted episode is dropped. One in which
    the agent never acted has no transition, and a reward before the agent first acted belongs to none.
    """

    def __init__(self, behavior: BehaviorSpec, write: Callable[[Recording], None]) -> None:
        self.episodes = 0  # given to `write`
        self._behavior = one_slot(behavior)
        self._write = write
        self._open = [self._begun() for _ in range(behavior.slots)]

    def act(self, batch: AgentBatch, actions: Actions) -> None:
        """Record the ``actions`` chosen after ``batch``; called before the environment's next step."""
        acting = range(len(self._open)) if batch.needs_action is None else np.flatnonzero(batch.needs_action)
        for row in acting:
            episode = self._open[row]
            for name, seen in episode.observations.items():
                seen.append(batch.observations[name][row].copy())
            episode.masks.append(None if batch.action_mask is None else batch.action_mask[row].copy())
            if actions.continuous is not None:
                episode.continuous.append(actions.continuous[row].copy())
            if actions.discrete is not None:
                episode.discrete.append(actions.discrete[row].copy())

    def observe(self, batch: AgentBatch, counted: NDArray[np.intp]) -> None:
        """Record what the step led to. Of the episodes that ended in it, those of the slots ``counted`` are written."""
        closing = range(len(self._open)) if batch.transition_closed is None else np.flatnonzero(batch.transition_closed)
        for row in closing:
            episode = self._open[row]
            if len(episode.rewards) < self._acted(episode):
                episode.rewards.append(float(batch.reward[row]))
        for place, row in enumerate(batch.ended):
            if row in counted and self._open[row].rewards:
                assert batch.final_observations is not None
                final = {name: array[place] for name, array in batch.final_observations.items()}
                mask = None if batch.final_action_mask is None else batch.final_action_mask[place]
                self._write(self._finished(self._open[row], final, mask, bool(batch.terminated[row])))
                self.episodes += 1
            self._open[row] = self._begun()
        if batch.aborted is not None:
            for row in np.flatnonzero(batch.aborted):
                self._open[row] = self._begun()

    def begin(self) -> None:
        """Begin an episode in all slots: the environment was reset, and open episodes are dropped."""
        self._open = [self._begun() for _ in self._open]

    def cut(self, batch: AgentBatch, rows: NDArray[np.intp]) -> None:
        """End the open episodes of ``rows`` after ``batch``, and write them as truncated."""
        for row in rows.tolist():
            episode = self._open[row]
            final = {name: values[row].copy() for name, values in batch.observations.items()}
            mask = None if batch.action_mask is None else batch.action_mask[row]
            if self._acted(episode) > len(episode.rewards):  # a transition is open: what it began with was seen last
                final = {name: seen.pop() for name, seen in episode.observations.items()}
                mask = episode.masks.pop()
                for chosen in (episode.continuous, episode.discrete):
                    del chosen[len(episode.rewards) :]
            if episode.rewards:
                self._write(self._finished(episode, final, mask, False))
                self.episodes += 1
            self._open[row] = self._begun()

    def _begun(self) -> _OpenEpisode:
        return _OpenEpisode({spec.name: [] for spec in self._behavior.observations})

    def _acted(self, episode: _OpenEpisode) -> int:
        return len(episode.discrete if self._behavior.discrete else episode.continuous)

    def _finished(self, episode: _OpenEpisode, final: dict[str, Row], mask: Row | None, terminated: bool) -> Recording:
        """The recording of an episode that ended at the observation ``final``, with its ``mask``."""
        length = len(episode.rewards)
        last = np.zeros(length, np.bool_)
        last[-1] = True
        masks = None
        seen_masks = [*episode.masks, mask]
        if any(each is not None for each in seen_masks):
            allowed = np.ones(self._behavior.mask_size, np.bool_)
            masks = np.stack([allowed if each is None else each for each in seen_masks])
        return Recording(
            self._behavior,
            {name: np.stack([*seen, final[name]]) for name, seen in episode.observations.items()},
            Actions(
                np.stack(episode.continuous) if episode.continuous else None,
                np.stack(episode.discrete) if episode.discrete else None,
            ),
            np.array(episode.rewards, np.float32),
            last & terminated,
            last & (not terminated),
            np.array([length]),
            masks,
        )
