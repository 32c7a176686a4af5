"""Parts of a behavior: its slots, batches and actions, taken for the trainer of some agents and joined again."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec

SEEN = ObservationSpec("seen", (2,), np.float32)
SLOTS = [[0, 1, 2, 3], [3, 1], [2], [0, 2], []]


def batch_of_four(**more: Any) -> AgentBatch:
    """Slots 1 and 3 end, one of them by the task."""
    terminated = np.array([False, True, False, False])
    truncated = np.array([False, False, False, True])
    seen = np.arange(8, dtype=np.float32).reshape(4, 2)
    final = {"seen": np.array([[10.0, 11.0], [30.0, 31.0]], np.float32)}
    reward = np.array([0.5, 1.5, 2.5, 3.5], np.float32)
    return AgentBatch({"seen": seen}, reward, terminated, truncated, final_observations=final, **more)


def optional() -> dict[str, NDArray[Any]]:
    return {
        "group_reward": np.array([4.0, 5.0, 6.0, 7.0], np.float32),
        "needs_action": np.array([True, False, True, True]),
        "action_mask": np.array([[True, False], [False, True], [True, True], [True, False]]),
        "aborted": np.array([True, False, False, False]),
    }


@pytest.mark.parametrize("slots", SLOTS, ids=str)
def test_each_agent_receives_in_a_part_what_it_receives_in_the_whole(slots: list[int]) -> None:
    numbers = {"result": np.array([1.0, 3.0]), "moves": np.array([np.nan, 30.0])}
    whole = batch_of_four(**optional(), final_info=numbers, final_action_mask=np.eye(2, dtype=np.bool_))
    part = whole.take(np.array(slots, np.int64))
    ended = [slot for slot in slots if slot in (1, 3)]
    assert part.ended.tolist() == [slots.index(slot) for slot in ended]
    np.testing.assert_array_equal(part.observations["seen"], whole.observations["seen"][slots])
    for name in ("reward", "terminated", "truncated", *optional()):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[slots])
    if not ended:
        assert part.final_observations is part.final_info is part.final_action_mask is None
        return
    assert part.final_observations is not None and part.final_info is not None and part.final_action_mask is not None
    assert part.final_observations["seen"].tolist() == [[10.0 * slot, 10.0 * slot + 1] for slot in ended]
    assert part.final_action_mask.tolist() == [[slot == 1, slot == 3] for slot in ended]
    rows = [(slot - 1) // 2 for slot in ended]
    assert list(part.final_info) == ["result", "moves"]
    for name, values in numbers.items():
        np.testing.assert_array_equal(part.final_info[name], values[rows])


def test_a_behavior_of_some_slots_keeps_their_environments_teams_and_groups() -> None:
    columns: dict[str, Any] = {
        "env_index": np.array([0, 0, 1, 1]),
        "team": np.array([5, 6, 5, 6]),
        "group": np.array([0, 1, 2, 3]),
    }
    whole = BehaviorSpec("Agent", (SEEN,), discrete=(2,), **columns)
    part = whole.take(np.array([3, 0]))
    assert part.slots == 2 and (part.name, part.observations, part.discrete) == ("Agent", (SEEN,), (2,))
    assert {name: getattr(part, name).tolist() for name in columns} == {
        name: column[[3, 0]].tolist() for name, column in columns.items()
    }
    alone = attrs.evolve(whole, team=None, group=None).take(np.array([1]))
    assert alone.team is None and alone.group is None and alone.env_index.tolist() == [0]


@pytest.mark.parametrize("continuous", [None, np.arange(8, dtype=np.float32).reshape(4, 2)], ids=["none", "reals"])
@pytest.mark.parametrize("discrete", [None, np.arange(4)[:, None]], ids=["none", "choices"])
@pytest.mark.parametrize("parts", [[[0, 1, 2, 3]], [[3, 0], [2, 1]], [[2], [], [0, 1, 3]]], ids=str)
def test_actions_that_are_taken_and_joined_are_as_before(
    continuous: Any, discrete: Any, parts: list[list[int]]
) -> None:
    whole = Actions(continuous, discrete)
    slots = [np.array(part, np.int64) for part in parts]
    joined = Actions.joined((each, whole.take(each)) for each in slots)
    for ours, theirs in ((joined.continuous, continuous), (joined.discrete, discrete)):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.dtype == theirs.dtype and ours.tolist() == theirs.tolist()
