"""Batches of several workers are joined into the batch of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore import Actions, AgentBatch, BehaviorSpec, EnvironmentFailed, NonFiniteError, ObservationSpec
from rlcore_workers.arrays import RunArrays
from rlcore_workers.create import split
from rlcore_workers.layout import Layout

SEEN = ObservationSpec("seen", (2,), np.float32)


def spec(env_index: list[int], **more: Any) -> BehaviorSpec:
    return BehaviorSpec("A", (SEEN,), discrete=(3,), env_index=np.array(env_index), **more)


def joined(parts: list[list[int]], bounds: list[int], **more: Any) -> RunArrays:
    layout = Layout.of([{"A": spec(part, **more)} for part in parts], bounds, parameters=1)
    arrays = RunArrays(layout, bytearray(layout.size))
    arrays.fill_defaults()
    return arrays


def batch(values: list[float], terminated: list[bool], **more: Any) -> AgentBatch:
    rows = np.array(values, np.float32)
    over = np.array(terminated)
    finals = {"seen": np.stack([rows, -rows], 1)[over] + 100} if over.any() else None
    return AgentBatch(
        {"seen": np.stack([rows, -rows], 1)}, rows * 2, over, np.zeros(len(rows), np.bool_), final_observations=finals,
        **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("num_envs", "workers", "counts"), [(5, 2, [3, 2]), (4, 4, [1, 1, 1, 1]), (7, 3, [3, 2, 2]), (2, 1, [2])]
)
def test_environments_are_split_as_equally_as_possible(num_envs: int, workers: int, counts: list[int]) -> None:
    assert split(num_envs, workers) == counts


def test_slots_in_the_order_of_environments_follow_each_other() -> None:
    arrays = joined([[0, 0, 1, 1], [0, 0]], [0, 2, 3])
    assert arrays.layout.behaviors["A"].env_index.tolist() == [0, 0, 1, 1, 2, 2]
    arrays.part(0).put({"A": batch([0, 1, 2, 3], [False, True, False, False])}, np.array([4, 5]))
    arrays.part(1).put({"A": batch([4, 5], [True, False])}, np.array([6]))
    whole = arrays.batches({})["A"]
    assert whole.observations["seen"][:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert whole.reward.tolist() == [0, 2, 4, 6, 8, 10]
    assert whole.ended.tolist() == [1, 4]
    assert whole.final_observations is not None
    assert whole.final_observations["seen"].tolist() == [[101, 99], [104, 96]]
    assert arrays.episodes.tolist() == [4, 5, 6]
    assert (whole.needs_action, whole.action_mask, whole.aborted, whole.group_reward) == (None,) * 4


def test_slots_of_the_same_place_in_all_environments_stay_together() -> None:
    """An environment that lists the first agents of all environments, then the second ones."""
    arrays = joined([[0, 1, 0, 1], [0, 1, 2, 0, 1, 2]], [0, 2, 5])
    assert arrays.layout.behaviors["A"].env_index.tolist() == [0, 1, 2, 3, 4] * 2
    arrays.part(0).put({"A": batch([0, 1, 10, 11], [False, False, True, False])}, np.zeros(2, np.int64))
    arrays.part(1).put({"A": batch([2, 3, 4, 12, 13, 14], [False] * 6)}, np.zeros(3, np.int64))
    whole = arrays.batches({})["A"]
    assert whole.observations["seen"][:, 0].tolist() == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    assert whole.ended.tolist() == [5]
    arrays.put_actions({"A": Actions(None, np.arange(10)[:, None])})
    chosen = arrays.part(1).actions()["A"].discrete
    assert chosen is not None and chosen[:, 0].tolist() == [2, 3, 4, 7, 8, 9]


def test_what_one_worker_leaves_out_has_its_default_beside_what_another_gives() -> None:
    arrays = joined([[0, 1], [0]], [0, 2, 3])
    mask = np.array([[True, False, True], [False, True, True]])
    first = batch([0, 1], [False] * 2, needs_action=np.array([True, False]), action_mask=mask)
    arrays.part(0).put({"A": first}, np.zeros(2, np.int64))
    arrays.part(1).put({"A": batch([2], [False])}, np.zeros(1, np.int64))
    whole = arrays.batches({})["A"]
    assert whole.needs_action is not None and whole.needs_action.tolist() == [True, False, True]
    assert whole.action_mask is not None and whole.action_mask.tolist() == [*mask.tolist(), [True, True, True]]
    arrays.part(0).put({"A": batch([0, 1], [False] * 2)}, np.zeros(2, np.int64))
    arrays.part(0).put({"A": batch([0, 1], [False] * 2)}, np.zeros(2, np.int64))


def test_masks_of_final_observations_are_those_of_each_worker_in_the_order_of_slots() -> None:
    arrays = joined([[0, 1, 0, 1], [0, 1, 0, 1]], [0, 2, 4])  # the slots of the workers are 0, 1, 4, 5 and 2, 3, 6, 7
    masks = [np.array([[True, False, True], [False, False, True]]), np.array([[False, True, False]])]
    for mask, ended in ((masks, [0, 3, 5]), ([masks[0], None], [0, 3, 5]), ([None, None], [0, 3, 5])):
        first = batch([0, 1, 2, 3], [True, False, False, True], final_action_mask=mask[0])
        arrays.part(0).put({"A": first}, np.zeros(2, np.int64))
        second = batch([4, 5, 6, 7], [False, True, False, False], final_action_mask=mask[1])
        arrays.part(1).put({"A": second}, np.zeros(2, np.int64))
        whole = arrays.batches({})["A"]
        assert whole.ended.tolist() == ended
        expected = [
            [True, False, True],
            [False, True, False] if mask[1] is not None else [True] * 3,
            [False, False, True],
        ]
        found = whole.final_action_mask
        assert (None if found is None else found.tolist()) == (None if mask[0] is None else expected)


def test_an_array_that_is_left_out_again_is_left_out_of_the_whole() -> None:
    arrays = joined([[0], [0]], [0, 1, 2])
    parts = [arrays.part(0), arrays.part(1)]
    for aborted in (np.array([True]), None):
        parts[0].put({"A": batch([0], [False], aborted=aborted)}, np.zeros(1, np.int64))
        parts[1].put({"A": batch([1], [False])}, np.zeros(1, np.int64))
        whole = arrays.batches({})["A"].aborted
        assert (None if whole is None else whole.tolist()) == (None if aborted is None else [True, False])


def test_numbers_of_ended_episodes_are_nan_where_a_worker_has_none() -> None:
    arrays = joined([[0, 1], [0, 1]], [0, 2, 4])
    infos: dict[int, Any] = {}
    for part, (ended, info) in enumerate([([True, True], {"won": np.array([1.0, 0.0])}), ([False, True], None)]):
        got = arrays.part(part).put({"A": batch([0, 1], ended, final_info=info)}, np.zeros(2, np.int64))
        if got is not None:
            infos[part] = got
    whole = arrays.batches(infos)["A"]
    assert whole.ended.tolist() == [0, 1, 3]
    assert whole.final_info is not None
    np.testing.assert_array_equal(whole.final_info["won"], [1.0, 0.0, np.nan])


def test_groups_of_different_workers_are_different_groups() -> None:
    layout = Layout.of([{"A": spec([0, 0, 1, 1], group=np.array([0, 1, 2, 3]))}] * 2, [0, 2, 4], 0)
    group = layout.behaviors["A"].group
    assert group is not None and group.tolist() == list(range(8))


def test_aborted_rows_and_rows_without_a_worker() -> None:
    arrays = joined([[0, 1], [0]], [0, 2, 3])
    arrays.part(0).put({"A": batch([0, 1], [True, False])}, np.zeros(2, np.int64))
    arrays.part(1).put({"A": batch([2], [False])}, np.zeros(1, np.int64))
    lost = arrays.batches({}, lost={1})["A"].aborted
    assert lost is not None and lost.tolist() == [False, False, True]
    arrays.silence(0)
    whole = arrays.batches({})["A"]
    assert whole.needs_action is not None and whole.needs_action.tolist() == [False, False, True]
    assert whole.ended.size == 0 and whole.reward.tolist() == [0, 0, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": np.zeros(3, np.float32)}, "reward is an array of shape [3], not of shape [2]"),
        ({"reward": np.zeros(2, np.int64)}, "reward is of dtype int64, which its behavior declares as float32"),
        ({"terminated": None}, "terminated is NoneType, not of shape [2]"),
        ({"observations": {}}, "observation 'seen' is missing"),
        ({"observations": {"seen": np.zeros((2, 1), np.float32)}}, "'seen' is an array of shape [2, 1], not of shape"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    wrong = batch([0, 1], [False] * 2)
    for name, value in change.items():
        setattr(wrong, name, value)
    with pytest.raises(EnvironmentFailed) as failed:
        joined([[0, 1]], [0, 2]).part(0).put({"A": wrong}, np.zeros(2, np.int64))
    assert message in str(failed.value)


NAN = float("nan")


@pytest.mark.parametrize("envs", [[0, 1], [1, 0]], ids=["a block of rows", "rows apart"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": np.array([0.0, NAN])}, "reward of slot {second} is nan; fix the environment"),
        ({"group_reward": np.array([np.inf, 0.0])}, "group reward of slot {first} is inf; fix"),
        ({"observations": {"seen": np.array([[0.0, NAN], [0.0, 0.0]])}}, "'seen' of slot {first} is [ 0. nan]; fix"),
        ({"observations": {"seen": np.array([[1.0, 0.0], [1e39, 0.0]])}}, "is [1.e+39 0.e+00]; values beyond 3.4e+38"),
        ({"final_observations": {"seen": np.array([[0.0, -np.inf]])}}, "final observation 'seen' of slot {second} is"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_numbers_that_are_not_finite_are_refused_with_their_environment(
    envs: list[int], change: dict[str, Any], message: str
) -> None:
    """As in one process; a worker does not know at which step of the run it is."""
    wrong = batch([0, 1], [False, True])
    for name, value in change.items():
        setattr(wrong, name, value)
    arrays = joined([[0, 1], envs], [0, 2, 4])
    with pytest.raises(NonFiniteError) as failed:
        arrays.part(1).put({"A": wrong}, np.zeros(2, np.int64))
    slots = np.arange(4)[arrays.layout.rows[1]["A"]]
    places = [f"{slot} (environment {arrays.layout.behaviors['A'].env_index[slot]})" for slot in slots]
    assert message.format(first=places[0], second=places[1]) in str(failed.value)
    arrays.silence(1)
    assert np.isfinite(arrays.batches({})["A"].observations["seen"]).all()


@pytest.mark.filterwarnings("ignore:overflow encountered in dot")
def test_large_numbers_that_are_finite_are_accepted() -> None:
    large = batch([0, 0], [False] * 2)
    large.observations = {"seen": np.full((2, 2), 3e38, np.float32)}
    joined([[0, 1]], [0, 2]).part(0).put({"A": large}, np.zeros(2, np.int64))


def test_workers_with_different_behaviors_are_refused() -> None:
    with pytest.raises(EnvironmentFailed, match="worker 1"):
        Layout.of([{"A": spec([0])}, {"B": spec([0])}], [0, 1, 2], 0)
    other = BehaviorSpec("A", (SEEN,), discrete=(4,), env_index=np.array([0]))
    with pytest.raises(EnvironmentFailed, match="behavior 'A' of worker 1"):
        Layout.of([{"A": spec([0])}, {"A": other}], [0, 1, 2], 0)
