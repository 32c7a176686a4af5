"""The replay buffer's promises one by one; test_replay_histories.py has what random histories make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore import AgentBatch, BehaviorSpec, ConfigError, ObservationSpec, RunStateError
from rlcore_devkit.conformance.states import assert_equal, copied
from rlcore_torch import ReplayBuffer

VECTOR = ObservationSpec("vector", (17,), np.float32)
IMAGE = ObservationSpec("image", (12, 10, 3), np.uint8, kind="image")


def behavior(
    *observations: ObservationSpec, slots: int = 2, continuous: int = 6, discrete: tuple[int, ...] = ()
) -> Any:
    return BehaviorSpec(
        "Agent", observations or (VECTOR,), continuous=continuous, discrete=discrete, env_index=np.arange(slots)
    )


def batch(spec: BehaviorSpec, value: float, terminated: Any = False) -> AgentBatch:
    """Everything is ``value``."""
    ended = np.array(np.broadcast_to(terminated, spec.slots), np.bool_)
    seen, last = (
        {o.name: np.full((rows, *o.shape), value, o.dtype) for o in spec.observations}
        for rows in (spec.slots, ended.sum())
    )
    return AgentBatch(seen, np.full(spec.slots, value, np.float32), ended, ~ended & False, final_observations=last)


def play(buffer: ReplayBuffer, steps: int, ends: float = 0.0, seed: int = 0) -> None:
    spec = buffer.behavior
    random = np.random.default_rng(seed)
    buffer.begin(batch(spec, 0))
    for step in range(1, steps + 1):
        buffer.act(
            np.full((spec.slots, spec.continuous), step, np.float32),
            random.integers(spec.discrete, size=(spec.slots, len(spec.discrete))) if spec.discrete else None,
        )
        buffer.observe(batch(spec, step % 200, random.random(spec.slots) < ends))


# ---------------------------------------------------------------- sampling


@pytest.mark.parametrize("steps", [25, 300])  # in part filled, and overwritten many times
def test_every_transition_is_sampled_equally_often(steps: int) -> None:
    buffer = ReplayBuffer(behavior(slots=3), 120)
    play(buffer, steps, ends=0.3)
    draws = np.bincount(
        np.concatenate([buffer.sample(256, np.random.default_rng(k)) for k in range(400)]), minlength=120
    )
    counts = draws[draws > 0]
    assert len(counts) == len(buffer) < 120
    expected = 400 * 256 / len(counts)
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = len(counts) - 1
    assert abs(statistic - freedom) < 4 * np.sqrt(2 * freedom)  # chi-square: mean k, variance 2k


@pytest.mark.parametrize(("slots", "buffer_size"), [(1, 3), (1, 0), (8, 31)])
def test_a_buffer_of_fewer_than_four_rows_an_agent_is_refused(slots: int, buffer_size: int) -> None:
    with pytest.raises(ConfigError, match=f"hyperparameters.buffer_size: must be at least {4 * slots} .*{buffer_size}"):
        ReplayBuffer(behavior(slots=slots), buffer_size)


# ---------------------------------------------------------------- state


@pytest.mark.parametrize(
    ("other", "buffer_size", "alpha", "named"),
    [
        (behavior(slots=3), 64, None, "slots"),
        (behavior(), 66, None, "buffer_size"),
        (behavior(IMAGE), 64, None, "observations"),
        (behavior(continuous=5), 64, None, "actions"),
        (behavior(), 64, 0.5, "priority_alpha"),
    ],
)
def test_the_state_of_another_buffer_is_refused_before_anything_changes(
    other: BehaviorSpec, buffer_size: int, alpha: float | None, named: str
) -> None:
    saved = ReplayBuffer(behavior(), 64)
    play(saved, 20)
    buffer = ReplayBuffer(other, buffer_size, alpha)
    play(buffer, 3)
    before = copied(buffer.state_dict())
    with pytest.raises(RunStateError, match=f"'Agent'.*{named}"):
        buffer.load_state_dict(saved.state_dict())
    assert_equal(buffer.state_dict(), before)
