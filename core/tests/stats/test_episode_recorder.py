"""Returns and lengths of episodes, also where slots wait for their turn."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore.environment import AgentBatch
from rlcore.stats import EpisodeRecorder


def batch(
    reward: list[float],
    ended: list[int] | None = None,
    acts: list[bool] | None = None,
    group: list[float] | None = None,
) -> AgentBatch:
    terminated = np.zeros(len(reward), np.bool_)
    terminated[ended or []] = True
    return AgentBatch(
        observations={"x": np.zeros((len(reward), 1), np.float32)},
        reward=np.array(reward, np.float32),
        terminated=terminated,
        truncated=np.zeros(len(reward), np.bool_),
        needs_action=None if acts is None else np.array(acts),
        group_reward=None if group is None else np.array(group, np.float32),
    )


def test_every_slot_counts_its_own_episodes() -> None:
    recorder = EpisodeRecorder(2)
    recorder.record(batch([1, 10]))
    recorder.record(batch([2, 20], ended=[1]))
    recorder.record(batch([3, 30], ended=[0, 1]))
    assert recorder.take_finished() == ([30.0, 6.0, 30.0], [], [2, 3, 1])
    assert recorder.finished == 3
    assert recorder.take_finished() == ([], [], [])


def test_a_reward_counts_once_when_its_transition_closes() -> None:
    """``reward`` is what came since the slot last acted: rows that wait may show the sum so far."""
    recorder = EpisodeRecorder(2)
    recorder.record(batch([1, 5], acts=[True, False]))
    recorder.record(batch([1, 7], acts=[True, True]))
    recorder.record(batch([1, 2], acts=[False, False], ended=[0, 1]))
    assert recorder.take_finished() == ([3.0, 9.0], [], [3, 2])


def test_group_rewards_are_summed_apart() -> None:
    recorder = EpisodeRecorder(1)
    recorder.record(batch([1], group=[0.5]))
    recorder.record(batch([1], group=[0.25], ended=[0]))
    own, of_group, _ = recorder.take_finished()
    assert own == [2.0] and of_group == pytest.approx([0.75])


def test_a_group_return_belongs_to_its_episode_whichever_batches_carry_group_rewards() -> None:
    recorder = EpisodeRecorder(1)
    recorder.record(batch([1], group=[0.5]))
    recorder.record(batch([1], ended=[0]))  # nothing was shared in the last step
    recorder.record(batch([1], ended=[0]))  # nor in all of the second episode
    recorder.record(batch([1], group=[0.25], ended=[0]))
    assert recorder.take_finished() == ([2.0, 1.0, 1.0], [0.5, 0.0, 0.25], [2, 1, 1])


def test_an_aborted_episode_is_forgotten() -> None:
    recorder = EpisodeRecorder(2)
    recorder.record(batch([1, 1]))
    lost = batch([1, 1])
    lost.aborted = np.array([True, False])
    recorder.record(lost)
    recorder.record(batch([1, 1], ended=[0, 1]))
    assert recorder.take_finished() == ([1.0, 3.0], [], [1, 3])
