"""Records the episodes of one behavior while they are played."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, BehaviorSpec, Recording, one_slot

__all__ = ["SlotRecorder"]

Seen = tuple[dict[str, NDArray[Any]], NDArray[np.bool_] | None]
"""The observations of one slot, and its action mask; None: everything was allowed."""


@attrs.define(eq=False)
class _OpenEpisode:
    """The actions of one slot since its episode started, and what it saw before each."""

    seen: list[Seen] = attrs.field(factory=list)
    chosen: list[Actions] = attrs.field(factory=list)  # each of one row
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
        self._open = [_OpenEpisode() for _ in range(behavior.slots)]

    def act(self, batch: AgentBatch, actions: Actions) -> None:
        """Record the ``actions`` chosen after ``batch``; called before the environment's next step."""
        acting = np.arange(len(self._open)) if batch.needs_action is None else np.flatnonzero(batch.needs_action)
        for row in acting.tolist():
            episode = self._open[row]
            episode.seen.append(_row(batch.observations, batch.action_mask, row))
            episode.chosen.append(actions.take(np.array([row])))

    def observe(self, batch: AgentBatch, counted: NDArray[np.intp]) -> None:
        """Record what the step led to. Of the episodes that ended in it, those of the slots ``counted`` are written."""
        closing = range(len(self._open)) if batch.transition_closed is None else np.flatnonzero(batch.transition_closed)
        for row in closing:
            episode = self._open[row]
            if len(episode.rewards) < len(episode.seen):
                episode.rewards.append(float(batch.reward[row]))
        for place, row in enumerate(batch.ended):
            if row in counted:
                assert batch.final_observations is not None
                final = _row(batch.final_observations, batch.final_action_mask, place)
                self._end(row, final, bool(batch.terminated[row]))
            self._open[row] = _OpenEpisode()
        if batch.aborted is not None:
            for row in np.flatnonzero(batch.aborted):
                self._open[row] = _OpenEpisode()

    def begin(self) -> None:
        """Begin an episode in all slots: the environment was reset, and open episodes are dropped."""
        self._open = [_OpenEpisode() for _ in self._open]

    def cut(self, batch: AgentBatch, rows: NDArray[np.intp]) -> None:
        """End the open episodes of ``rows`` after ``batch``, and write them as truncated."""
        for row in rows.tolist():
            episode = self._open[row]
            final = _row(batch.observations, batch.action_mask, row)
            if len(episode.seen) > len(episode.rewards):  # a transition is open: what it began with was seen last
                final = episode.seen.pop()
                episode.chosen.pop()
            self._end(row, final, False)
            self._open[row] = _OpenEpisode()

    def _end(self, row: int, final: Seen, terminated: bool) -> None:
        """Write the episode of a slot, which ended where it saw ``final``, if it has a transition."""
        episode = self._open[row]
        length = len(episode.rewards)
        if not length:
            return
        last = np.zeros(length, np.bool_)
        last[-1] = True
        observations, masks = zip(*episode.seen, final, strict=True)
        allowed = np.ones(self._behavior.mask_size, np.bool_)
        free = all(mask is None for mask in masks)
        parts = [[getattr(each, part) for each in episode.chosen] for part in ("continuous", "discrete")]
        recording = Recording(
            self._behavior,
            {name: np.stack([each[name] for each in observations]) for name in observations[0]},
            Actions(*(None if part[0] is None else np.concatenate(part) for part in parts)),
            np.array(episode.rewards, np.float32),
            last & terminated,
            last & (not terminated),
            np.array([length]),
            None if free else np.stack([allowed if mask is None else mask for mask in masks]),
        )
        self._write(recording)
        self.episodes += 1


def _row(observations: Mapping[str, NDArray[Any]], mask: NDArray[np.bool_] | None, row: int) -> Seen:
    return {name: array[row].copy() for name, array in observations.items()}, None if mask is None else mask[row].copy()
