"""Batches of stored transitions against lists of dictionaries that are walked step by step in Python's floats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import AgentBatch, BehaviorSpec, ExtrinsicReward, ObservationSpec, Transitions
from rlcore_torch import ActionLayout, BatchReader, ObservationInputs, ReplayBuffer

SLOTS, ROWS = 3, 40  # rows of one slot
BRANCHES = (2, 3)
Step = dict[str, Any]

BEHAVIOR = BehaviorSpec(
    "Agent",
    (ObservationSpec("seen", (3,), np.float32),),
    continuous=2,
    discrete=BRANCHES,
    low=np.array([0.0, -1.0], np.float32),
    high=np.array([4.0, 1.0], np.float32),
    env_index=np.arange(SLOTS),
)


class EverythingReward:
    """Looks at all there is, and is worth something after the end."""

    name = "everything"
    gamma = 0.6
    strength = 0.5
    ignore_done = True

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        actions = transitions.actions
        assert actions.continuous is not None and actions.discrete is not None
        seen = transitions.observations["seen"] @ np.array([1, 2, 3], np.float32)
        then = transitions.next_observations["seen"] @ np.array([0.5, 0.25, 4], np.float32)
        done = actions.continuous @ np.array([7, 5], np.float32) + actions.discrete @ np.array([11, 13])
        return np.asarray(seen + then + done + 17 * transitions.terminated + 19 * transitions.truncated, np.float32)

    def of(self, step: Step) -> float:
        seen, then = step["seen"].tolist(), step["next"].tolist()
        total: float = seen[0] + 2 * seen[1] + 3 * seen[2] + 0.5 * then[0] + 0.25 * then[1] + 4 * then[2]
        raw, choices = step["raw"].tolist(), step["choices"].tolist()
        total += 7 * (2 + 2 * raw[0]) + 5 * raw[1] + 11 * choices[0] + 13 * choices[1]  # in the environment's units
        return total + float(17 * step["terminated"] + 19 * step["truncated"])

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        return None


class Story:
    """Random episodes, told to a buffer and kept as lists of steps, one for each episode that was played."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random = np.random.default_rng(seed)
        self.buffer = ReplayBuffer(BEHAVIOR, SLOTS * ROWS)
        self.episodes: list[list[Step]] = []
        self.open: list[list[Step]] = [[] for _ in range(SLOTS)]
        self.latest: list[Step] = [{} for _ in range(SLOTS)]
        self.optional = self.random.random() < 0.7  # masks and group rewards come up
        batch = self.batch(first=True)
        self.buffer.begin(batch)
        self.now = self.seen(batch)
        for _ in range(steps):
            self.step()

    def batch(self, first: bool) -> AgentBatch:
        random = self.random
        kind = random.choice(4, SLOTS, p=(0.75, 0.1, 0.1, 0.05)) * (not first)  # terminated, truncated, aborted
        over = (kind == 1) | (kind == 2)
        mask = None
        if self.optional and random.random() < 0.7:
            mask = random.random((SLOTS, sum(BRANCHES))) < 0.6
        return AgentBatch(
            {"seen": random.standard_normal((SLOTS, 3)).astype(np.float32)},
            random.standard_normal(SLOTS).astype(np.float32),
            kind == 1,
            kind == 2,
            final_observations={"seen": random.standard_normal((over.sum(), 3)).astype(np.float32)},
            group_reward=random.standard_normal(SLOTS).astype(np.float32)
            if self.optional and random.random() < 0.7
            else None,
            action_mask=mask,
            aborted=kind == 3,
        )

    def seen(self, batch: AgentBatch) -> list[Step]:
        everything = np.ones((SLOTS, sum(BRANCHES)), np.bool_)
        masks = everything if batch.action_mask is None else batch.action_mask
        return [{"seen": batch.observations["seen"][slot], "mask": masks[slot]} for slot in range(SLOTS)]

    def step(self) -> None:
        raw = self.random.uniform(-1, 1, (SLOTS, 2)).astype(np.float32)
        choices = self.random.integers(BRANCHES, size=(SLOTS, 2))
        self.buffer.act(raw, choices)
        batch = self.batch(first=False)
        self.buffer.observe(batch)
        after = self.seen(batch)
        assert batch.aborted is not None and batch.final_observations is not None
        for slot in range(SLOTS):
            if batch.aborted[slot]:  # this step is lost, and what led to it can be continued from where it led
                if self.open[slot]:
                    self.open[slot][-1]["truncated"] = True
                self.latest[slot]["then"] = after[slot]
                self.episodes.append(self.open[slot])
                self.open[slot] = []
                continue
            ended = bool(batch.terminated[slot] or batch.truncated[slot])
            following = after[slot]
            if ended:
                last = batch.final_observations["seen"][batch.ended.tolist().index(slot)]
                following = {"seen": last, "mask": np.ones(sum(BRANCHES), np.bool_)}
            group = 0.0 if batch.group_reward is None else float(batch.group_reward[slot])
            self.open[slot].append(
                {
                    **self.now[slot],
                    "raw": raw[slot],
                    "choices": choices[slot],
                    "reward": float(batch.reward[slot]) + group,
                    "next": following["seen"],
                    "next_mask": following["mask"],
                    "then": after[slot],  # what the agent acts on next
                    "terminated": bool(batch.terminated[slot]),
                    "truncated": bool(batch.truncated[slot]),
                }
            )
            self.latest[slot] = self.open[slot][-1]
            if ended:
                self.episodes.append(self.open[slot])
                self.open[slot] = []
        self.now = after

    def stretches(self, n_steps: int) -> dict[bytes, list[Step]]:
        """The rewards and observations after every observation, up to n steps of the same episode."""
        return {
            step["seen"].tobytes(): episode[k : k + n_steps]
            for episode in [*self.episodes, *self.open]
            for k, step in enumerate(episode)
        }


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_a_batch_is_what_a_walk_through_the_episodes_finds(seed: int, n_steps: int) -> None:
    story = Story(seed, steps=5 if seed == 0 else 20 * seed)  # from the fourth on the buffer goes round
    extrinsic, everything = ExtrinsicReward(0.9, strength=2.0), EverythingReward()
    reader = BatchReader(
        story.buffer,
        ObservationInputs(BEHAVIOR.observations, normalize=False),
        ActionLayout(BEHAVIOR),
        [extrinsic, everything],
        torch.device("cpu"),
        n_steps,
    )
    rows = np.flatnonzero(story.buffer.flags)
    weight = np.linspace(0.1, 1.0, len(rows), dtype=np.float32)
    batch = reader.read(rows, weight)
    assert batch.raw is not None and batch.choices is not None and batch.weight is not None
    assert batch.reward.dtype == batch.discount.dtype == torch.float32
    known, kinds = story.stretches(n_steps), set()
    after = batch.after_ends
    assert after is not None and after.rewards.tolist() == [False, True]
    for b, seen in enumerate(batch.inputs[0].numpy()):
        stretch = known[seen.tobytes()]
        first, last = stretch[0], stretch[-1]
        np.testing.assert_array_equal(batch.raw[b], first["raw"])
        np.testing.assert_array_equal(batch.choices[b], first["choices"])
        np.testing.assert_array_equal(batch.next_inputs[0][b], last["next"])
        np.testing.assert_array_equal(True if batch.mask is None else batch.mask[b], first["mask"])
        np.testing.assert_array_equal(True if batch.next_mask is None else batch.next_mask[b], last["next_mask"])
        np.testing.assert_array_equal(after.inputs[0][b], last["then"]["seen"])
        np.testing.assert_array_equal(True if after.mask is None else after.mask[b], last["then"]["mask"])
        own = sum(2.0 * 0.9**k * step["reward"] for k, step in enumerate(stretch))
        all_in_all = sum(0.5 * 0.6**k * everything.of(step) for k, step in enumerate(stretch))
        np.testing.assert_allclose(batch.reward[b], [own, all_in_all], rtol=1e-4, atol=1e-4)
        goes_on = 0.0 if last["terminated"] else 1.0
        np.testing.assert_allclose(batch.discount[b], [goes_on * 0.9 ** len(stretch), 0.6 ** len(stretch)], rtol=1e-6)
        kinds.add((len(stretch), last["terminated"], last["truncated"]))
    np.testing.assert_array_equal(batch.weight, weight)
    if seed >= 3:
        expected = {(n, *end) for n in range(1, n_steps + 1) for end in ((True, False), (False, True))}
        assert expected <= kinds, "every end at every length came up"
    newest = [episode[-1]["seen"].tobytes() for episode in story.open if episode]
    assert {seen.tobytes() for seen in batch.inputs[0].numpy()} >= set(newest), "the newest transition is read too"


def test_values_that_end_with_their_episodes_have_nothing_after_the_ends() -> None:
    story = Story(5, steps=60)
    parts = (ObservationInputs(BEHAVIOR.observations, normalize=False), ActionLayout(BEHAVIOR))
    rows = np.flatnonzero(story.buffer.flags)
    inside = rows[story.buffer.flags[rows] == 1]
    for providers, of in (([ExtrinsicReward()], rows), ([ExtrinsicReward(), EverythingReward()], inside)):
        assert BatchReader(story.buffer, *parts, providers, torch.device("cpu")).read(of).after_ends is None


class CountedArray(np.ndarray):
    """Counts the rows that are taken of it."""

    taken = 0

    def take(self, indices: Any, axis: Any = None, *others: Any, **keywords: Any) -> Any:
        type(self).taken += len(indices)
        return np.asarray(self).take(indices, axis, *others, **keywords)


@pytest.mark.parametrize(
    ("rewards", "copies"), [([ExtrinsicReward()], 2), ([ExtrinsicReward(), EverythingReward()], 9)]
)
def test_observations_in_between_are_gathered_for_rewards_that_look_at_them(
    monkeypatch: pytest.MonkeyPatch, rewards: list[Any], copies: int
) -> None:
    story = Story(5, steps=60)
    monkeypatch.setattr(CountedArray, "taken", 0)
    monkeypatch.setitem(story.buffer.observations, "seen", story.buffer.observations["seen"].view(CountedArray))
    inputs, layout = ObservationInputs(BEHAVIOR.observations, normalize=False), ActionLayout(BEHAVIOR)
    rows = np.flatnonzero(story.buffer.flags)
    BatchReader(story.buffer, inputs, layout, rewards, torch.device("cpu"), n_steps=3).read(rows)
    assert CountedArray.taken == copies * len(rows)
