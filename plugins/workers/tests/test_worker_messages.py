"""Rows that are sent as messages arrive as if the run and its workers shared their memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore import Actions, AgentBatch, BehaviorSpec, ObservationSpec
from rlcore_workers.arrays import RunArrays
from rlcore_workers.layout import Layout
from rlcore_workers.messages import PartMessages

OBSERVATIONS = (ObservationSpec("place", (3,), np.float32), ObservationSpec("camera", (2, 2), np.uint8, "image"))
BOUNDS = [0, 2, 5]


def part(envs: int, interleaved: bool) -> dict[str, BehaviorSpec]:
    """Two behaviors, of which the first has two agents in each environment."""
    index = np.tile(np.arange(envs), 2) if interleaved else np.repeat(np.arange(envs), 2)
    return {
        "a": BehaviorSpec("a", OBSERVATIONS, continuous=2, discrete=(2, 3), env_index=index),
        "b": BehaviorSpec("b", OBSERVATIONS[:1], discrete=(2,), env_index=np.arange(envs)),
    }


def drawn(random: np.random.Generator, spec: BehaviorSpec, ends: bool, optional: bool) -> AgentBatch:
    """A random batch; with ``ends``, some episodes end."""
    slots = spec.slots

    def observed(rows: int) -> dict[str, Any]:
        return {o.name: random.integers(0, 200, (rows, *o.shape)).astype(o.dtype) for o in spec.observations}

    terminated, truncated = random.random((2, slots)) < 0.4 if ends else np.zeros((2, slots), np.bool_)
    ended = np.flatnonzero(terminated | truncated)
    batch = AgentBatch(
        observed(slots), random.random(slots).astype(np.float32), terminated, truncated, ended, observed(len(ended))
    )
    if optional:
        batch.needs_action = random.random(slots) < 0.5
        batch.action_mask = random.random((slots, spec.mask_size)) < 0.5
        batch.group_reward = random.random(slots).astype(np.float32)
        batch.final_action_mask = random.random((len(ended), spec.mask_size)) < 0.5
    return batch


def equal(first: AgentBatch, second: AgentBatch) -> None:
    names = ("reward", "terminated", "truncated", "ended", "needs_action", "action_mask", "group_reward")
    for name in (*names, "final_action_mask"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    for one, other in (
        (first.observations, second.observations),
        (first.final_observations or {}, second.final_observations or {}),
    ):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("interleaved", [False, True])
def test_messages_equal_shared_memory(interleaved: bool) -> None:
    random = np.random.default_rng(1)
    layout = Layout.of([part(end - start, interleaved) for start, end in ((0, 2), (2, 5))], BOUNDS, 2)
    shared, sent = (RunArrays(layout, bytearray(layout.size)) for _ in range(2))
    remote = [RunArrays(layout, bytearray(b"\xff" * layout.size)) for _ in range(2)]  # workers start with anything
    for arrays in (shared, sent):
        arrays.fill_defaults()
    here = [PartMessages(sent, number) for number in range(2)]
    there = [PartMessages(arrays, number) for number, arrays in enumerate(remote)]
    parts = [(shared.part(number), remote[number].part(number)) for number in range(2)]
    for step in range(30):
        actions = {
            name: Actions(
                random.random((spec.slots, spec.continuous)).astype(np.float32) if spec.continuous else None,
                random.integers(0, 2, (spec.slots, len(spec.discrete))),
            )
            for name, spec in layout.behaviors.items()
        }
        whole = step % 3 == 0
        for arrays in (shared, sent):
            arrays.put_actions(actions)
            if whole:
                arrays.begin[:], arrays.parameters[:] = step + np.arange(5), step * np.ones((5, 2))
        for number, (local, far) in enumerate(parts):
            there[number].accept(here[number].request(whole))
            for name, expected in local.actions().items():
                received = far.actions()[name]
                np.testing.assert_array_equal(expected.discrete, received.discrete)
                if expected.continuous is not None:
                    np.testing.assert_array_equal(expected.continuous, received.continuous)
            np.testing.assert_array_equal(local.begin, far.begin)
            np.testing.assert_array_equal(local.parameters, far.parameters)
            specs = part(BOUNDS[number + 1] - BOUNDS[number], interleaved)
            # One worker, or both, or none leave out what they may leave out.
            batches = {
                name: drawn(random, spec, step % 2 == 1, (step + number) % 5 < 2) for name, spec in specs.items()
            }
            for each in (local, far):
                each.put(batches, np.full(BOUNDS[number + 1] - BOUNDS[number], step))
            here[number].take(there[number].answer())
        np.testing.assert_array_equal(shared.episodes, sent.episodes)
        expected, received = shared.batches({}), sent.batches({})
        for name in layout.behaviors:
            equal(expected[name], received[name])


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b""])
def test_a_message_of_another_size_is_refused(change: Any) -> None:
    layout = Layout.of([part(2, False)], [0, 2], 0)
    arrays = RunArrays(layout, bytearray(layout.size))
    arrays.fill_defaults()
    messages = PartMessages(arrays, 0)
    with pytest.raises(ValueError, match="bytes"):
        messages.take(change(messages.answer()))
    with pytest.raises(ValueError, match="bytes"):
        messages.accept(change(messages.request(True)))
