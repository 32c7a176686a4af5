"""A rollout buffer that was saved and loaded stays equal to the one that went on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore import AgentBatch, BehaviorSpec, ObservationSpec, load_checkpoint, save_checkpoint
from rlcore_torch.on_policy.rollout import RolloutBuffer
from rlcore_torch.on_policy.saved_rollout import load_rollout, rollout_state

SPEC = BehaviorSpec(
    "Agent",
    (ObservationSpec("seen", (2,), np.float32),),
    continuous=1,
    discrete=(3,),
    low=np.array([-1.0], np.float32),
    high=np.array([1.0], np.float32),
    env_index=np.arange(3),
)


def step(buffer: RolloutBuffer, seed: int, ragged: bool) -> None:
    """One step that is the same for the same seed."""
    random = np.random.default_rng(seed)
    batch = AgentBatch(
        {"seen": random.random((3, 2), np.float32)},
        random.random(3, np.float32),
        random.random(3) < 0.2,
        np.zeros(3, np.bool_),
        group_reward=random.random(3, np.float32),
        action_mask=random.random((3, 3)) < 0.7,
        needs_action=random.random(3) < 0.6 if ragged else None,
    )
    batch.final_observations = {"seen": random.random((len(batch.ended), 2), np.float32)}
    if buffer.full:
        buffer.restart()
    raw, columns, logits = (random.random((3, size), np.float32) for size in (1, 1, 3))
    buffer.act(raw, random.integers(3, size=(3, 1)), columns, logits)
    buffer.observe(batch)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b))


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("saved_at", [0, 1, 7, 8, 13, 22])
def test_a_saved_buffer_goes_on_as_the_one_it_was_saved_from(tmp_path: Any, ragged: bool, saved_at: int) -> None:
    """Compared at every step, through several rollouts: nothing of an earlier rollout is in the state."""
    whole = RolloutBuffer(SPEC, 24)
    whole.begin(
        AgentBatch(
            {"seen": np.ones((3, 2), np.float32)}, np.zeros(3, np.float32), np.zeros(3, np.bool_), np.zeros(3, np.bool_)
        )
    )
    for seed in range(saved_at):
        step(whole, seed, ragged)
    resumed = RolloutBuffer(SPEC, 24)
    saved = save_checkpoint(tmp_path, 1, {"Agent": rollout_state(whole)})
    load_rollout(resumed, load_checkpoint(saved)["Agent"])
    for seed in range(saved_at, saved_at + 30):
        assert same(rollout_state(resumed), rollout_state(whole)), seed
        step(whole, seed, ragged)
        step(resumed, seed, ragged)
