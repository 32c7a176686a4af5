"""Episodes caught while they are played, compared with one slot's story told by itself."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec
from rlcore_offline import SlotRecorder, recording_problem

SLOTS = 3
STEPS = 60
SPEC = BehaviorSpec(
    "A",
    (ObservationSpec("seen", (2,), np.float32), ObservationSpec("when", (), np.int32)),
    2,
    (3, 2),
    np.full(2, -1, np.float32),
    np.full(2, 1, np.float32),
    env_index=np.arange(SLOTS),
    team=np.zeros(SLOTS, np.int64),
)


@attrs.frozen
class Story:
    """All that happens to all slots: the first index is the batch, which shows the outcome of the step before it."""

    seen: np.ndarray
    final: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    aborted: np.ndarray
    needs: np.ndarray
    masks: np.ndarray
    final_masks: np.ndarray
    masked: np.ndarray  # [batch] of observations, and of final ones: without a mask everything is allowed
    actions: list[Actions]
    counted: np.ndarray

    @classmethod
    def drawn(cls, seed: int, ragged: bool) -> Story:
        g = np.random.default_rng(seed)
        shape = (STEPS, SLOTS)
        fate = g.choice(4, size=shape, p=[0.8, 0.08, 0.08, 0.04] if ragged else [0.85, 0.08, 0.07, 0])
        fate[0] = 0
        masked = g.random((STEPS, 2)) < 0.7
        masks = g.random((2, *shape, 5)) < 0.8
        for kind in (0, 1):
            masks[kind, ~masked[:, kind]] = True
        return cls(
            g.normal(size=(*shape, 2)).astype(np.float32), g.normal(size=(*shape, 2)).astype(np.float32),
            g.normal(size=shape).astype(np.float32), fate == 1, fate == 2, fate == 3,
            g.random(shape) < 0.6 if ragged else np.ones(shape, np.bool_), *masks, masked,
            [Actions(g.normal(size=(SLOTS, 2)).astype(np.float32), g.integers([3, 2], size=(SLOTS, 2)))
             for _ in range(STEPS)],
            g.random(shape) < 0.8,
        )  # fmt: skip

    def batch(self, t: int, ragged: bool) -> AgentBatch:
        ended = np.flatnonzero(self.terminated[t] | self.truncated[t])
        return AgentBatch(
            {"seen": self.seen[t].copy(), "when": np.full(SLOTS, t, np.int32)},
            self.reward[t], self.terminated[t], self.truncated[t], ended,
            {"seen": self.final[t, ended], "when": np.full(len(ended), -t, np.int32)},
            needs_action=self.needs[t] if ragged else None, aborted=self.aborted[t] if ragged else None,
            action_mask=self.masks[t].copy() if self.masked[t, 0] else None,
            final_action_mask=self.final_masks[t, ended] if self.masked[t, 1] else None,
        )  # fmt: skip


def told(story: Story, slot: int) -> dict[int, dict[str, Any]]:
    """The contents of the slot's counted episodes, by the batch in which they ended."""
    episodes = {}
    acted: list[int] = []  # batches in which it acted in the open episode
    closed: list[float] = []
    for t in range(STEPS):
        ended = story.terminated[t, slot] or story.truncated[t, slot]
        if (ended or story.needs[t, slot]) and len(closed) < len(acted):
            closed.append(story.reward[t, slot])
        if ended and acted and story.counted[t, slot]:
            episodes[t] = {
                "seen": [*(story.seen[a, slot] for a in acted), story.final[t, slot]],
                "when": [*acted, -t],
                "continuous": [story.actions[a].continuous[slot] for a in acted],
                "discrete": [story.actions[a].discrete[slot] for a in acted],
                "masks": [*(story.masks[a, slot] for a in acted), story.final_masks[t, slot]],
                "reward": closed,
                "terminated": story.terminated[t, slot],
            }
        if ended or story.aborted[t, slot]:
            acted = []
            closed = []
        if story.needs[t, slot]:
            acted.append(t)
    return episodes


@pytest.mark.parametrize("ragged", [False, True], ids=["together", "ragged"])
@pytest.mark.parametrize("seed", range(3))
def test_whole_counted_episodes_are_handed_over_as_their_agents_had_them(seed: int, ragged: bool) -> None:
    story = Story.drawn(seed, ragged)
    caught = []
    recorder = SlotRecorder(SPEC, caught.append)
    batch = story.batch(0, ragged)
    for t in range(1, STEPS):
        recorder.act(batch, story.actions[t - 1])
        for array in (*batch.observations.values(), *([] if batch.action_mask is None else [batch.action_mask])):
            array[:] = 0  # they were the environment's, which has taken its step
        batch = story.batch(t, ragged)
        recorder.observe(batch, np.flatnonzero(story.counted[t] & (story.terminated[t] | story.truncated[t])))
    stories = [told(story, slot) for slot in range(SLOTS)]
    expected = [stories[slot][t] for t in range(STEPS) for slot in range(SLOTS) if t in stories[slot]]
    assert len(caught) == len(expected) == recorder.episodes > 5
    for episode, theirs in zip(caught, expected, strict=True):
        assert recording_problem(episode) is None
        assert episode.behavior.slots == 1 and episode.behavior.team is None
        for name in ("seen", "when"):
            np.testing.assert_array_equal(episode.observations[name], theirs[name])
            assert episode.observations[name].dtype == {"seen": np.float32, "when": np.int32}[name]
        np.testing.assert_array_equal(episode.actions.continuous, theirs["continuous"])
        np.testing.assert_array_equal(episode.actions.discrete, theirs["discrete"])
        np.testing.assert_array_equal(True if episode.action_mask is None else episode.action_mask, theirs["masks"])
        np.testing.assert_array_equal(episode.reward, np.float32(theirs["reward"]))
        assert episode.terminated[-1] == theirs["terminated"]


@pytest.mark.parametrize("acted", [2, 3], ids=["before it acts again", "after it acted again"])
def test_an_episode_that_is_cut_keeps_the_mask_of_its_last_observation(acted: int) -> None:
    story = Story.drawn(0, False)
    caught = []
    recorder = SlotRecorder(SPEC, caught.append)
    nobody = np.zeros(SLOTS, np.bool_)
    for t in range(3):
        batch = attrs.evolve(story.batch(t, False), terminated=nobody, truncated=nobody, ended=np.empty(0, np.intp))
        if t:
            recorder.observe(batch, batch.ended)
        if t < acted:
            recorder.act(batch, story.actions[t])
    recorder.cut(batch, np.arange(SLOTS))
    for slot, episode in enumerate(caught):
        np.testing.assert_array_equal(episode.observations["seen"], story.seen[:3, slot])
        np.testing.assert_array_equal(episode.action_mask, story.masks[:3, slot])
    assert len(caught) == SLOTS
