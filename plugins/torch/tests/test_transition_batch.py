"""Batches of stored transitions against lists of dictionaries that are walked step by step in Python's floats."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from replay_stories import History, Plain, Story, histories

from rlcore import ExtrinsicReward, RewardProvider, Transitions
from rlcore_torch import ActionLayout, ObservationInputs, ReplayBuffer
from rlcore_torch.off_policy.batch_reader import BatchReader

Step = dict[str, Any]


class EverythingReward(ExtrinsicReward):
    """Looks at all there is, and is worth something after the end."""

    ignore_done = True

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        actions = transitions.actions
        assert actions.continuous is not None and actions.discrete is not None
        seen = transitions.observations["where"] @ np.array([1, 2, 3], np.float32)
        then = transitions.next_observations["where"] @ np.array([0.5, 0.25, 4], np.float32)
        done = 7 * actions.continuous[:, 0] + actions.discrete @ np.array([11, 13])
        return np.asarray(seen + then + done + 17 * transitions.terminated + 19 * transitions.truncated, np.float32)

    def of(self, step: Step) -> float:
        seen = step["own"]["where"].tolist()
        then = step["next"]["where"].tolist()
        total: float = seen[0] + 2 * seen[1] + 3 * seen[2] + 0.5 * then[0] + 0.25 * then[1] + 4 * then[2]
        raw = max(-1.0, min(1.0, float(step["raw"][0])))
        total += 7 * (2 + 2 * raw) + 11 * step["choices"][0] + 13 * step["choices"][1]  # in the environment's units
        return total + float(17 * step["terminated"] + 19 * step["truncated"])


def reader_of(buffer: ReplayBuffer, rewards: list[RewardProvider], n_steps: int = 1) -> BatchReader:
    inputs = ObservationInputs(buffer.behavior.observations, normalize=False)
    return BatchReader(buffer, inputs, ActionLayout(buffer.behavior), rewards, torch.device("cpu"), n_steps)


def as_inputs(seen: dict[str, Any]) -> NDArray[Any]:
    return np.concatenate([seen["where"], seen["seen"].ravel()])


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(histories, st.sampled_from([1, 3]))
def test_a_batch_is_what_a_walk_through_the_episodes_finds(history: History, n_steps: int) -> None:
    history = attrs.evolve(history, idle=0.0)
    buffer = history.buffer()
    plain = Plain(history)
    story = Story(history)
    for _ in range(history.steps):
        story.tell(buffer, plain)
    rows = np.flatnonzero(buffer.flags)
    if not len(rows):
        return
    everything = EverythingReward(0.6, strength=0.5)
    weight = np.linspace(0.1, 1.0, len(rows), dtype=np.float32)
    reader = reader_of(buffer, [ExtrinsicReward(0.9, strength=2.0), everything], n_steps)
    batch = reader.read(rows, weight)
    actions = reader.actions(rows)
    kept = plain.kept()
    assert batch.raw is not None and batch.choices is not None and batch.weight is not None
    assert batch.reward.dtype == batch.discount.dtype == torch.float32
    assert len(kept) == len(rows), "the newest transitions are read too"
    after = batch.after_ends
    ends = False
    for b, seen in enumerate(batch.inputs[0].numpy()):
        start = kept[tuple(seen[:3].tolist())]
        stretch = plain.stretch(start, n_steps)
        first = stretch[0]
        last = stretch[-1]
        np.testing.assert_array_equal(seen, as_inputs(first["own"]))
        for whole in (batch, actions):
            assert whole.raw is not None and whole.choices is not None
            np.testing.assert_array_equal(whole.raw[b], first["raw"])
            np.testing.assert_array_equal(whole.choices[b], first["choices"])
            np.testing.assert_array_equal(True if whole.mask is None else whole.mask[b], first["own"]["mask"])
        np.testing.assert_array_equal(batch.next_inputs[0][b], as_inputs(last["next"]))
        np.testing.assert_array_equal(True if batch.next_mask is None else batch.next_mask[b], last["next"]["mask"])
        ends |= last["terminated"] or last["truncated"]
        if after is not None:
            then = last["then"] or last["next"]
            np.testing.assert_array_equal(after.inputs[0][b], as_inputs(then))
            np.testing.assert_array_equal(True if after.mask is None else after.mask[b], then["mask"])
        own = sum(2.0 * 0.9**k * (step["reward"] + step["group_reward"]) for k, step in enumerate(stretch))
        all_in_all = sum(0.5 * 0.6**k * everything.of(step) for k, step in enumerate(stretch))
        np.testing.assert_allclose(batch.reward[b], [own, all_in_all], rtol=1e-4, atol=1e-4)
        goes_on = 0.0 if last["terminated"] else 1.0
        np.testing.assert_allclose(batch.discount[b], [goes_on * 0.9 ** len(stretch), 0.6 ** len(stretch)], rtol=1e-6)
    np.testing.assert_array_equal(batch.weight, weight)
    assert (after is not None) == ends, "without the end of an episode there is nothing after it"
    assert after is None or after.ignores_done.tolist() == [False, True]
    assert reader_of(buffer, [ExtrinsicReward()]).read(rows).after_ends is None, "all values end with their episodes"
