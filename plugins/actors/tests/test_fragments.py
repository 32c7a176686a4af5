"""The rollout that a learner makes of fragments, and which fragments it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore import BehaviorSpec, NonFiniteError, ObservationSpec, SavedValueError
from rlcore_actors.contract import Fragment
from rlcore_actors.fragments import FragmentRollout, require_fragment

SPEC = BehaviorSpec(
    "Agent", (ObservationSpec("x", (1,), np.float32),), discrete=(3,), env_index=np.arange(4, dtype=np.int64)
)


def fragment(first: int, start: float, rows: int = 2, continues: bool = True, version: int = 0) -> Fragment:
    """A fragment of two slots whose observations count up from ``start``; those of the second slot are 100 more."""
    numbers = start + np.arange(rows + 1)[:, None] + np.array([0.0, 100.0])
    transitions: dict[str, Any] = {
        "log_prob": np.full((rows, 2), -1.0, np.float32),
        "raw": np.zeros((rows, 2, 0), np.float32),
        "choices": np.ones((rows, 2, 1), np.int64),
        "reward": np.ones((rows, 2), np.float32),
        "terminated": np.zeros((rows, 2), np.bool_),
        "truncated": np.zeros((rows, 2), np.bool_),
        "final_rows": np.zeros((0, 2), np.int64),
        "observations": {"x": numbers[..., None].astype(np.float32)},
        "final_observations": {},
    }
    reward = transitions["reward"]
    return Fragment(first, 2, version, continues, transitions, reward, np.zeros_like(reward, np.bool_))


def observed(rollout: FragmentRollout, slot: int) -> list[float]:
    rows = int(rollout.lengths()[slot])
    return [float(value) for value in rollout.seen["x"][: rows + 1, slot, 0]]


def test_actors_of_different_speeds_have_different_numbers_of_rows() -> None:
    rollout = FragmentRollout(SPEC, 16, 0)
    counts = [rollout.append(fragment(first, start)) for first, start in ((0, 0), (2, 50), (0, 2), (0, 4), (0, 6))]
    assert counts == [4] * 5 and rollout.size == 20
    assert rollout.lengths().tolist() == [8, 8, 2, 2]
    assert observed(rollout, 0) == [0, 1, 2, 3, 4, 5, 6, 7, 8]  # more rows than it was made for
    assert observed(rollout, 3) == [150, 151, 152]
    assert not rollout.truncated.any()
    rollout.restart()
    assert rollout.size == 0 and rollout.seen["x"][0, :, 0].tolist() == [8, 108, 52, 152]
    rollout.append(fragment(2, 52, version=3))
    assert observed(rollout, 2) == [52, 53, 54] and rollout.version[:2, 2:].tolist() == [[3, 3], [3, 3]]


def test_a_fragment_that_does_not_continue_cuts_the_trajectory_before_it() -> None:
    rollout = FragmentRollout(SPEC, 32, 0)
    rollout.append(fragment(0, 0))
    rollout.append(fragment(2, 50))
    rollout.append(fragment(0, 70, continues=False))
    assert rollout.truncated[:2].tolist() == [[False] * 4, [True, True, False, False]]
    places, finals = rollout.finals()
    assert places.tolist() == [[1, 0], [1, 1]] and finals["x"].ravel().tolist() == [2, 102]  # what it would have seen
    assert observed(rollout, 0) == [0, 1, 70, 71, 72]
    assert rollout.cut_rows().tolist() == [[1, 0], [1, 1]]  # no episode ended there


def test_final_observations_are_at_the_rows_of_the_rollout() -> None:
    rollout = FragmentRollout(SPEC, 32, 0)
    rollout.append(fragment(2, 50))
    ended = fragment(2, 60)
    ended.transitions["terminated"][1, 1] = True
    transitions = {
        **ended.transitions,
        "final_rows": np.array([[1, 1]]),
        "final_observations": {"x": np.array([[9.0]], np.float32)},
    }
    rollout.append(attrs.evolve(ended, transitions=transitions))
    places, finals = rollout.finals()
    assert places.tolist() == [[3, 3]] and finals["x"].tolist() == [[9.0]]
    assert rollout.terminated[3].tolist() == [False, False, False, True]


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], type[Exception], str]] = {
    "rows": (lambda t: t.update(reward=np.ones((3, 2), np.float32)), SavedValueError, "'reward'"),
    "slots": (lambda t: t.update(log_prob=np.ones((2, 4), np.float32)), SavedValueError, "'log_prob'"),
    "type": (lambda t: t.update(choices=np.ones((2, 2, 1), np.float32)), SavedValueError, "'choices'"),
    "observation": (lambda t: t["observations"].clear(), SavedValueError, "'x' is missing"),
    "rows of ends": (lambda t: t.update(final_rows=np.array([[2, 0]])), SavedValueError, "'final_rows'"),
    "masks": (lambda t: t.update(masks=np.ones((2, 2, 3), np.bool_)), SavedValueError, "'masks'"),
    "NaN": (lambda t: t["reward"].fill(np.nan), NonFiniteError, "reward has a number that is not finite"),
    "infinity": (lambda t: t["observations"]["x"].fill(np.inf), NonFiniteError, "observation 'x'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_fragment_of_other_arrays_is_refused(wrong: str) -> None:
    change, kind, message = WRONG[wrong]
    found = fragment(0, 0)
    require_fragment(found, SPEC)
    change(dict_of := dict(found.transitions))
    with pytest.raises(kind, match=message):
        require_fragment(attrs.evolve(found, transitions=dict_of), SPEC)


def test_steps_are_shown_as_batches_in_which_other_slots_wait() -> None:
    found = fragment(2, 0)
    ended = found.ended.copy()
    ended[1, 0] = True
    found = attrs.evolve(found, ended=ended, info={"won": np.array([1.0])})
    lost, first, second = found.batches(4, aborts=True)
    assert lost.aborted is not None and lost.aborted.tolist() == [False, False, True, True]
    assert first.reward.tolist() == [0, 0, 1, 1] and not len(first.ended)
    assert first.needs_action is not None and first.needs_action.tolist() == [False, False, True, True]
    assert second.ended.tolist() == [2] and second.final_info == {"won": np.array([1.0])}
