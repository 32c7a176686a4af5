"""Returns and lengths of episodes, also where slots wait for their turn."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore.contracts.batches import AgentBatch
from rlcore.run.behaviors.episodes import HELD_STEPS, EpisodeStatistics


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


class Sums:
    """Statistics and what they reported: own returns, group returns and lengths."""

    def __init__(self, slots: int) -> None:
        self.statistics = EpisodeStatistics(slots)
        self.reported: tuple[list[float], list[float], list[int]] = ([], [], [])

    def record(self, batch: AgentBatch) -> None:
        finished = self.statistics.record(batch)
        assert (finished is None) == (batch.ended.size == 0)
        if finished is not None:
            assert finished.slots.tolist() == batch.ended.tolist()
            of_group = [] if finished.group_returns is None else finished.group_returns.tolist()
            found = (finished.returns.tolist(), of_group, finished.lengths.tolist())
            for column, values in zip(self.reported, found, strict=True):
                column.extend(values)


def test_a_step_counts_for_an_agent_that_acted_in_it_or_before_in_its_episode() -> None:
    """Two agents take turns, and slot 0 begins both episodes: slot 1 waits first, and acts once in the first one."""
    sums = Sums(2)
    sums.statistics.begin(batch([0, 0], acts=[True, False]))
    sums.record(batch([0, 0], acts=[False, True]))  # slot 0 acted; slot 1 acts next for the first time
    sums.record(batch([0, 0], acts=[True, False]))
    sums.record(batch([1, -1], ended=[0, 1], acts=[True, False]))
    assert sums.reported == ([1.0, -1.0], [], [2, 1])
    sums.record(batch([1, -1], ended=[0, 1], acts=[False, True]))
    sums.record(batch([-1, 1], ended=[0, 1], acts=[True, True]))
    assert sums.reported[2] == [2, 1, 1, 0, 0, 1]
    sums.record(batch([1, 1], ended=[0, 1]))
    assert sums.reported[2][6:] == [1, 1]


def test_only_episodes_of_counted_slots_are_reported() -> None:
    statistics = EpisodeStatistics(3)
    statistics.record(batch([1, 2, 3], ended=[1]), np.array([True, False, True]))
    finished = statistics.record(batch([1, 2, 3], ended=[0, 1]), np.array([True, False, True]))
    assert finished is not None and statistics.finished == 1
    assert (finished.slots.tolist(), finished.returns.tolist(), finished.lengths.tolist()) == ([0], [2.0], [2])
    assert statistics.returns.tolist() == [0.0, 0.0, 6.0]


def test_a_group_return_belongs_to_its_episode_whichever_batches_carry_group_rewards() -> None:
    sums = Sums(1)
    sums.record(batch([1], group=[0.5]))
    sums.record(batch([1], ended=[0]))  # nothing was shared in the last step
    sums.record(batch([1], ended=[0]))  # nor in all of the second episode
    sums.record(batch([1], group=[0.25], ended=[0]))
    assert sums.reported == ([2.0, 1.0, 1.0], [0.5, 0.0, 0.25], [2, 1, 1])


def test_an_aborted_episode_is_forgotten() -> None:
    sums = Sums(2)
    sums.record(batch([1, 1]))
    lost = batch([1, 1])
    lost.aborted = np.array([True, False])
    sums.record(lost)
    sums.record(batch([1, 1], ended=[0, 1]))
    assert sums.reported == ([1.0, 3.0], [], [1, 3])
    sums.record(batch([5, 5]))
    sums.statistics.begin(batch([0, 0]))  # the environment was reset
    sums.record(batch([2, 2], ended=[0, 1]))
    assert sums.reported[0][2:] == [2.0, 2.0]


@pytest.mark.parametrize("slots", [1, 5])
def test_returns_are_the_sums_in_the_order_of_the_steps_to_the_last_bit(slots: int) -> None:
    """Slots wait now and then, episodes are longer and shorter than the steps added up together, some rewards are
    float64, and statistics are read and saved on the way."""
    random = np.random.default_rng(1)
    sums = Sums(slots)
    again = Sums(slots)
    expected = []
    returns = [0.0] * slots
    lengths = [0] * slots
    acted = [True] * slots
    for step in range(12 * HELD_STEPS):
        over = random.random(slots) < (0.3 if step < 2 * HELD_STEPS else 0.01)
        acts = random.random(slots) < 0.8 if 5 * HELD_STEPS < step < 6 * HELD_STEPS else None
        reward = random.normal(scale=10.0 ** random.integers(-3, 4), size=slots).tolist()
        told = batch(reward, np.flatnonzero(over).tolist(), None if acts is None else acts.tolist())
        exact = step > 8 * HELD_STEPS and bool(random.random() < 0.2)
        if exact:
            told.reward = np.array(reward)
        sums.record(told)
        again.record(told)
        for slot in range(slots):
            if acts is None or acts[slot] or over[slot]:
                returns[slot] += reward[slot] if exact else float(np.float32(reward[slot]))
                lengths[slot] += acted[slot]
                acted[slot] = False
            acted[slot] = acted[slot] or acts is None or acts[slot]
            if over[slot]:
                expected.append((returns[slot], lengths[slot]))
                returns[slot], lengths[slot] = 0.0, 0
        if random.random() < 0.2:
            assert again.statistics.returns.tolist() == returns and again.statistics.lengths.tolist() == lengths
            resumed = EpisodeStatistics(slots)
            resumed.load_state_dict(again.statistics.state_dict())
            again.statistics = resumed
    assert list(zip(sums.reported[0], sums.reported[2], strict=True)) == expected and len(expected) > 20
    assert again.reported == sums.reported and again.statistics.finished == sums.statistics.finished
