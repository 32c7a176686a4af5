"""Checks of what a curriculum answers and of what it does with its arguments, while a test plays with it."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Changes, Curriculum, EndedEpisodes, LessonChange


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


class Shielded:
    """A curriculum that receives read-only arrays. Its answers are checked.

    A run checks shapes, finite numbers and the names of parameters. It relies on the types that are checked here.
    """

    def __init__(self, curriculum: Curriculum) -> None:
        self.curriculum = curriculum

    def __getattr__(self, name: str) -> Any:
        return getattr(self.curriculum, name)

    def episodes_ended(self, ended: EndedEpisodes) -> None:
        for field in attrs.fields(EndedEpisodes):
            value = getattr(ended, field.name)
            if isinstance(value, np.ndarray):
                copy = read_only(value.copy())
                setattr(ended, field.name, copy)
        self.curriculum.episodes_ended(ended)

    def advance(self, steps: Mapping[str, int]) -> Changes:
        changes = self.curriculum.advance(steps)
        assert isinstance(changes, Changes), "advance must return Changes; NO_CHANGES if there are none"
        assert isinstance(changes.lessons, tuple)
        assert type(changes.redraw) is bool
        assert type(changes.reset) is bool
        for change in changes.lessons:
            assert isinstance(change, LessonChange)
            assert change.parameter in self.curriculum.parameters
            for number in (change.lesson, change.previous):
                assert isinstance(number, int) and number >= 0, f"{change}: lessons are counted from 0"
            for name in (change.name, change.previous_name):
                assert isinstance(name, str), f"{change}: the names of lessons are text"
        return changes

    def stats(self) -> Mapping[str, float]:
        stats = self.curriculum.stats()
        assert isinstance(stats, Mapping)
        for tag, value in stats.items():
            assert isinstance(tag, str)
            assert isinstance(value, Real)
        return stats

    def status(self) -> Mapping[str, Mapping[str, Any]]:
        status = self.curriculum.status()
        for name, section in status.items():
            assert isinstance(section, Mapping), f"the section {name!r} is not a mapping"
            lesson = section.get("lesson_num", 0)
            assert isinstance(lesson, int | np.integer), f"lesson_num of {name!r} is not a whole number"
        return status

    def state_dict(self) -> dict[str, Any]:
        state = self.curriculum.state_dict()
        assert isinstance(state, Mapping)
        return dict(state)
