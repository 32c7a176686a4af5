"""Episodes are handed on in the order in which they began, whatever they last."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore_curriculum.episodes_in_order import EpisodesInOrder

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


def test_an_episode_is_waited_for_while_64_others_of_each_environment_end() -> None:
    order = EpisodesInOrder(1, num_envs=100)
    numbers = np.arange(1, 6400)
    order.add(numbers, numbers.astype(float))
    assert order.pop(0) is None


step = st.tuples(
    st.sets(st.integers(0, SLOTS - 1)),  # whose episodes end
    st.sets(st.integers(0, SLOTS - 1), max_size=1),  # whose is lost
    st.sampled_from([False, False, False, True]),  # a checkpoint, and on from it
)


@given(history=st.lists(step, max_size=60), capacity=st.sampled_from([1, 2, 8, 64]))
@settings(deadline=None, derandomize=True)
def test_a_random_history_is_handed_on_as_by_plain_lists(history: list[Any], capacity: int) -> None:
    order = EpisodesInOrder(3, capacity=capacity)
    plain = Plain(capacity)
    numbers = np.arange(SLOTS)
    begun = SLOTS
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
        taken = order.pop(int(numbers.min()))
        expected = plain.pop(int(numbers.min()))
        if not expected:
            assert taken is None
        else:
            assert taken is not None
            assert taken.tolist() == [[value, 10 * value, 100 * value] for value in expected]
