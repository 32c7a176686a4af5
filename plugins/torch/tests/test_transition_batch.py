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
from torch import Tensor

from rlcore import ExtrinsicReward, RewardProvider, Transitions
from rlcore_torch import ActionLayout, ObservationInputs, ReplayBuffer
from rlcore_torch.off_policy.batch_reader import BatchReader
from rlcore_torch.off_policy.transition_batch import TransitionBatch, joined

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


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
@given(histories, histories, st.sampled_from([1, 3]), st.booleans())
def test_a_row_of_a_joined_batch_is_what_it_is_alone(one: History, other: History, n: int, ignores: bool) -> None:
    readers = []
    parts = []
    for history in (one, other):
        history = attrs.evolve(history, idle=0.0, prioritized=False)
        buffer = history.buffer()
        plain = Plain(history)
        story = Story(history)
        for _ in range(history.steps):
            story.tell(buffer, plain)
        rewards = [ExtrinsicReward(0.9), EverythingReward(0.6) if ignores else ExtrinsicReward(0.5)]
        reader = reader_of(buffer, rewards, n)
        reader.between = True
        readers.append(reader)
        parts.append(np.flatnonzero(buffer.flags))
    if not all(map(len, parts)):
        return
    rows = [(reader, part[k : k + 1]) for reader, part in zip(readers, parts, strict=True) for k in range(len(part))]
    batch = joined(*(reader.read(part) for reader, part in zip(readers, parts, strict=True)))
    np.testing.assert_array_equal(batch.starts, parts[0])
    for b, (reader, row) in enumerate(rows):
        require_equal(batch, b, reader, row)


def require_equal(batch: TransitionBatch, b: int, reader: BatchReader, row: NDArray[Any]) -> None:
    """Assert that row ``b`` of ``batch`` is what ``reader`` makes of ``row`` alone."""
    alone = reader.read(row)
    count = len(batch.reward)
    pairs: list[tuple[Tensor | None, Tensor | None]] = [
        *zip(batch.inputs, alone.inputs, strict=True),
        *zip(batch.next_inputs, alone.next_inputs, strict=True),
        (batch.raw, alone.raw),
        (batch.choices, alone.choices),
        (batch.reward, alone.reward),
        (batch.discount, alone.discount),
    ]
    for whole, part in pairs:
        assert whole is not None and part is not None and len(whole) == count
        torch.testing.assert_close(whole[b : b + 1], part, rtol=0, atol=0)
    require_mask(batch.mask, alone.mask, b)
    require_mask(batch.next_mask, alone.next_mask, b)
    if alone.between is not None:
        assert batch.between is not None
        torch.testing.assert_close(batch.between.discount[:, b : b + 1], alone.between.discount, rtol=0, atol=0)
        for k in range(len(alone.between.discount)):
            require_mask(batch.between.mask, alone.between.mask, k * count + b, k)
            for whole, part in zip(batch.between.inputs, alone.between.inputs, strict=True):
                torch.testing.assert_close(whole[k * count + b], part[k], rtol=0, atol=0)
    if batch.after_ends is None:
        assert alone.after_ends is None
        return
    after = alone.after_ends
    inputs = alone.next_inputs if after is None else after.inputs
    require_mask(batch.after_ends.mask, alone.next_mask if after is None else after.mask, b)
    for whole, part in zip(batch.after_ends.inputs, inputs, strict=True):
        torch.testing.assert_close(whole[b : b + 1], part, rtol=0, atol=0)


def require_mask(whole: Tensor | None, part: Tensor | None, b: int, k: int = 0) -> None:
    """Assert that row ``b`` of ``whole`` is row ``k`` of ``part``, which allows everything if there is none."""
    if whole is None:
        assert part is None
    else:
        assert whole[b].tolist() == (torch.ones_like(whole[b]) if part is None else part[k]).tolist()
