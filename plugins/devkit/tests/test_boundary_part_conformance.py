"""The rules of parts of a boundary: a good one passes, and each wrong one fails the test of its mistake."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlcore import BoundaryPart, Plugins, derive_generator, generator_state, restore_generator
from rlcore_devkit import BoundaryPartConformance


class Ticks(BoundaryPart):
    next_step = 100

    def __init__(self) -> None:
        self.generator = derive_generator(1, "ticks")
        self.drawn: list[float] = []

    def do(self, step: int) -> None:
        self.drawn.append(float(self.generator.random()))
        self.next_step = step + 100

    def state_dict(self) -> Mapping[str, Any]:
        return {"drawn": list(self.drawn), "next": self.next_step, "generator": generator_state(self.generator)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.drawn = list(state["drawn"])
        self.next_step = state["next"]
        restore_generator(self.generator, state["generator"])


class Forgetful(Ticks):
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.drawn = list(state["drawn"])
        self.next_step = state["next"]


class Impatient(Ticks):
    def do(self, step: int) -> None:
        """Stay due."""


class Global(Ticks):
    def do(self, step: int) -> None:
        super().do(step)
        random.random()


class _Rules(BoundaryPartConformance):
    """The rules without a record, for parts that no plugin has."""

    made: type[Ticks] = Ticks

    def plugins(self) -> Plugins:
        return Plugins()

    def make(self) -> BoundaryPart:
        return self.made()


RULES = ("test_a_saved_part_continues_as_if_it_was_not_saved", "test_a_part_that_was_done_moves_on",
         "test_global_generators_are_left_alone")  # fmt: skip


@pytest.mark.parametrize(
    ("made", "broken"), list(zip((Ticks, Forgetful, Impatient, Global), ("", *RULES), strict=True))
)
def test_each_mistake_breaks_its_rule(made: type[Ticks], broken: str, tmp_path: Path) -> None:
    rules = _Rules()
    rules.made = made
    rules.directory = tmp_path
    failed = []
    for name in RULES:
        try:
            getattr(rules, name)()
        except AssertionError:
            failed.append(name)
    assert failed == ([broken] if broken else [])
