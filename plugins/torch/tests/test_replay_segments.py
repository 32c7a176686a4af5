"""Checkpoints of a replay buffer: segments that did not change are shared, and rows that change are never missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import AgentBatch, BehaviorSpec, ObservationSpec, RunStateError, save_checkpoint
from rlcore_torch import ReplayBuffer
from rlcore_torch.off_policy import replay_segments

# 10 segments of 10 positions
SLOTS = 4
POSITIONS = 100


@pytest.fixture
def buffer(monkeypatch: pytest.MonkeyPatch) -> ReplayBuffer:
    monkeypatch.setattr(replay_segments, "SEGMENT_BYTES", 10 * SLOTS * (3 * 4 + 4 + 4 + 1))
    return empty()


def empty() -> ReplayBuffer:
    observation = ObservationSpec("seen", (3,), np.float32)
    spec = BehaviorSpec("Agent", (observation,), continuous=1, env_index=np.arange(SLOTS))
    return ReplayBuffer(spec, SLOTS * POSITIONS, priority_alpha=0.6)


def play(buffer: ReplayBuffer, steps: int, **batch: Any) -> None:
    random = np.random.default_rng(len(buffer) + steps)

    def seen() -> AgentBatch:
        observations = {"seen": random.standard_normal((SLOTS, 3), np.float32)}
        no = np.zeros(SLOTS, np.bool_)
        return AgentBatch(observations, random.standard_normal(SLOTS, np.float32), no, no, **batch)

    if not buffer.filled or not len(buffer):
        buffer.begin(seen())
    for _ in range(steps):
        buffer.act(random.standard_normal((SLOTS, 1), np.float32), None)
        buffer.observe(seen())


def saved(buffer: ReplayBuffer, directory: Path, step: int) -> dict[str, int]:
    """Save a checkpoint. Returns the inodes of the segments' files."""
    path = save_checkpoint(directory, step, {"Agent": {"buffer": buffer.state_dict()}})
    return {file.name: file.stat().st_ino for file in path.glob("_frozen-*")}


def test_a_save_writes_the_segments_that_changed_and_links_the_others(buffer: ReplayBuffer, tmp_path: Path) -> None:
    play(buffer, 95)
    first = saved(buffer, tmp_path, 1)
    play(buffer, 10)  # over the end of the ring, into its first segment
    second = saved(buffer, tmp_path, 2)
    assert len(first) == len(second) == 10
    assert len(first.items() & second.items()) == 8, "all but the last and the first one"
    assert saved(buffer, tmp_path, 3) == {**second}, "nothing has changed"
    play(buffer, 95)
    assert not saved(buffer, tmp_path, 4).items() & second.items(), "the ring went round"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda state: state["segments"].pop(), "'segments' is not a list of the 9 segments of 336 rows"),
        (lambda state: state["segments"].__setitem__(2, dict(state["segments"][8])), "of shape"),
        (
            lambda state: state["segments"].__setitem__(1, {**state["segments"][1], "group_reward": np.zeros(40)}),
            "masks or group rewards in some of its segments only",
        ),
    ],
)
def test_segments_that_do_not_fit_together_are_refused(buffer: ReplayBuffer, change: Any, problem: str) -> None:
    play(buffer, 83)
    state = buffer.state_dict()
    change(state)
    other = empty()
    with pytest.raises(RunStateError, match=problem):
        other.load_state_dict(state)
    assert len(other) == 0
