"""Episodes are handed on in the order in which they began, whatever they last."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.run.curricula.episodes_in_order import EpisodesInOrder
from rlcore.storage.checkpoint import load_checkpoint
from rlcore.storage.checkpoints import save_checkpoint

SLOTS = 4


class Plain:
    """A plain model in lists: the numbers that wait, and those of open episodes."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.next = capacity, 0
        self.waiting: dict[int, float] = {}
        self.due: list[float] = []

    def add(self, number: int, value: float) -> None:
        if number < self.next:
            self.due.append(value)
        else:
            self.waiting[number] = value

    def make_room(self, largest: int) -> None:
        self.hand_on(largest - self.capacity + 1)

    def hand_on(self, until: int) -> None:
        self.next = max(self.next, until)
        for number in sorted(self.waiting):
            if number < self.next:
                self.due.append(self.waiting.pop(number))

    def pop(self, settled: int) -> list[float]:
        self.hand_on(settled)
        due, self.due = self.due, []
        return due


step = st.tuples(
    st.sets(st.integers(0, SLOTS - 1)),  # whose episodes end
    st.sets(st.integers(0, SLOTS - 1), max_size=1),  # whose is lost
    st.sampled_from([False, False, False, True]),  # a checkpoint, and on from it
)


@given(history=st.lists(step, max_size=60), capacity=st.sampled_from([1, 2, 8, 64]))
@settings(deadline=None, derandomize=True)
def test_a_random_history_is_handed_on_as_by_plain_lists(history: list[Any], capacity: int) -> None:
    order, plain = EpisodesInOrder(3, capacity=capacity), Plain(capacity)
    numbers, begun = np.arange(SLOTS), SLOTS
    for ended, lost, saved in history:
        rows = np.array(sorted(ended), np.int64)
        if rows.size:
            told = numbers[rows]
            plain.make_room(int(told.max()))
            for number in told.tolist():
                plain.add(number, float(number))
            order.add(told, told.astype(float), np.column_stack([told * 10, told * 100]))
        fresh = np.array(sorted(ended | lost), np.int64)
        numbers[fresh] = np.arange(begun, begun + fresh.size)
        begun += fresh.size
        if saved:
            state = order.state_dict()
            order = EpisodesInOrder(3, capacity=capacity)
            order.load_state_dict(state)
        taken, expected = order.pop(int(numbers.min())), plain.pop(int(numbers.min()))
        if not expected:
            assert taken is None
        else:
            assert taken is not None
            assert taken.tolist() == [[value, 10 * value, 100 * value] for value in expected]


def test_an_episode_that_outlasts_the_others_is_waited_for_so_long_and_comes_late() -> None:
    order = EpisodesInOrder(1, capacity=4)
    for number in range(1, 6):
        order.add(np.array([number]), np.array([float(number)]))
    taken = order.pop(0)
    assert taken is not None and taken[:, 0].tolist() == [1.0]
    order.add(np.array([0]), np.array([0.0]))
    taken = order.pop(6)
    assert taken is not None and taken[:, 0].tolist() == [0.0, 2.0, 3.0, 4.0, 5.0]
    assert order.pop(9) is None


def test_it_goes_through_a_checkpoint(tmp_path: Any) -> None:
    order = EpisodesInOrder(2, capacity=4)
    order.add(np.array([3, 9]), np.array([3.0, 9.0]), np.array([0.5, 1.5]))
    path = save_checkpoint(tmp_path, 1, {"order": order.state_dict()})
    other = EpisodesInOrder(2, capacity=4)
    other.load_state_dict(load_checkpoint(path)["order"])
    for each in (order, other):
        taken = each.pop(20)
        assert taken is not None and taken.tolist() == [[3.0, 0.5], [9.0, 1.5]]
