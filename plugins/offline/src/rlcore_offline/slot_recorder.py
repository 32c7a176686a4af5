"""Records the episodes of one behavior while they are played."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, BehaviorSpec, Recording, one_slot

__all__ = ["SlotRecorder"]

Mask = NDArray[np.bool_] | None
"""Flags of slots or of options; None: all are true."""
View = tuple[dict[str, NDArray[Any]], Mask]
"""The observations of one slot, and its action mask; None: everything was allowed."""


@attrs.define(eq=False)
class _OpenEpisode:
    """The actions of one slot since its episode started, and what it saw before each."""

    views: list[View] = attrs.field(factory=list)
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
        for row in self._rows(batch.needs_action):
            episode = self._open[row]
            episode.views.append(_row(batch.observations, batch.action_mask, row))
            episode.chosen.append(actions.take(np.array([row])))

    def observe(self, batch: AgentBatch, counted: NDArray[np.intp]) -> None:
        """Record what the step led to. Of the episodes that ended in it, those of the slots ``counted`` are written."""
        for row in self._rows(batch.transition_closed):
            episode = self._open[row]
            if len(episode.rewards) < len(episode.views):
                episode.rewards.append(float(batch.reward[row]))
        for place, row in enumerate(batch.ended.tolist()):
            if row in counted:
                assert batch.final_observations is not None
                final = _row(batch.final_observations, batch.final_action_mask, place)
                self._end(row, final, bool(batch.terminated[row]))
            self._open[row] = _OpenEpisode()
        if batch.aborted is not None:
            for row in self._rows(batch.aborted):
                self._open[row] = _OpenEpisode()

    def _rows(self, flags: Mask) -> Iterable[int]:
        """The rows where ``flags`` [S] is true; all without flags."""
        if flags is None:
            return range(len(self._open))
        rows: list[int] = np.flatnonzero(flags).tolist()
        return rows

    def begin(self) -> None:
        """Begin an episode in all slots: the environment was reset, and open episodes are dropped."""
        self._open = [_OpenEpisode() for _ in self._open]

    def cut(self, batch: AgentBatch, rows: NDArray[np.intp]) -> None:
        """End the open episodes of ``rows`` after ``batch``, and write them as truncated."""
        for row in rows.tolist():
            episode = self._open[row]
            final = _row(batch.observations, batch.action_mask, row)
            if len(episode.views) > len(episode.rewards):  # a transition is open: what it began with was seen last
                final = episode.views.pop()
                episode.chosen.pop()
            self._end(row, final, False)
            self._open[row] = _OpenEpisode()

    def _end(self, row: int, final: View, terminated: bool) -> None:
        """Write the episode of a slot, which ended where it saw ``final``, if it has a transition."""
        episode = self._open[row]
        length = len(episode.rewards)
        if not length:
            return
        last = np.zeros(length, np.bool_)
        last[-1] = True
        observations, masks = zip(*episode.views, final, strict=True)
        recording = Recording(
            self._behavior,
            observations={name: np.stack([view[name] for view in observations]) for name in observations[0]},
            actions=Actions(
                continuous=_joined([actions.continuous for actions in episode.chosen]),
                discrete=_joined([actions.discrete for actions in episode.chosen]),
            ),
            reward=np.array(episode.rewards, np.float32),
            terminated=last & terminated,
            truncated=last & (not terminated),
            lengths=np.array([length]),
            action_mask=self._masks(masks),
        )
        self._write(recording)
        self.episodes += 1

    def _masks(self, masks: Sequence[Mask]) -> Mask:
        """The masks of an episode, one a row; None if everything was allowed at all times."""
        if all(mask is None for mask in masks):
            return None
        everything = np.ones(self._behavior.mask_size, np.bool_)
        return np.stack([everything if mask is None else mask for mask in masks])


def _joined(rows: list[Any]) -> NDArray[Any] | None:
    """One part of the actions of an episode; None if the behavior has no such part."""
    return None if rows[0] is None else np.concatenate(rows)


def _row(observations: Mapping[str, NDArray[Any]], mask: Mask, row: int) -> View:
    # Copies: environments write the next step into the same arrays.
    view = {name: array[row].copy() for name, array in observations.items()}
    return view, None if mask is None else mask[row].copy()
